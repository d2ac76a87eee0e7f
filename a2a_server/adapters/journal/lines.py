"""Lines of JSON, and a file that they are appended to (spec: SECR-01, SECR-07)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import orjson
import structlog

_PRIVATE = 0o600
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
"""Without blocking: a pipe that nobody reads counts as a full disk."""
_MOST_UNWRITTEN = 4 * 1024**2
"""Bytes that wait while the disk takes none."""
_SILENCE = 60.0
_DELETE = b"\x7f"

log = structlog.get_logger(__name__)


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@lru_cache(maxsize=4)
def stamp_of(millis: int) -> str:
    """The time, as the log writes it. Many calls end within the same millisecond."""
    seconds, rest = divmod(millis, 1000)
    return f"{_second(seconds)}.{rest:03d}Z"


def json_of(fields: Mapping[str, object]) -> str:
    """An object of JSON; all of it printable ASCII, whatever is in the fields."""
    try:
        text = orjson.dumps(fields)
        if text.isascii() and _DELETE not in text:
            return text.decode()
    except TypeError:  # a lone surrogate
        pass
    return json.dumps(fields, separators=(",", ":"))


def line_of(fields: Mapping[str, object], seconds: float) -> bytes:
    """One line of JSON with a time."""
    return json_of({"timestamp": stamp_of(int(seconds * 1000)), **fields}).encode() + b"\n"


class LineFile:
    """A file that only grows. When it is moved away, the next line begins a new one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._unwritten = b""
        self._lost = 0
        self._complained = float("-inf")
        self._open()

    def write(self, lines: list[bytes]) -> None:
        """Append lines. What the disk does not take is tried again with the next ones, and lost if it is too much."""
        for number, line in enumerate(lines):
            if len(self._unwritten) + len(line) > _MOST_UNWRITTEN:
                self._lost += len(lines) - number
                break
            self._unwritten += line
        try:
            if self._moved():
                self._open()
            while self._unwritten:
                self._unwritten = self._unwritten[os.write(self._fd, self._unwritten) :]
        except OSError as error:
            self._complain(error)

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._fd)

    def _open(self) -> None:
        fd = os.open(self._path, _FLAGS, _PRIVATE)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd

    def _moved(self) -> bool:
        try:
            return not os.path.samestat(Path(self._path).stat(), os.fstat(self._fd))
        except FileNotFoundError:
            return True

    def _complain(self, error: OSError) -> None:
        if time.monotonic() - self._complained < _SILENCE:
            return
        self._complained = time.monotonic()
        waiting, lost = len(self._unwritten), self._lost
        log.error("audit.unwritable", why=error.strerror, path=self._path, waiting_bytes=waiting, lost_lines=lost)
