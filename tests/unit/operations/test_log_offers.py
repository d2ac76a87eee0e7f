"""Readers whose entries are offered before anybody is woken: nothing lost, nothing twice, whoever takes what."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from a2a_server.operations.log.readers import Reader
from a2a_server.ports.records import Entry
from a2a_server.protocol.errors import A2AError, Reason
from tests.unit.operations.test_log import Task


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
    with task.reader() as reader:
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
    with task.reader() as reader:
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
    with task.reader() as one, task.reader() as two, task.reader() as plain:
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
    with task.reader() as reader:
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
    with task.reader() as reader:
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
    with task.reader():
        with task.reader() as leaving:
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
    with task.reader() as reader:

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
