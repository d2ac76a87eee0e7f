"""Where benchmarks run: servers to order, rounds that take turns, and answers that must be equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import grpc

from generated import a2a_pb2 as pb
from generated import a2a_pb2_grpc
from tests.bench.load import Load, Plan, drive
from tests.bench.processes import Server, free_port, running

T = TypeVar("T")
Engine = Literal["memory", "sqlite"]

_WARM_UP = 0.5


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done for a number."""

    rounds: int = 5
    seconds: float = 1.5
    quick: bool = False

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full


class Lab:
    """Starts servers in a folder of its own."""

    def __init__(self, folder: Path, effort: Effort) -> None:
        self.folder = folder
        self.effort = effort
        self._count = 0

    def place(self, name: str) -> Path:
        """A path that was not used before."""
        self._count += 1
        return self.folder / f"{self._count}-{name}"

    @contextmanager
    def ours(self, engine: Engine, *, file: Path | None = None) -> Iterator[Server]:
        """Our server as users start it, apart from settings that may lie about."""
        path, port = file or self.place("ours.db"), free_port()
        settings = self.place("empty.toml")
        settings.touch()
        store = "memory:" if engine == "memory" else f"sqlite:///{path}"
        arguments = ["-m", "a2a_server", "serve", "tests.bench.agents:agent", "--config", str(settings)]
        arguments += ["--grpc", f"127.0.0.1:{port}", "--store", store, "--log-level", "warning"]
        with running(f"a2a-server-{engine}-{port}", arguments, port, self.folder, {}) as server:
            yield server

    @contextmanager
    def sdk(self, engine: Engine, *, tasks: int = 0) -> Iterator[Server]:
        """The SDK's server. Its tracing is off, which spares it some work."""
        path, port = self.place("sdk.db"), free_port()
        store = "memory:" if engine == "memory" else f"sqlite+aiosqlite:///{path}"
        arguments = ["-m", "tests.bench.sdk_server", "--port", str(port), "--store", store, "--tasks", str(tasks)]
        extra = {"OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false"}
        with running(f"a2a-sdk-{engine}-{port}", arguments, port, self.folder, extra) as server:
            yield server

    def compare(self, pairs: Mapping[str, tuple[Server, Plan]]) -> Mapping[str, list[Load]]:
        """Time-bounded rounds in which everybody has a turn, the order reversed every other time."""
        seconds = self.effort.seconds
        for server, plan in pairs.values():
            drive(server, plan, seconds=min(_WARM_UP, seconds))
        return self.take_turns(
            {name: partial(drive, server, plan, seconds=seconds) for name, (server, plan) in pairs.items()}
        )

    def take_turns(self, measures: Mapping[str, Callable[[], T]]) -> Mapping[str, list[T]]:
        """Rounds of measurements, interleaved."""
        results: dict[str, list[T]] = {name: [] for name in measures}
        for number in range(self.effort.rounds):
            order = list(measures.items())
            for name, measure in reversed(order) if number % 2 else order:
                results[name].append(measure())
        return results


@contextmanager
def stub(server: Server) -> Iterator[Any]:
    """An ordinary client, for what is not timed."""
    with ExitStack() as stack:
        channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{server.port}"))
        yield a2a_pb2_grpc.A2AServiceStub(cast("Any", channel))  # typed for asyncio only


VERSION = (("a2a-version", "1.0"),)


def finished_ids(server: Server, request: pb.SendMessageRequest, count: int) -> list[str]:
    """Ids of tasks that the server has just finished."""
    with stub(server) as client:
        return [client.SendMessage(request, metadata=VERSION).task.id for _ in range(count)]
