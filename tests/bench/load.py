"""Closed-loop load: a fixed number of calls is always open, and each that ends makes room for the next."""

from __future__ import annotations

import gc
import selectors
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import cycle
from statistics import median
from typing import Protocol

from tests.bench.exchange import Broken, Exchange, Line
from tests.bench.h2 import Connection, framed, grpc_headers
from tests.bench.processes import Server

SERVICE = "/lf.a2a.v1.A2AService"
PATIENCE = 60.0


class Work(Protocol):
    """What to send, and how much of it at once."""

    @property
    def name(self) -> str: ...

    @property
    def payloads(self) -> Sequence[bytes]:
        """Sent in turn."""
        ...

    @property
    def connections(self) -> int: ...

    @property
    def depth(self) -> int:
        """Calls open per connection."""
        ...

    @property
    def messages(self) -> int:
        """How many messages every answer must consist of."""
        ...

    def connect(self, server: Server) -> Line: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls through the gRPC door."""

    rpc: str
    bodies: Sequence[bytes]
    connections: int = 4
    depth: int = 8
    messages: int = 1

    @property
    def name(self) -> str:
        return self.rpc

    @property
    def payloads(self) -> Sequence[bytes]:
        return [framed(body) for body in self.bodies]

    def connect(self, server: Server) -> Line:
        return Connection(server.port, grpc_headers(f"{SERVICE}/{self.rpc}"))


@dataclass(frozen=True, slots=True)
class Load:
    """What one round came to. Times are seconds."""

    calls: int
    messages: int
    seconds: float
    server_cpu: float
    client_cpu: float
    latency: float
    """Median from the request to the end of the answer."""
    first: float
    """Median from the request to the first message of the answer."""

    @property
    def rate(self) -> float:
        return self.calls / self.seconds

    @property
    def message_rate(self) -> float:
        return self.messages / self.seconds


def drive(server: Server, work: Work, *, seconds: float = 0.0, calls: int = 0) -> Load:
    """Keep the server busy for a time, or for a number of calls, and see the last call to its end."""
    payloads = cycle(work.payloads)
    with ExitStack() as stack, undisturbed():
        lines = [stack.enter_context(closing(work.connect(server))) for _ in range(work.connections)]
        server_cpu, client_cpu, begun = server.cpu(), time.process_time(), time.perf_counter()
        more = _budget(begun + seconds if seconds else float("inf"), calls or float("inf"))
        ended = _exchange(lines, work.depth, payloads, more)
        elapsed = time.perf_counter() - begun
        server_cpu, client_cpu = server.cpu() - server_cpu, time.process_time() - client_cpu
    for exchange in ended:
        if exchange.messages != work.messages:
            found = f"{exchange.messages} messages instead of {work.messages}"
            raise Broken(f"{server.name} answered {work.name} by {found}")
    return Load(
        calls=len(ended),
        messages=sum(exchange.messages for exchange in ended),
        seconds=elapsed,
        server_cpu=server_cpu,
        client_cpu=client_cpu,
        latency=median(exchange.ended - exchange.begun for exchange in ended),
        first=median(exchange.first - exchange.begun for exchange in ended),
    )


def _budget(until: float, calls: float) -> Callable[[], bool]:
    """Whether one more call may begin."""

    def more() -> bool:
        nonlocal calls
        calls -= 1
        return calls >= 0 and time.perf_counter() < until

    return more


def _exchange(lines: Sequence[Line], depth: int, payloads: Iterator[bytes], more: Callable[[], bool]) -> list[Exchange]:
    ended: list[Exchange] = []
    with selectors.DefaultSelector() as selector:
        for line in lines:
            selector.register(line.socket, selectors.EVENT_READ, line)
            _start(line, depth, payloads, more)
        while any(line.open for line in lines):
            ready = selector.select(PATIENCE)
            if not ready:
                raise Broken(f"the server has been silent for {PATIENCE:g} s")
            for key, _ in ready:
                line = key.data
                over = line.receive()
                ended += over
                _start(line, len(over), payloads, more)
    return ended


def _start(line: Line, count: int, payloads: Iterator[bytes], more: Callable[[], bool]) -> None:
    for _ in range(count):
        if more():
            line.start(next(payloads))
    line.flush()


@contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage collection in between; load makes no cycles."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
