"""Runs the client as its users do: a process, its output, and its exit code."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.processes import ROOT

LINE = [sys.executable, "-m", "a2a_server"]
TAKE_TERMINAL = (  # makes it the one whose Ctrl-C the process gets
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


@dataclass(frozen=True)
class Done:
    """What a command has left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document."""
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> Any:
        return self.lines[-1]["error"]

    def labels(self) -> list[str]:
        """The labels of the text, which stand outside of blocks."""
        return [line.partition(":")[0] for line in self.out.splitlines() if line and not line.startswith("  ")]


@dataclass
class CommandRunner:
    """`a2ad` in a folder of its own, which is also its home."""

    home: Path

    def environment(self, **variables: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("A2A_", "A2ACLI_"))}
        return {**kept, "PYTHONPATH": str(ROOT), "HOME": str(self.home), "NO_PROXY": "*", **variables}

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*LINE, *arguments],
            cwd=self.home,
            env=self.environment(**variables),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )

    def run(self, *arguments: str, stdin: str = "", **variables: str) -> Done:
        return finished(self.start(*arguments, **variables), stdin)

    def each(self, lines: Sequence[Sequence[str]], **variables: str) -> list[Done]:
        """Run several at once."""
        processes = [self.start(*line, **variables) for line in lines]
        return [finished(process) for process in processes]

    def over(self, *arguments: str, **variables: str) -> list[Done]:
        """Run the same over each binding."""
        return self.each([[*arguments, "--transport", binding] for binding in BINDINGS], **variables)

    @contextmanager
    def on_terminal(self, *arguments: str, **variables: str) -> Iterator[Terminal]:
        descriptor, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *LINE, *arguments],
            cwd=self.home,
            env=self.environment(TERM="xterm", **variables),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        try:
            yield Terminal(process, descriptor)
        finally:
            process.kill()
            process.wait(60)
            os.close(descriptor)


def finished(process: subprocess.Popen[str], stdin: str = "") -> Done:
    try:
        out, err = process.communicate(stdin, timeout=60)
    finally:
        process.kill()
    return Done(process.returncode, out, err)


class Terminal:
    """A person at a terminal."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self._process, self._descriptor = process, descriptor
        self.seen = ""

    def until(self, text: str) -> str:
        """Read until a text has come; return what came before it, too."""
        end = time.monotonic() + 30
        start = len(self.seen)
        while text not in self.seen[start:]:
            assert time.monotonic() < end, f"{text!r} has not come: {self.seen!r}"
            if not self._read():
                raise AssertionError(f"{text!r} has not come: {self.seen!r}")
        return self.seen[start:]

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def end(self) -> int:
        """Read to the end, and return the exit code."""
        while self._read():
            pass
        return self._process.wait(60)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], 30)
        assert ready, f"nothing more has come: {self.seen!r}"
        try:
            chunk = os.read(self._descriptor, 4096)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.seen += chunk.decode(errors="replace").replace("\r\n", "\n")
        return bool(chunk)
