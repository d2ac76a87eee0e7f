"""A PostgreSQL that goes away, comes back, or does not answer (spec: DURA-07, SCAL-08)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import grpc
import pytest
import structlog

from a2a_proto import discovery_pb2_grpc
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from a2a_server.ports.records import Entry
from a2a_server.ports.store import StaleWrite, StoreRefused, StoreUnavailable
from tests.conformance.authors import ANN, COMPLETED, HERE, Author, chunk
from tests.e2e.processes import command
from tests.support.callers import House, house
from tests.support.effort import effort
from tests.support.house import PostgresOptions, PostgresStore
from tests.support.postgres import Cluster, cluster, make_tables

SECRET = "cinn%61mon"
DAILY = {"per_caller": "40/d"}


@asynccontextmanager
async def opened(dsn: str, patience: float = 3.0) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(PostgresOptions(dsn=dsn, patience=patience, connect_timeout=2, command_timeout=5))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


# -- connections that are cut


@pytest.mark.req("SCAL-08")
async def test_connections_that_are_cut_are_not_seen_by_writers(postgres: str) -> None:
    """Each chunk is acknowledged once and is in the log once, whichever moment the server cut the connection at."""
    async with opened(postgres, patience=30) as store:
        authors = [await Author(store).start() for _ in range(12)]
        done = asyncio.Event()

        async def write(author: Author) -> None:
            for number in range(effort(40, everything=200)):
                await author.chunk(f"{number};")

        async def cut() -> None:
            connection = await asyncpg.connect(postgres)
            dice = random.Random(7)
            while not done.is_set():
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                    "AND pid <> pg_backend_pid() AND state <> 'idle in transaction'"
                )
                await asyncio.sleep(dice.uniform(0.05, 0.3))
            await connection.close()

        cutting = asyncio.create_task(cut())
        await asyncio.gather(*map(write, authors))
        done.set()
        await cutting
        for author in authors:
            entries = await store.entries(author.task_id, 0, 1_000)
            assert [entry.number for entry in entries] == list(range(1, author.number + 1))
            whole = "".join(f"{number};" for number in range(effort(40, everything=200)))
            assert await author.texts() == {"a": whole}


class Cutter:
    """Stands between a store and PostgreSQL. When it is told to, it lets a statement through and loses the answer."""

    def __init__(self, dsn: str) -> None:
        parts = urlsplit(dsn)
        self._upstream = parts.hostname or "", parts.port or 0
        self._dsn = parts
        self.armed = b""
        """What the statement's message holds whose answer is lost."""
        self.lost = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return self._dsn._replace(netloc=f"{self._dsn.username}@127.0.0.1:{port}").geturl()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(*self._upstream)
        mute = asyncio.Event()

        async def down() -> None:
            with suppress(OSError):
                while data := await up_reader.read(65_536):
                    if mute.is_set():
                        self.lost += 1
                        break
                    writer.write(data)
            writer.close()

        answers = asyncio.create_task(down())
        self._tasks.add(answers)
        with suppress(OSError):
            while data := await reader.read(65_536):
                if self.armed and self.armed in data:
                    self.armed = b""
                    mute.set()
                up_writer.write(data)
        up_writer.close()


@pytest.mark.req("SCAL-08")
async def test_a_commit_that_never_answers_is_looked_up(postgres: str) -> None:
    cutter = Cutter(postgres)
    async with opened(await cutter.open()) as store:
        author = await Author(store).start()
        for text in ("groundhog", "marmot"):
            cutter.armed = text.encode()
            await author.chunk(text)
        cutter.armed = author.task_id.encode()
        await author.become(COMPLETED, 2_000, end=[1], claim=HERE)
        cutter.armed = b"capybara"
        other = await Author(store, "capybara").start()
        assert cutter.lost == 4
        assert await author.texts() == {"a": "groundhogmarmot"}
        assert [entry.number for entry in await store.entries(author.task_id, 0, 10)] == [1, 2, 3, 4]
        assert (await author.load()).epoch == 2
        assert (await other.load()).number == 1
    await cutter.close()


async def test_what_another_has_written_is_not_taken_for_ones_own(postgres: str) -> None:
    async with opened(postgres) as store:
        author = await Author(store).start()
        await author.chunk("theirs")
        late = author.write(chunk(2, "mine"), expected=1)
        with pytest.raises(StaleWrite):
            await store.commit(late)
        same = author.write(Entry(2, chunk(2, "theirs").wire), expected=1)
        assert not await store.commit(same)  # it is stored, and once
        assert len(await store.entries(author.task_id, 0, 10)) == 2
        assert await store.load(ANN, author.task_id) is not None


# -- a database that is away


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


@pytest.mark.req("DURA-01", "DURA-07")
async def test_a_database_that_is_away_is_unavailable_and_comes_back(
    own_cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    dsn = own_cluster.fresh()
    async with opened(dsn, patience=0.5) as store:
        author = await Author(store).start()
        await author.chunk("before ")
        await asyncio.to_thread(own_cluster.stop, signal.SIGQUIT)  # as if the machine had died
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match=r"^the store cannot "):
                async with asyncio.timeout(30):
                    await author.chunk("away")
            with pytest.raises(StoreUnavailable):
                await author.load()
        await asyncio.sleep(1)
        assert not [record for record in caplog.records if record.name.startswith("asyncpg")]
        await asyncio.to_thread(own_cluster.start)
        await _insist(author, "after")
        assert await author.texts() == {"a": "before after"}
        assert [entry.number for entry in await store.entries(author.task_id, 0, 10)] == [1, 2, 3]


async def _insist(author: Author, text: str) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                return await author.chunk(text)
            except StoreUnavailable:
                await asyncio.sleep(0.1)


@pytest.mark.req("GATE-05")
async def test_while_the_database_is_away_each_server_counts_for_itself(own_cluster: Cluster) -> None:
    """Nobody waits for it, and callers who find no tokens are still refused."""
    dsn = own_cluster.fresh()

    async def read_cards(here: House, calls: int) -> list[bool]:
        stub = discovery_pb2_grpc.DiscoveryStub(here.channel)
        found = await asyncio.gather(
            *(stub.GetAgentCard(GetAgentCardRequest()) for _ in range(calls)), return_exceptions=True
        )
        failed = [one.code() for one in found if isinstance(one, grpc.aio.AioRpcError)]
        assert set(failed) <= {grpc.StatusCode.RESOURCE_EXHAUSTED}
        return [not isinstance(one, BaseException) for one in found]

    with structlog.testing.capture_logs() as logs:
        async with house(store=dsn, rates=DAILY) as here, house(store=dsn, rates=DAILY) as there:
            await read_cards(here, 1)
            await asyncio.to_thread(own_cluster.stop, signal.SIGQUIT)
            async with asyncio.timeout(60):
                assert sum(await read_cards(here, 60)) == 39
                assert sum(await read_cards(there, 60)) == 40
            await asyncio.to_thread(own_cluster.start)
            async with asyncio.timeout(60):
                while [line["event"] for line in logs].count("rates.shared") < 2:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.05)
            assert not any(await read_cards(here, 5) + await read_cards(there, 5))
    assert [line["event"] for line in logs].count("rates.alone") == 2


async def test_a_short_absence_is_not_noticed(own_cluster: Cluster) -> None:
    dsn = own_cluster.fresh()
    async with opened(dsn, patience=30) as store:
        author = await Author(store).start()
        await asyncio.to_thread(own_cluster.stop)
        writing = asyncio.create_task(author.chunk("x"))
        await asyncio.sleep(0.05)
        assert not writing.done()
        await asyncio.to_thread(own_cluster.start)
        await writing
        assert await author.texts() == {"a": "x"}


async def test_a_database_that_refuses_or_is_not_there_says_so_without_its_password(own_cluster: Cluster) -> None:
    there = urlsplit(own_cluster.dsn("nowhere"))
    missing = there._replace(netloc=f"ann:{SECRET}@127.0.0.1:{own_cluster.port}", query=f"password={SECRET}").geturl()
    with structlog.testing.capture_logs() as logs, pytest.raises(StoreRefused) as caught:
        await PostgresStore(PostgresOptions(dsn=missing)).open()
    own_cluster.stop()
    with pytest.raises(StoreUnavailable) as away:
        await PostgresStore(PostgresOptions(dsn=missing)).open()
    with pytest.raises(StoreRefused) as unreadable:
        await PostgresStore(PostgresOptions(dsn=f"postgresql://ann:{SECRET}@127.0.0.1/x?sslmode=odd")).open()
    told = "".join(map(str, (logs, caught.value, away.value, unreadable.value)))
    assert "cinnamon" not in told
    assert SECRET not in told
    place = f"the store postgresql://…@127.0.0.1:{own_cluster.port}/nowhere?…"
    assert str(caught.value).startswith(f"{place} cannot be used: ")
    assert str(away.value) == f"{place} cannot be reached (ConnectionRefusedError)"
    assert str(unreadable.value) == "the store postgresql://…@127.0.0.1/x?… cannot be used: the URL cannot be read"


@pytest.mark.req("OPER-05")
def test_commands_print_no_password(postgres: str, tmp_path: Path) -> None:
    url = postgres.replace("//a2ad@", f"//a2ad:{SECRET}@")
    printed = ""
    for arguments in (
        ("config",),
        ("push", "list"),
        ("keys", "list"),
        ("db", "prune", "--older-than", "1d"),
        ("db", "status"),
        ("db", "rekey", "--plain"),
    ):
        secrets = {"A2A_POSTGRESQL__WAKEUP_DSN": url, "A2A_POSTGRESQL__PASSWORD": "cinnamon"}
        done = command(*arguments, cwd=tmp_path, A2A_STORE=url, **secrets)
        assert done.returncode == 0, done.stderr
        printed += done.stdout + done.stderr
    assert "postgresql://…@127.0.0.1" in printed
    assert "removed 0 tasks" in printed
    assert "rewrote 0 values" in printed
    refused = command("db", "copy", "--from", url, "--to", f"{url}?sslmode=disable", cwd=tmp_path)
    assert refused.returncode == 1
    assert "is in use: somebody writes to it and does not end" in refused.stderr
    printed += refused.stdout + refused.stderr
    assert SECRET not in printed
    assert "cinnamon" not in printed


def test_without_its_package_the_store_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "asyncpg.py").write_text("raise ModuleNotFoundError(name='asyncpg')")
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    done = command("push", "list", "--store", "postgresql://x/y", cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode == 1
    assert done.stderr == "Error: a PostgreSQL store needs the package asyncpg: pip install 'a2ad[postgres]'\n"


async def test_tables_are_made_by_the_first_server(own_postgres: str) -> None:
    await make_tables(own_postgres)
    async with opened(own_postgres) as store:
        await store.ping()
