"""One of several processes that serve together: what its supervisor tells it, and what it answers (spec: OPER-07).

Both ends of the line are here. It is a pair of sockets, and whoever ends closes its end, whatever has happened to it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Self

import structlog

from a2a_server.settings import Settings

STOP, LEAVE = "stop", "leave"
"""What a supervisor says: drain and end; or let clients go over to the other workers first."""
OVERTIME = 4.5
"""How long a process may take to end after the grace period, in seconds. Draining alone takes less."""
_VARIABLE = "A2AD_WORKER"
_LAST_SECONDS = 5.0
"""How long a worker without a supervisor goes on."""
_MOST_LATE, _MARGIN = 1.1, 5.0
"""gRPC ends a connection up to a tenth later than it should, and only after the calls that are open."""

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
    return settings.reload_grace * _MOST_LATE + _MARGIN


class Link:
    """The worker's end of the line. A thread listens, so that a blocked event loop holds nothing up."""

    def __init__(self, assignment: Assignment) -> None:
        self.number = assignment.number
        self._socket = socket.socket(fileno=assignment.descriptor)
        self._socket.set_inheritable(False)
        self._stop: Callable[[], None] = partial(os.kill, os.getpid(), signal.SIGTERM)
        """Until the server has begun to start."""
        self._leave: Callable[[], object] | None = None
        self._told_to_leave = False
        threading.Thread(target=self._listen, name="supervisor", daemon=True).start()

    def attach(self, *, stop: Callable[[], None], leave: Callable[[], object]) -> None:
        """Set what is called, in another thread, and maybe more than once."""
        self._stop, self._leave = stop, leave
        if self._told_to_leave:
            leave()

    def ready(self, greeting: str) -> None:
        """Say that this worker serves."""
        with suppress(OSError):  # the supervisor is gone
            self._socket.sendall(json.dumps(greeting).encode() + b"\n")

    def _listen(self) -> None:
        with suppress(OSError, RuntimeError), self._socket.makefile("r", encoding="ascii") as lines:
            for line in lines:
                if line.strip() == LEAVE:
                    self._told_to_leave = True
                    if self._leave is not None:
                        self._leave()
                else:
                    self._stop()
        log.error("supervisor.gone", why="it has ended without stopping its workers; this one ends, too")
        self._stop()
        time.sleep(_LAST_SECONDS)
        os._exit(1)
