"""The one writer of a task's log: grouping, order, back-pressure, and what happens when the store cannot."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import dataclass

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.defaults import LocalWakeups
from a2a_server.adapters.memory import MemoryStore
from a2a_server.agents import text_part
from a2a_server.domain.scope import Scope
from a2a_server.operations.log.readers import EventLog
from a2a_server.operations.log.writer import TaskWriter
from a2a_server.ports.records import StoredTurn, Write
from a2a_server.ports.store import StaleWrite, StoredTask, StoreUnavailable
from tests.support.events import artifact_event, status_event
from tests.support.house import Trace

SCOPE = Scope("", "ann")


class Disk(MemoryStore):
    """Commits one by one when told to, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[Write] = []
        self.open_gate = asyncio.Event()
        self.open_gate.set()
        self.errors: list[Exception] = []

    async def commit(self, write: Write) -> bool:
        self.writes.append(write)
        await self.open_gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        return await super().commit(write)


@dataclass
class Message:
    number: int

    def stored(self) -> StoredTurn:
        return StoredTurn(self.number, b"message")


def chunk(text: str, *, last: bool = False) -> pb.StreamResponse:
    artifact = pb.Artifact(artifact_id="a", parts=[text_part(text)])
    return artifact_event("t", "c", artifact, append=True, last_chunk=last)


def working(text: str = "") -> pb.StreamResponse:
    return status_event("t", "c", pb.TASK_STATE_WORKING, 5, pb.Message(message_id=text))


def writer(disk: Disk, log: EventLog | None = None, *, limit: int = 10) -> TaskWriter:
    task = pb.Task(id="t", context_id="c", status=pb.TaskStatus(state=pb.TASK_STATE_SUBMITTED))
    log = log or EventLog(disk, LocalWakeups(), lag=1_000)
    return TaskWriter(disk, log, SCOPE, StoredTask(task, 0, 0), pending_limit=limit)


def create(made: TaskWriter) -> None:
    made.append(pb.StreamResponse(task=made.head))


async def stored(disk: Disk) -> StoredTask:
    record = await disk.load(SCOPE, "t")
    assert record is not None
    return record


@pytest.mark.req("DURA-01", "ORDR-01")
async def test_what_comes_during_a_commit_goes_together_in_the_next() -> None:
    disk = Disk()
    made = writer(disk)
    disk.open_gate.clear()
    create(made)
    await asyncio.sleep(0.01)
    for text in "abc":
        made.append(chunk(text))
    assert [len(write.entries) for write in disk.writes] == [1]
    disk.open_gate.set()
    await made.settle()
    assert [len(write.entries) for write in disk.writes] == [1, 3]
    assert [part.text for part in (await stored(disk)).task.artifacts[0].parts] == ["a", "b", "c"]


@pytest.mark.req("DURA-05")
async def test_a_chunk_brings_neither_head_nor_artifacts() -> None:
    disk = Disk()
    made = writer(disk)
    create(made)
    await made.settle()
    made.append(chunk("a"))
    await made.settle()
    write = disk.writes[-1]
    assert (len(write.entries), write.head, write.artifacts, write.state, write.claim) == (1, None, None, None, None)


@pytest.mark.req("DURA-05")
async def test_a_status_brings_the_head_and_a_stop_the_artifacts() -> None:
    disk = Disk()
    made = writer(disk)
    create(made)
    made.append(chunk("a"))
    await made.settle()
    made.append(working())
    await made.settle()
    assert disk.writes[-1].head is not None
    assert disk.writes[-1].artifacts is None
    made.append(status_event("t", "c", pb.TASK_STATE_INPUT_REQUIRED, 6))
    await made.settle()
    assert disk.writes[-1].artifacts is not None


async def test_a_turn_that_begins_and_ends_in_one_commit_leaves_no_trace() -> None:
    disk = Disk()
    made = writer(disk)
    create(made)
    made.claim("r")
    made.begin(Message(1))
    made.end([1])
    await made.settle()
    assert (disk.writes[0].begin, disk.writes[0].end) == ((), ())
    assert not await disk.claim("next", 1)


async def test_a_turn_that_ends_later_is_struck_out() -> None:
    disk = Disk()
    made = writer(disk)
    create(made)
    made.claim("r")
    made.begin(Message(1))
    await made.settle()
    assert disk.writes[0].begin == (StoredTurn(1, b"message"),)
    made.end([1])
    await made.settle()
    assert disk.writes[-1].end == (1,)
    assert not await disk.claim("next", 1)


@pytest.mark.req("DURA-06")
async def test_state_goes_with_the_next_commit_and_only_once() -> None:
    disk = Disk()
    made = writer(disk)
    create(made)
    made.save(b"one")
    made.save(b"two")
    await made.settle()
    made.append(chunk("a"))
    await made.settle()
    assert [write.state for write in disk.writes] == [b"two", None]
    assert (await stored(disk)).state == b"two"


@pytest.mark.req("AGNT-04")
async def test_room_waits_while_too_much_is_pending() -> None:
    disk = Disk()
    made = writer(disk, limit=3)
    create(made)
    disk.open_gate.clear()
    for text in "abc":
        made.append(chunk(text))
    waiting = asyncio.ensure_future(made.room())
    await asyncio.sleep(0.01)
    made.append(chunk("d"))
    made.append(chunk("e"))
    made.append(chunk("f"))
    again = asyncio.ensure_future(made.room())
    await asyncio.sleep(0.01)
    assert not again.done()
    disk.open_gate.set()
    await asyncio.gather(waiting, again)


@pytest.mark.req("STRM-08")
async def test_a_burst_is_let_out_while_it_grows() -> None:
    """An agent that never pauses asks for room; its first events are committed before it has ended."""
    disk = Disk()
    made = writer(disk, limit=1_000)
    create(made)
    for text in "abcdef":
        made.append(chunk(text))
        await made.room()
    assert disk.writes  # one, and more where the loop above is slow
    assert (await stored(disk)).number > 1


async def test_a_plain_answer_is_not_let_out_in_pieces() -> None:
    """A task, WORKING, an artifact and COMPLETED are one commit, however often the agent asks for room."""
    disk = Disk()
    made = writer(disk, limit=1_000)
    create(made)
    for event in (working(), chunk("a", last=True), status_event("t", "c", pb.TASK_STATE_COMPLETED, 6)):
        made.append(event)
        await made.room()
    assert disk.writes == []
    await made.drain()
    assert [len(write.entries) for write in disk.writes] == [4]


async def test_the_first_chunk_of_several_does_not_wait_for_the_next() -> None:
    disk = Disk()
    made = writer(disk, limit=1_000)
    create(made)
    for event in (working(), chunk("a")):
        made.append(event)
        await made.room()
    assert [len(write.entries) for write in disk.writes] == [3]


async def test_a_waiter_may_be_canceled_without_harm() -> None:
    disk = Disk()
    made = writer(disk)
    disk.open_gate.clear()
    create(made)
    waiting = asyncio.ensure_future(made.settle())
    await asyncio.sleep(0.01)
    waiting.cancel()
    disk.open_gate.set()
    await made.settle()
    assert (await stored(disk)).number == 1


@pytest.mark.req("DURA-07")
async def test_a_store_that_is_away_is_waited_for_while_a_turn_runs() -> None:
    disk = Disk()
    made = writer(disk)
    made.waits_for_store = True
    create(made)
    await made.settle()
    disk.errors = [StoreUnavailable(), StoreUnavailable()]
    made.append(chunk("a"))
    await made.settle()
    assert (await stored(disk)).number == 2


@pytest.mark.req("DURA-07", "ERRS-06")
async def test_whoever_waits_for_an_answer_hears_at_once_that_the_store_is_away() -> None:
    disk = Disk()
    made = writer(disk)
    create(made)
    await made.settle()
    disk.errors = [StoreUnavailable("full")]
    made.append(working())
    with pytest.raises(StoreUnavailable):
        await made.settle()
    assert (await stored(disk)).number == 1


@pytest.mark.req("DURA-07", "ERRS-06")
@pytest.mark.parametrize("error", [StoreUnavailable("full"), StaleWrite("t")])
async def test_a_task_that_cannot_be_created_is_not_and_its_readers_hear_it(error: Exception) -> None:
    disk = Disk()
    log = EventLog(disk, LocalWakeups(), lag=10)
    made = writer(disk, log)
    lost: list[Exception] = []
    made.on_lost = lost.append
    disk.errors = [error]
    create(made)
    with closing(log.reader("t", 0)) as reader:
        with pytest.raises(type(error)):
            await reader.next()
        with pytest.raises(type(error)):
            await made.settle()
    assert lost == [error]
    assert await disk.load(SCOPE, "t") is None


@pytest.mark.req("DURA-03", "SUBS-02")
async def test_a_writer_that_lost_its_first_race_ends_nobodys_reading() -> None:
    disk = Disk()
    log = EventLog(disk, LocalWakeups(), lag=10)
    first = writer(disk, log)
    create(first)
    await first.settle()
    second = TaskWriter(disk, log, SCOPE, await stored(disk), pending_limit=10)
    with closing(log.reader("t", 1)) as reader:
        first.append(working("a"))
        await first.settle()
        second.append(working("b"))
        with pytest.raises(StaleWrite):
            await second.settle()
        assert [entry.number for entry in await reader.next()] == [2]
        first.append(working("c"))
        assert [entry.number for entry in await reader.next()] == [3]


async def test_a_closed_writer_writes_nothing_more() -> None:
    disk = Disk()
    made = writer(disk)
    create(made)
    await made.settle()
    made.append(chunk("dropped"))
    made.close(StaleWrite("t"))
    made.append(chunk("too late"))
    made.save(b"too late")
    made.end([1])
    await made.room()
    with pytest.raises(StaleWrite):
        await made.settle()
    with pytest.raises(StaleWrite):
        await made.drain()
    await asyncio.sleep(0.01)
    assert len(disk.writes) == 1
    assert (await stored(disk)).state == b""


@pytest.mark.req("DURA-01")
async def test_readers_hear_of_an_entry_only_after_its_commit() -> None:
    disk = Disk()
    log = EventLog(disk, LocalWakeups(), lag=10)
    made = writer(disk, log)
    disk.open_gate.clear()
    with closing(log.reader("t", 0)) as reader:
        create(made)
        reading = asyncio.ensure_future(reader.next())
        await asyncio.sleep(0.01)
        assert disk.writes
        assert not reading.done()
        disk.open_gate.set()
        assert (await reading)[0].number == 1


@pytest.mark.req("ARTF-04")
async def test_a_snapshot_is_a_copy_of_all_that_was_appended() -> None:
    disk = Disk()
    made = writer(disk)
    create(made)
    made.append(chunk("a"))
    task = made.copy()
    made.append(chunk("b"))
    assert [part.text for part in task.artifacts[0].parts] == ["a"]
    assert made.copy().artifacts[0].parts[1].text == "b"
    await made.settle()
    assert made.copy() == (await stored(disk)).task


ONE, TWO = (Trace(f"00-{digit * 32}-{digit * 16}-01", f"a={digit}") for digit in "12")


def marks(disk: Disk) -> list[list[tuple[int, Trace | None]]]:
    """Of each write its entries, with the traces they belong to."""
    return [[(entry.number, write.trace_of(entry.number)) for entry in write.entries] for write in disk.writes]


async def test_a_commit_may_hold_the_end_of_one_and_the_beginning_of_another() -> None:
    disk = Disk()
    made = writer(disk)
    made.caused_by(ONE)
    create(made)
    await made.settle()
    for trace in (ONE, None, TWO, TWO):
        made.caused_by(trace)
        made.append(chunk("x"))
    await made.settle()
    made.append(chunk("x"))
    await made.settle()
    made.caused_by(None)
    made.append(chunk("x"))
    await made.settle()
    assert marks(disk) == [[(1, ONE)], [(2, ONE), (3, None), (4, TWO), (5, TWO)], [(6, TWO)], [(7, None)]]


async def test_what_is_said_after_the_last_entry_is_for_the_next_commit() -> None:
    disk = Disk()
    made = writer(disk)
    made.caused_by(ONE)
    create(made)
    made.caused_by(TWO)
    await made.settle()
    made.end([7])  # a commit without entries
    await made.settle()
    made.append(chunk("x"))
    await made.settle()
    assert marks(disk) == [[(1, ONE)], [], [(2, TWO)]]


async def test_nothing_is_said_without_a_trace() -> None:
    disk = Disk()
    made = writer(disk)
    made.caused_by(None)
    create(made)
    await made.settle()
    made.caused_by(ONE)
    made.append(chunk("x"))
    made.caused_by(None)
    await made.settle()
    made.append(chunk("x"))
    await made.settle()
    made.append(chunk("x"))
    await made.settle()
    assert [bool(write.traces) for write in disk.writes] == [False, True, False, False]
    assert marks(disk)[1] == [(2, ONE)]
