"""A process that serves under a supervisor: what it is told, and what it answers (spec: OPER-07, AGNT-09).

Both ends of the line are here. It is a pair of sockets, and whoever ends closes its end, whatever has happened to it.

1. The supervisor gives a new process an `Assignment`, and has a `Worker` to speak with it. The process has a `Link`.
2. At LOAD the worker loads the agent, and says so.
3. At BEGIN it opens the store and the ports, and says what a server says when it is open.
4. STOP and LEAVE end it.

Most workers are told the first two at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Self

import structlog

from a2a_server.settings import Settings

LOAD, BEGIN, STOP, LEAVE = "load", "begin", "stop", "leave"
"""What a supervisor says: load the agent; serve; drain and end; let clients go over to other workers and then end."""
OVERTIME = 4.5
"""How long a process may take to end after the grace period, in seconds. Draining alone takes less."""
_VARIABLE = "A2AD_WORKER"
_LAST_SECONDS = 5.0
"""How long a worker without a supervisor goes on."""
_MOST_LATE, _LEAVING_MARGIN = 1.1, 5.0
"""gRPC ends a connection up to a tenth later than it should, and only after the calls that are open."""
_MARGIN = 3.0
"""How many seconds later than it should a worker may end before it is killed."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a worker is told at its start."""

    number: int
    grpc: str
    """Where to listen, with the ports that the supervisor has reserved."""
    http: str
    descriptor: int
    """Its end of the line."""
    develops: bool = False
    """Whether the agent's code may change at any moment."""

    def environment(self) -> Mapping[str, str]:
        return {_VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def taken(cls) -> Self | None:
        """Read it in the worker; None in a process that is none. What the agent starts shall not find it."""
        told = os.environ.pop(_VARIABLE, None)
        return None if told is None else cls(**json.loads(told))

    def applied_to(self, settings: Settings) -> Settings:
        ages = filter(None, (settings.transport.max_connection_age, settings.reload_grace))
        transport = replace(settings.transport, max_connection_age=min(ages))
        return settings.model_copy(update={"grpc": self.grpc, "http": self.http, "transport": transport})


def leaving_seconds(settings: Settings) -> float:
    """How long a worker waits for its clients to go over to others."""
    return settings.reload_grace * _MOST_LATE + _LEAVING_MARGIN


@dataclass(slots=True, eq=False)
class Worker:
    """A process that serves, or is about to, as its supervisor sees it."""

    number: int
    process: asyncio.subprocess.Process
    line: asyncio.StreamWriter
    settings: Settings
    """As they were when it started."""
    began: float
    loaded: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Whether it has loaded the agent; False = it ended before."""
    greeting: asyncio.Future[str | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """What it said when it was ready; None = it ended before."""

    def tell(self, word: str) -> None:
        self.line.write(f"{word}\n".encode())

    async def listen(self, reader: asyncio.StreamReader) -> None:
        """Follow it until it serves, or has ended."""
        with suppress(OSError):
            if await reader.readline():
                self.loaded.set_result(True)
                if told := await reader.readline():
                    self.greeting.set_result(json.loads(told))

    def has_ended(self) -> None:
        self.line.close()
        if not self.loaded.done():
            self.loaded.set_result(False)
        if not self.greeting.done():
            self.greeting.set_result(None)

    async def ends_within(self, seconds: float) -> None:
        """Wait for its end, and kill it if that does not come."""
        try:
            async with asyncio.timeout(seconds):
                await self.process.wait()
        except TimeoutError:
            log.warning("worker.killed", worker=self.number, pid=self.process.pid, why="it did not end in time")
            self.kill()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()

    @property
    def drain_seconds(self) -> float:
        limits = self.settings.limits
        return limits.drain_delay + limits.drain_grace + OVERTIME + _MARGIN

    @property
    def end(self) -> str:
        status = self.process.returncode or 0
        return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


class Link:
    """The worker's end of the line. A thread listens, so that a blocked event loop holds nothing up."""

    def __init__(self, assignment: Assignment) -> None:
        self.number = assignment.number
        self._develops = assignment.develops
        self._socket = socket.socket(fileno=assignment.descriptor)
        self._socket.set_inheritable(False)
        self._stop: Callable[[], None] = partial(os.kill, os.getpid(), signal.SIGTERM)
        """Until the server has begun to start."""
        self._leave: Callable[[], object] | None = None
        self._told_to_leave = False
        self._told = {LOAD: threading.Event(), BEGIN: threading.Event()}
        threading.Thread(target=self._listen, name="supervisor", daemon=True).start()

    def wait_to_load(self) -> None:
        """Wait until this worker may read settings and load the agent."""
        self._told[LOAD].wait()
        # Bytecode counts as fresh if the time of its source, in seconds, and the size are the same: too coarse here.
        sys.dont_write_bytecode |= self._develops

    def wait_to_begin(self) -> None:
        """Say that the agent is loaded, and wait until this worker may open the store and take the ports."""
        self._say("loaded")
        self._told[BEGIN].wait()

    def attach(self, *, stop: Callable[[], None], leave: Callable[[], object]) -> None:
        """Set what is called, in another thread, and maybe more than once."""
        self._stop, self._leave = stop, leave
        if self._told_to_leave:
            leave()

    def ready(self, greeting: str) -> None:
        """Say that this worker serves."""
        self._say(greeting)

    def _say(self, text: str) -> None:
        with suppress(OSError):  # the supervisor is gone
            self._socket.sendall(json.dumps(text).encode() + b"\n")

    def _listen(self) -> None:
        with suppress(OSError, RuntimeError), self._socket.makefile("r", encoding="ascii") as lines:
            for line in lines:
                word = line.strip()
                if word in self._told:
                    self._told[word].set()
                elif word == LEAVE:
                    self._told_to_leave = True
                    if self._leave is not None:
                        self._leave()
                else:
                    self._stop()
        self._stop()
        with suppress(OSError):  # who reads the log may have ended with the supervisor
            log.error("supervisor.gone", why="it has ended without stopping its workers; this one ends, too")
        time.sleep(_LAST_SECONDS)
        os._exit(1)
