"""Readers of one task's log: nothing lost, nothing twice, nothing left behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import closing
from typing import cast

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.defaults import LocalWakeups
from a2a_server.operations.log.readers import EventLog, Reader
from a2a_server.ports.records import Entry
from a2a_server.ports.store import Store
from a2a_server.protocol.errors import A2AError, Reason


def entry(number: int, size: int = 0) -> Entry:
    text = f"{number}".ljust(size)
    return Entry.of(number, pb.StreamResponse(status_update=pb.TaskStatusUpdateEvent(task_id=text)))


class Shelf:
    """As much of a store as readers need."""

    def __init__(self) -> None:
        self.kept: list[Entry] = []
        self.reads = 0

    async def entries(self, task_id: str, after: int, limit: int) -> list[Entry]:
        self.reads += 1
        await asyncio.sleep(0)
        return self.kept[after : after + limit]


class Task:
    """A task's log that a test writes."""

    def __init__(self, *, lag: int = 10_000) -> None:
        self.shelf = Shelf()
        self.wakeups = LocalWakeups()
        self.log = EventLog(cast("Store", self.shelf), self.wakeups, lag=lag)

    def write(self, count: int = 1, size: int = 0) -> None:
        first = len(self.shelf.kept) + 1
        entries = [entry(number, size) for number in range(first, first + count)]
        self.shelf.kept += entries
        self.wakeups.tell("t", entries[-1].number, entries)

    def miss(self, count: int) -> None:
        """Somebody else writes, and we are not told."""
        first = len(self.shelf.kept) + 1
        self.shelf.kept += [entry(number) for number in range(first, first + count)]

    def reader(self, after: int = 0) -> Reader:
        return self.log.reader("t", after)


async def numbers(reader: Reader, until: int) -> list[int]:
    seen: list[int] = []
    while reader.position < until:
        seen += [entry.number for entry in await reader.next()]
    return seen


@pytest.mark.req("SUBS-02", "ORDR-01")
@pytest.mark.parametrize("after", [0, 1, 3, 4])
async def test_a_reader_sees_what_follows_its_position(after: int) -> None:
    task = Task()
    task.write(3)
    with closing(task.reader(after)) as reader:
        task.write(4)
        assert await numbers(reader, 7) == list(range(after + 1, 8))


@pytest.mark.req("SUBS-02")
async def test_a_reader_that_fell_behind_what_is_shared_goes_back_to_the_store() -> None:
    task = Task()
    with closing(task.reader()) as slow, closing(task.reader()) as quick:
        seen = []
        for _ in range(3_000):
            task.write()
            seen += [entry.number for entry in await quick.next()]
        assert task.shelf.reads == 0
        assert await numbers(slow, 3_000) == seen == list(range(1, 3_001))
        assert 0 < task.shelf.reads < 20
        assert len(slow._channel.recent) <= 1_024  # noqa: SLF001 - the bound is the point


async def test_others_get_on_while_a_long_log_is_read() -> None:
    """Also where the store has what it is asked for at once, as ours have."""
    task, turns = Task(), 0
    task.write(256 * 20)

    async def entries(task_id: str, after: int, limit: int) -> list[Entry]:
        return task.shelf.kept[after : after + limit]

    async def get_on() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task.shelf.entries = entries  # type: ignore[method-assign]
    others = asyncio.create_task(get_on())
    with closing(task.reader()) as reader:
        reader.catch_up(0, 256 * 20)
        assert await numbers(reader, 256 * 20) == list(range(1, 256 * 20 + 1))
    others.cancel()
    assert turns == 20


async def test_what_another_writer_wrote_in_between_is_read_from_the_store() -> None:
    task = Task()
    with closing(task.reader()) as reader:
        task.write(2)
        assert await numbers(reader, 2) == [1, 2]
        task.miss(3)
        task.write()
        assert await numbers(reader, 6) == [3, 4, 5, 6]


async def test_a_reader_waits_until_there_is_something() -> None:
    task = Task()
    with closing(task.reader()) as reader:
        waiting = asyncio.ensure_future(reader.next())
        await asyncio.sleep(0)
        assert not waiting.done()
        task.write(2)
        assert [entry.number for entry in await waiting] == [1, 2]


async def test_the_first_entry_can_be_taken_alone() -> None:
    task = Task()
    with closing(task.reader()) as reader:
        task.write(3)
        assert (await reader.created()).number == 1
        assert await numbers(reader, 3) == [2, 3]


@pytest.mark.req("RPLY-06")
async def test_a_reader_too_far_behind_is_cut() -> None:
    task = Task(lag=10)
    with closing(task.reader()) as reader:
        for _ in range(12):
            task.write()
        with pytest.raises(A2AError, match="12 events behind") as error:
            await reader.next()
        assert error.value.reason is Reason.SLOW_READER
        assert error.value.metadata == {"taskId": "t"}
        assert error.value.retry_after == 1


@pytest.mark.req("RPLY-06")
async def test_a_burst_cuts_nobody_who_was_there() -> None:
    task = Task(lag=10)
    with closing(task.reader()) as reader:
        task.write(1_000)
        assert await numbers(reader, 1_000) == list(range(1, 1_001))


async def test_an_error_comes_after_everything_that_was_written() -> None:
    task = Task()
    with closing(task.reader()) as reader:
        task.write(2)
        task.log.fail("t", ValueError("gone"))
        assert await numbers(reader, 2) == [1, 2]
        with pytest.raises(ValueError, match="gone"):
            await reader.next()


async def test_the_end_of_the_log_wakes_all_who_wait() -> None:
    task = Task()
    with closing(task.reader()) as one, closing(task.log.reader("other", 5)) as two:
        waiting = [asyncio.ensure_future(reader.next()) for reader in (one, two)]
        await asyncio.sleep(0)
        task.log.close(ValueError("closed"))
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["closed", "closed"]


@pytest.mark.req("ORDR-04")
async def test_nothing_outlives_the_last_reader() -> None:
    task = Task()
    one, two = task.reader(), task.reader()
    assert task.log.watched == 1
    one.close()
    task.write()
    assert [entry.number for entry in await two.next()] == [1]
    two.close()
    assert task.log.watched == 0
    task.write()  # nobody is told


async def test_closing_twice_takes_nothing_from_a_newer_reader() -> None:
    task = Task()
    old = task.reader()
    old.close()
    with closing(task.reader()) as new:
        old.close()
        task.write()
        assert task.log.watched == 1
        assert [entry.number for entry in await new.next()] == [1]


async def test_a_task_that_nobody_reads_can_fail_in_peace() -> None:
    Task().log.fail("t", ValueError("nobody hears this"))


@pytest.mark.req("ORDR-03")
async def test_entries_are_shared_and_not_copied() -> None:
    task = Task()
    with closing(task.reader()) as one, closing(task.reader()) as two:
        task.write(3)
        assert all(a is b for a, b in zip(await one.next(), await two.next(), strict=True))


@pytest.mark.req("RPLY-06")
@pytest.mark.parametrize("shared", [True, False], ids=["from what is shared", "from the store"])
async def test_a_reader_that_takes_long_holds_no_more_than_a_mebibyte_or_one_entry(*, shared: bool) -> None:
    task = Task()
    with closing(task.reader()) as reader:
        for count, size in ((4, 300_000), (1, 5_000_000), (2, 10)):
            task.write(count, size)
        if not shared:
            task.wakeups.tell("t", 9, [entry(9)])  # with a gap before it, so that nothing is shared any more
            task.shelf.kept += [entry(8), entry(9)]
        batches = []
        while reader.position < 7:
            batches.append([one.number for one in await reader.next()])
    assert batches[:3] == [[1, 2, 3], [4], [5]]
    assert batches[3][:2] == [6, 7]


@pytest.mark.req("SUBS-02", "ORDR-01")
async def test_a_hint_may_tell_only_a_number_or_come_late() -> None:
    """What a reader is not given it finds in the store, and what it has had it is not given again."""
    task = Task()
    with closing(task.reader()) as reader:
        next_ = asyncio.ensure_future(reader.next())
        await asyncio.sleep(0)
        task.miss(3)
        task.wakeups.tell("t", 3, ())
        assert [entry.number for entry in await next_] == [1, 2, 3]
        task.wakeups.tell("t", 2, task.shelf.kept[:2])
        task.write(1)
        assert [entry.number for entry in await reader.next()] == [4]


class Taker:
    """Takes entries as long as it is willing."""

    def __init__(self, reader: Reader) -> None:
        self.willing = True
        self.batches: list[Sequence[Entry]] = []
        reader.deliver_to(self.take)

    def take(self, entries: Sequence[Entry]) -> bool:
        if self.willing:
            self.batches.append(entries)
        return self.willing

    @property
    def numbers(self) -> list[int]:
        return [entry.number for batch in self.batches for entry in batch]


async def waiting(reader: Reader) -> asyncio.Task[Sequence[Entry]]:
    task = asyncio.create_task(reader.next())
    await asyncio.sleep(0)
    return task


@pytest.mark.req("ORDR-03", "SUBS-02")
async def test_what_is_taken_wakes_nobody_and_what_is_not_comes_the_ordinary_way() -> None:
    task = Task()
    with closing(task.reader()) as reader:
        taker = Taker(reader)
        next_ = await waiting(reader)
        task.write(2)
        task.write(1)
        await asyncio.sleep(0)
        assert taker.numbers == [1, 2, 3]
        assert len(taker.batches) == 1  # all that was ready, in one go
        assert not next_.done()
        taker.willing = False
        task.write(2)
        assert [entry.number for entry in await next_] == [4, 5]
        taker.willing = True
        task.write(1)  # nobody waits, so that nobody is asked
        await asyncio.sleep(0)
        assert [entry.number for entry in await reader.next()] == [6]
        assert taker.numbers == [1, 2, 3]


@pytest.mark.req("ORDR-03", "RPLY-06")
async def test_what_is_much_is_offered_bit_by_bit() -> None:
    task = Task()
    with closing(task.reader()) as reader:
        taker = Taker(reader)
        next_ = await waiting(reader)
        task.write(7, 300_000)
        await asyncio.sleep(0)
        assert [len(batch) for batch in taker.batches] == [3, 3, 1]
        assert taker.numbers == [1, 2, 3, 4, 5, 6, 7]
        assert not next_.done()
        reader.deliver_to(lambda entries: len(taker.batches) < 4 and taker.take(entries))
        task.write(5, 300_000)
        assert [entry.number for entry in await next_] == [11, 12]  # the first were taken, these were not
        assert taker.numbers[7:] == [8, 9, 10]


@pytest.mark.req("ORDR-03")
async def test_readers_at_one_place_are_offered_the_very_same_batch() -> None:
    task = Task()
    with closing(task.reader()) as one, closing(task.reader()) as two, closing(task.reader()) as plain:
        takers = [Taker(one), Taker(two)]
        waits = [await waiting(reader) for reader in (one, two, plain)]
        task.write(3)
        own = await waits[2]
        await asyncio.sleep(0)
        assert takers[0].batches[0] is takers[1].batches[0] is own
        for wait in waits[:2]:
            wait.cancel()


@pytest.mark.req("RPLY-06")
async def test_who_is_behind_is_not_asked_but_told() -> None:
    task = Task(lag=10)
    with closing(task.reader()) as reader:
        taker = Taker(reader)
        taker.willing = False
        next_ = await waiting(reader)
        task.write(20)
        await next_
        reader.position = 0  # as if it had not got on since
        task.write(1)
        with pytest.raises(A2AError) as caught:
            await reader.next()
        assert caught.value.reason is Reason.SLOW_READER
        assert not taker.batches


async def test_the_end_of_a_log_is_told_after_what_was_pending() -> None:
    task = Task()
    with closing(task.reader()) as reader:
        taker = Taker(reader)
        next_ = await waiting(reader)
        task.write(1)
        task.log.fail("t", error := RuntimeError("over"))
        assert [entry.number for entry in await next_] == [1]
        with pytest.raises(RuntimeError) as caught:
            await reader.next()
        assert caught.value is error
        assert not taker.batches


async def test_who_has_left_is_offered_nothing() -> None:
    task = Task()
    with closing(task.reader()):
        with closing(task.reader()) as leaving:
            taker = Taker(leaving)
            next_ = await waiting(leaving)
            task.write(1)
            next_.cancel()
        await asyncio.sleep(0)
        assert not taker.batches


@pytest.mark.req("SUBS-02", "ORDR-01")
@pytest.mark.parametrize("seed", range(20))
async def test_every_entry_comes_once_and_in_order_however_it_comes(seed: int) -> None:
    """Writers that miss a publication, readers that pull, take, and change their mind."""
    dice, task, seen = random.Random(seed), Task(), list[int]()
    with closing(task.reader()) as reader:

        def take(entries: Sequence[Entry]) -> bool:
            if willing := dice.random() < 0.7:
                seen.extend(entry.number for entry in entries)
            return willing

        async def pull() -> None:
            while reader.position < 500:
                seen.extend(entry.number for entry in await reader.next())
                if dice.random() < 0.3:
                    await asyncio.sleep(0)

        reader.deliver_to(take)
        pulling = asyncio.create_task(pull())
        while (written := len(task.shelf.kept)) < 500:
            count = min(dice.choice([1, 1, 1, 7]), 500 - written)
            if dice.random() < 0.1 and written + count < 500:
                task.miss(count)
            else:
                task.write(count)
            if dice.random() < 0.6:
                await asyncio.sleep(0)
        while seen[-1:] != [500]:  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(0)
        pulling.cancel()
        await asyncio.wait([pulling])
    assert seen == list(range(1, 501))
