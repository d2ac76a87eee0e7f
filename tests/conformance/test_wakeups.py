"""What wake-ups promise, within one process and between servers on one database (spec: SUBS-02, SCAL-01)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence

import asyncpg
import pytest
import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.records import Entry
from tests.support.house import LocalWakeups, PostgresOptions, PostgresWakeups, postgres_wakeups
from tests.support.postgres import execute

ENTRIES = [Entry.of(1, pb.StreamResponse()), Entry.of(2, pb.StreamResponse())]


class Ear:
    def __init__(self) -> None:
        self.heard: list[tuple[int, Sequence[Entry]]] = []

    def woken(self, number: int, entries: Sequence[Entry]) -> None:
        self.heard.append((number, entries))


@pytest.mark.req("SUBS-02")
def test_all_who_listen_to_a_task_are_woken_and_nobody_else() -> None:
    wakeups, one, two, other, gone = LocalWakeups(), Ear(), Ear(), Ear(), Ear()
    for task_id, ear in (("t", one), ("t", gone), ("t", two), ("other", other)):
        wakeups.listen(task_id, ear)
    wakeups.forget("t", gone)
    wakeups.tell("t", 2, ENTRIES)
    wakeups.tell("nobody listens", 1, ())
    assert one.heard == two.heard == [(2, ENTRIES)]
    assert other.heard == gone.heard == []


def test_who_leaves_is_forgotten() -> None:
    wakeups, ear = LocalWakeups(), Ear()
    wakeups.listen("t", ear)
    for _ in range(2):
        wakeups.forget("t", ear)
    wakeups.tell("t", 2, ENTRIES)
    assert not ear.heard


# -- between servers


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.005)


@pytest.fixture
async def pair(postgres: str) -> AsyncIterator[tuple[PostgresWakeups, PostgresWakeups]]:
    """The wake-ups of two servers."""
    both = [PostgresWakeups(PostgresOptions(dsn=postgres), LocalWakeups()) for _ in range(2)]
    for one in both:
        await one.start()
    yield both[0], both[1]
    for one in both:
        await one.close()


@pytest.mark.req("SUBS-02", "SCAL-01")
async def test_listeners_here_are_given_entries_and_those_elsewhere_numbers(
    pair: tuple[PostgresWakeups, PostgresWakeups],
) -> None:
    (here, there), near, far, other = pair, Ear(), Ear(), Ear()
    here.listen("t", near)
    there.listen("t", far)
    there.listen("other", other)
    here.tell("t", 1, ENTRIES)
    assert near.heard == [(1, ENTRIES)]
    await until(lambda: far.heard)
    there.forget("t", far)
    there.listen("last", last := Ear())
    here.tell("t", 2, ())
    here.tell("last", 1, ())
    await until(lambda: last.heard)
    assert near.heard == [(1, ENTRIES), (2, ())]
    assert far.heard == [(1, ())]
    assert not other.heard
    (took,) = here.round_trips.values()
    assert 0 < took < 30


async def test_what_comes_together_is_told_together(postgres: str, pair: tuple[PostgresWakeups, ...]) -> None:
    here, _ = pair
    heard: list[str] = []
    listening = await asyncpg.connect(postgres)
    await listening.add_listener("a2ad", lambda *told: heard.append(str(told[-1])))
    for number in range(1, 101):
        here.tell("many", number, ())
        here.tell(f"task-{number}", 1, ())
    await until(lambda: heard)
    assert [json.loads(payload) for payload in heard] == [{"many": 100} | {f"task-{n}": 1 for n in range(1, 101)}]
    await listening.close()


def test_payloads_are_short_and_hold_everything() -> None:
    told = {f"task-{number}-é'\n": number for number in range(3_000)}
    found = list(postgres_wakeups.payloads(told | {"x" * 8_000: 1}))
    assert max(map(len, found)) < 8_000
    assert len(found) < 15
    merged: dict[str, int] = {}
    for payload in found:
        merged |= json.loads(payload)
    assert merged == told
    assert list(postgres_wakeups.payloads({})) == []


async def test_no_more_waits_than_there_is_room_for(
    pair: tuple[PostgresWakeups, PostgresWakeups], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here, there), ear, beyond = pair, Ear(), Ear()
    monkeypatch.setattr(postgres_wakeups, "_MOST_WAITING", 3)
    there.listen("task-3", beyond)
    there.listen("task-2", ear)
    for number in range(4):
        here.tell(f"task-{number}", 1, ())
    here.tell("task-2", 2, ())
    await until(lambda: ear.heard)
    assert ear.heard == [(2, ())]
    assert not beyond.heard


async def test_a_lost_connection_comes_back(postgres: str, pair: tuple[PostgresWakeups, PostgresWakeups]) -> None:
    (here, there), near, far = pair, Ear(), Ear()
    here.listen("t", near)
    there.listen("t", far)
    with structlog.testing.capture_logs() as logs:
        connection = await asyncpg.connect(postgres)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        await connection.close()
        await until(lambda: [line["event"] for line in logs].count("wakeups.back") == 2)
        assert all(line["round_trip_ms"] > 0 for line in logs if line["event"] == "wakeups.back")
        assert [line["event"] for line in logs].count("wakeups.polling") == 2
        here.tell("t", 5, ())
        await until(lambda: far.heard)
    assert near.heard == far.heard == [(5, ())]


async def test_a_hint_that_comes_when_the_connection_ends_is_no_error(postgres: str) -> None:
    """It is read from the connection in one step of the loop, and heard in the next one, after the end."""
    wakeups, faults = PostgresWakeups(PostgresOptions(dsn=postgres), LocalWakeups()), list[object]()
    await wakeups.start()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    execute(postgres, """NOTIFY a2ad, '{"t":1}'""")  # from another thread, while nobody reads here
    time.sleep(1)  # noqa: ASYNC251 - until it has arrived
    await asyncio.sleep(0)
    await wakeups.close()
    await asyncio.sleep(0.05)
    assert not faults


@pytest.mark.req("SCAL-02")
async def test_where_nothing_comes_back_it_is_said_once(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a pooler: the statement is taken, and nobody hears of it."""
    monkeypatch.setattr(postgres_wakeups, "_TELL", "SELECT 1 FROM unnest($1::text[])")
    monkeypatch.setattr(postgres_wakeups, "_ECHO", 0.05)
    monkeypatch.setattr(postgres_wakeups, "_PAUSE_WHERE_DEAF", 0.01)
    wakeups, ear = PostgresWakeups(PostgresOptions(dsn=postgres), LocalWakeups()), Ear()
    wakeups.listen("t", ear)
    with structlog.testing.capture_logs() as logs:
        await wakeups.start()
        wakeups.tell("t", 1, ENTRIES)
        await asyncio.sleep(0.3)
        assert not wakeups.round_trips
        await wakeups.close()
    assert ear.heard == [(1, ENTRIES)]
    (line,) = logs
    assert (line["event"], line["why"]) == ("wakeups.polling", "no wake-up to this server came back")


async def test_a_database_that_is_away_holds_nobody_up() -> None:
    options = PostgresOptions(dsn="postgresql://a2ad@127.0.0.1:1/nothing")
    wakeups, ear = PostgresWakeups(options, LocalWakeups()), Ear()
    with structlog.testing.capture_logs() as logs:
        await wakeups.start()
    wakeups.listen("t", ear)
    wakeups.tell("t", 1, ())
    await wakeups.close()
    assert ear.heard == [(1, ())]
    assert [line["event"] for line in logs] == ["wakeups.polling"]


@pytest.mark.parametrize("payload", ["", "{", "[1]", '"t"', '{"t": "x"}', '{"t": null}'])
async def test_what_strangers_say_is_passed_over(
    postgres: str, pair: tuple[PostgresWakeups, PostgresWakeups], payload: str
) -> None:
    (_, there), ear = pair, Ear()
    there.listen("t", ear)
    connection = await asyncpg.connect(postgres)
    await connection.execute("SELECT pg_notify('a2ad', $1)", payload)
    await connection.execute("""SELECT pg_notify('a2ad', '{"t": 3}')""")
    await until(lambda: ear.heard)
    assert ear.heard == [(3, ())]
    await connection.close()
