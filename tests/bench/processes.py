"""Servers as processes on a core of their own, and what they cost."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, CLIENT_CORE = _CORES[0], _CORES[-1]
GATEWAY_CORE = _CORES[1 % len(_CORES)]
"""For a second server; where there are but two cores it shares the load's."""
_START, _STOP = 60.0, 10.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
_ALIKE = {"PYTHONHASHSEED": "0"}
"""Otherwise each process has hashes of its own, which make it a per cent faster or slower than its twin."""


class NotStarted(Exception):  # noqa: N818 - the bench stops with it
    """The server did not come up; the message ends with what it said."""


@dataclass(slots=True)
class Server:
    """A running server."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    port: int = 0
    """Of its gRPC door; 0 = it has none."""
    http: int = 0
    """Of its HTTP door."""

    def cpu(self) -> float:
        """Seconds of processor time that all its threads have used so far."""
        return cpu_of(self.process.pid)

    def memory(self) -> int:
        """Bytes of it that are in RAM."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1]) * _PAGE

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(_STOP)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def wait(self) -> None:
        """Return when it accepts connections."""
        for port in filter(None, (self.port, self.http)):
            self._wait(port)

    def _wait(self, port: int) -> None:
        end = time.monotonic() + _START
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.05)
        said = self.log.read_text("utf-8", "replace")[-2000:]
        raise NotStarted(f"{self.name} does not listen on port {port}:\n{said}")


def cpu_of(pid: int) -> float:
    """Seconds of processor time that a process has used so far; to the nanosecond, unlike /proc/…/stat."""
    return time.clock_gettime(~pid << 3 | 2)  # clock_getcpuclockid(3), which Python lacks


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run, and where."""

    name: str
    command: Sequence[str]
    folder: Path
    port: int = 0
    http: int = 0
    extra: Mapping[str, str] = field(default_factory=dict)
    """Environment variables."""
    core: int = SERVER_CORE
    home: Path | None = None
    """Where it runs, if not here: Python programs find their packages there."""

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"


def python(*arguments: str) -> Sequence[str]:
    """A command that runs a Python program as we are run."""
    return [sys.executable, *arguments]


@contextmanager
def running(program: Program) -> Iterator[Server]:
    """Run a program for the duration of the block."""
    with program.log.open("wb") as output, on_core(program.core):
        process = subprocess.Popen(
            program.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_ALIKE, **program.extra},
            cwd=program.home,
        )
    server = Server(program.name, process, program.log, program.port, program.http)
    try:
        server.wait()
        yield server
    finally:
        server.stop()


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Processes started meanwhile inherit it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
