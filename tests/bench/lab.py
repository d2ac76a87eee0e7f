"""Where benchmarks run: servers to order, rounds that take turns, and answers that must be equal."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import grpc

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from tests.bench.load import Load, Work, drive
from tests.bench.processes import CLIENT_CORE, GATEWAY_CORE, SERVER_CORE, Program, Server, free_port, python, running
from tests.support.postgres import Cluster, cluster

T = TypeVar("T")
Engine = Literal["memory", "sqlite", "postgres"]
NAMES: Mapping[Engine, str] = {"memory": "memory", "sqlite": "SQLite", "postgres": "PostgreSQL"}

AGENT, EXECUTOR = "tests.bench.agents:agent", "tests.bench.sdk_agent:Bench"
_WARM_UP = 0.5
_GO = Path(__file__).parent / "go"
_GO_BUILD = Path("build/go")


class Missing(Exception):  # noqa: N818 - a benchmark is left out
    """What it needs is not installed; the message says what."""


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

    def __init__(self, folder: Path, effort: Effort, home: Path = Path()) -> None:
        """`home` holds the a2a_server that is measured."""
        self.folder = folder
        self.effort = effort
        self._home = home.resolve()
        self._count = 0

    @property
    def compiled(self) -> bool:
        """Whether the server that is measured was compiled."""
        return any((self._home / "a2a_server").rglob("*.so"))

    def place(self, name: str) -> Path:
        """A path that was not used before."""
        self._count += 1
        return self.folder / f"{self._count}-{name}"

    @contextmanager
    def ours(
        self,
        engine: Engine,
        *,
        place: str | Path = "",
        settings: str = "",
        agent: str = AGENT,
        core: int = SERVER_CORE,
    ) -> Iterator[Server]:
        """Our server with all its doors as users start it, apart from settings that may lie about. `place`: the file or
        the DSN of what it begins with.
        """
        stores = {"memory": "memory:", "sqlite": f"sqlite:///{place or self.place('ours.db')}"}
        store = stores.get(engine, str(place))
        port, http = free_port(), free_port()
        doors = ["--grpc", f"127.0.0.1:{port}", "--http", f"127.0.0.1:{http}"]
        arguments = ["serve", agent, *self._quiet(settings), *doors, "--store", store]
        command = python("-m", "a2a_server", *arguments)
        name = f"a2ad-{engine}-{port}"
        program = Program(
            name=name, command=command, folder=self.folder, port=port, http=http, core=core, home=self._home
        )
        with running(program) as server:
            yield server

    @staticmethod
    @contextmanager
    def postgres() -> Iterator[Cluster]:
        """A PostgreSQL as durable as it is by default, on the load's core."""
        with cluster("shared_buffers=512MB", "autovacuum=on", "max_wal_size=4GB") as made:
            yield made

    @contextmanager
    def gateway(self, upstream: Server) -> Iterator[Server]:
        """Our gateway as a process of its own, in front of a server."""
        http = free_port()
        arguments = ["gateway", "--upstream", f"127.0.0.1:{upstream.port}", "--http", f"127.0.0.1:{http}"]
        command = python("-m", "a2a_server", *arguments, *self._quiet(""))
        name = f"a2a-gateway-{http}"
        program = Program(name=name, command=command, folder=self.folder, http=http, core=GATEWAY_CORE, home=self._home)
        with running(program) as server:
            yield server

    def _quiet(self, settings: str) -> Sequence[str]:
        path = self.place("settings.toml")
        path.write_text(settings, "utf-8")
        return ["--config", str(path), "--log-level", "warning"]

    @contextmanager
    def sdk(  # noqa: PLR0913 - what a server may have
        self,
        engine: Engine,
        *,
        place: str = "",
        tasks: int = 0,
        http: bool = False,
        legacy: bool = False,
        push: bool = False,
    ) -> Iterator[Server]:
        """One door of the SDK's server, for clients of 0.3 and with webhooks if so. Its tracing is off, which spares it
        some work. `place`: the DSN of a PostgreSQL database.
        """
        stores = {"memory": "memory:", "sqlite": f"sqlite+aiosqlite:///{self.place('sdk.db')}"}
        store = stores.get(engine, place.replace("postgresql:", "postgresql+asyncpg:"))
        door, port = "http" if http else "grpc", free_port()
        arguments = ["--door", door, "--port", str(port), "--store", store, "--tasks", str(tasks)]
        arguments += ["--legacy"] * legacy + ["--push"] * push
        program = Program(
            name=f"a2a-sdk-{door}-{engine}-{port}",
            command=python("-m", "tests.bench.sdk_server", *arguments),
            folder=self.folder,
            port=0 if http else port,
            http=port if http else 0,
            extra={"OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false"},
        )
        with running(program) as server:
            yield server

    @contextmanager
    def files(self, folder: Path) -> Iterator[Server]:
        """Somebody who shows the files of a folder, on the load's core."""
        http = free_port()
        command = python("-m", "http.server", str(http), "--bind", "127.0.0.1", "--directory", str(folder))
        with running(
            Program(name=f"files-{http}", command=command, folder=self.folder, http=http, core=CLIENT_CORE)
        ) as server:
            yield server

    @contextmanager
    def receiver(self, pause: float = 0.0) -> Iterator[Server]:
        """Somebody who takes webhooks, on the load's core."""
        http = free_port()
        command = python("-m", "tests.bench.hook_receiver", "--port", str(http), "--pause", str(pause))
        program = Program(name=f"receiver-{http}", command=command, folder=self.folder, http=http, core=CLIENT_CORE)
        with running(program) as server:
            yield server

    @contextmanager
    def bare(self, size: int) -> Iterator[Server]:
        """A server that writes prebuilt bytes to its subscribers."""
        http = free_port()
        command = python("-m", "tests.bench.bare_server", "--port", str(http), "--size", str(size))
        with running(Program(name=f"bare-{http}", command=command, folder=self.folder, http=http)) as server:
            yield server

    @contextmanager
    def grpc_gateway(self, tasks: Sequence[str]) -> Iterator[Server]:
        """Debian's grpc-gateway in front of a Go server with these tasks."""
        built = subprocess.run([_GO / "build.sh", _GO_BUILD], capture_output=True, text=True, check=False)
        if built.returncode:
            raise Missing(built.stderr.strip())
        http = free_port()
        command = [str(_GO_BUILD / "gateway"), "-http", f"127.0.0.1:{http}", *tasks]
        with running(Program(name=f"grpc-gateway-{http}", command=command, folder=self.folder, http=http)) as server:
            yield server

    def compare(
        self, pairs: Mapping[str, tuple[Server, Work]], effort: Effort | None = None
    ) -> Mapping[str, list[Load]]:
        """Time-bounded rounds in which everybody has a turn, the order reversed every other time."""
        effort = effort or self.effort
        seconds = effort.seconds
        for server, work in pairs.values():
            drive(server, work, seconds=min(_WARM_UP, seconds))
        return self.take_turns(
            {name: partial(drive, server, work, seconds=seconds) for name, (server, work) in pairs.items()},
            effort.rounds,
        )

    def take_turns(self, measures: Mapping[str, Callable[[], T]], rounds: int = 0) -> Mapping[str, list[T]]:
        """Rounds of measurements, interleaved."""
        results: dict[str, list[T]] = {name: [] for name in measures}
        for number in range(rounds or self.effort.rounds):
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
