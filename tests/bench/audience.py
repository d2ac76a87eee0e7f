"""Many subscribers of one task: how fast its events reach all of them, and what that costs the server."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from a2a_proto import a2a_pb2 as pb
from tests.bench.doors import REST, Request, ask
from tests.bench.exchange import Broken, Exchange
from tests.bench.http1 import DONE, Connection
from tests.bench.load import PATIENCE, undisturbed
from tests.bench.processes import Server
from tests.bench.requests import Show

_SMALL_BUFFER = 4096


@dataclass(frozen=True, slots=True)
class Delivery:
    """What came of one show. Times are seconds."""

    events: int
    """Of all subscribers together, without the one with which each began."""
    seconds: float
    server_cpu: float
    client_cpu: float

    @property
    def rate(self) -> float:
        return self.events / self.seconds

    @property
    def cost(self) -> float:
        """Microseconds of the server's processor time per event and subscriber."""
        return 1e6 * self.server_cpu / self.events

    def __add__(self, other: Delivery) -> Delivery:
        return Delivery(
            self.events + other.events,
            self.seconds + other.seconds,
            self.server_cpu + other.server_cpu,
            self.client_cpu + other.client_cpu,
        )


@dataclass(frozen=True, slots=True)
class Stage:
    """Where subscribers wait for events, and how the events are let go."""

    subscribe: Request
    begin: Callable[[], object]


def task_stage(server: Server, show: Show) -> Stage:
    """A task whose agent waits at the show's gate; the gate is opened by another task."""
    request = REST.send("show", str(show), wait=False)
    task = ask(REST, server, request, pb.SendMessageResponse).task
    _until_working(server, task.id)
    return Stage(REST.subscribe(task.id), partial(REST.send("open", show.gate).fetch, server))


def _until_working(server: Server, task_id: str) -> None:
    end = time.monotonic() + PATIENCE
    while ask(REST, server, REST.get(task_id), pb.Task).status.state != pb.TASK_STATE_WORKING:
        if time.monotonic() > end:
            raise Broken(f"{server.name} does not begin a task")
        time.sleep(0.01)


def gate() -> str:
    """A name that was not used before."""
    return uuid4().hex


def perform(server: Server, stage: Stage, audience: int, events: int) -> Delivery:
    """Let `events` come to everybody and see all streams to their end."""
    with subscribed(server, [stage.subscribe] * audience) as lines, undisturbed():
        before = sum(line.open[0].messages for line in lines)
        server_cpu, client_cpu, begun = server.cpu(), time.process_time(), time.perf_counter()
        stage.begin()
        ended = read_all(lines)
        elapsed = time.perf_counter() - begun
        server_cpu, client_cpu = server.cpu() - server_cpu, time.process_time() - client_cpu
    total = sum(exchange.messages for exchange in ended) - before
    if total != audience * events:
        raise Broken(f"{server.name} sent {total} events instead of {audience} times {events}")
    return Delivery(total, elapsed, server_cpu, client_cpu)


@contextmanager
def subscribed(server: Server, requests: Sequence[Request]) -> Iterator[Sequence[Connection]]:
    """A stream for each, after its first event."""
    with ExitStack() as stack:
        lines = []
        for request in requests:
            line = stack.enter_context(closing(Connection(server.http, DONE)))
            join(line, request)
            lines.append(line)
        yield lines


def join(line: Connection, request: Request) -> None:
    """Subscribe and wait for the first event."""
    line.start(request.raw())
    line.flush()
    while line.open and not line.open[0].messages:
        line.receive()
    if not line.open:
        raise Broken("a subscription ended before it had begun")


def read_all(lines: Sequence[Connection]) -> list[Exchange]:
    """Read until all streams have ended."""
    ended: list[Exchange] = []
    with selectors.DefaultSelector() as selector:
        for line in lines:
            selector.register(line.socket, selectors.EVENT_READ, line)
        while len(ended) < len(lines):
            ready = selector.select(PATIENCE)
            if not ready:
                raise Broken(f"{len(lines) - len(ended)} streams have been silent for {PATIENCE:g} s")
            for key, _ in ready:
                over = key.data.receive()
                if over:
                    ended += over
                    selector.unregister(key.fileobj)
    return ended


def stall(server: Server, request: Request) -> Connection:
    """A subscriber with little room for what it does not read."""
    line = Connection(server.http, b"", buffer=_SMALL_BUFFER)
    join(line, request)
    return line


def was_cut(line: Connection) -> bool:
    """Whether the server has given the stream up; what lies in buffers is read first."""
    line.socket.settimeout(1)
    try:
        while line.socket.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True
