"""Promises of stores that several servers share: sessions, and letters between them (spec: DURA-03, DURA-04, SCAL-03).

A subclass supplies the fixtures `store`, open and empty, and `others`, the same store as other servers use it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import pytest

from a2a_server.ports.records import Receipt, StoredTurn
from a2a_server.ports.replicas import Letter, Replicas
from a2a_server.ports.store import StaleWrite, Store
from tests.conformance.authors import ANN, COMPLETED, HERE, THERE, Author

LONG, SHORT = 600.0, 0.05


class SharedStore(Store, Replicas, Protocol):
    """What servers share."""


class SessionPromises:
    @pytest.mark.req("DURA-04", "SCAL-03")
    async def test_turns_of_a_living_session_are_left_alone(self, store: SharedStore, others: SharedStore) -> None:
        assert await store.beat(HERE, LONG)
        author = await Author(store).start()
        assert await others.beat(THERE, LONG)
        assert list(await others.claim(THERE, 10)) == []
        await author.chunk("still mine")

    @pytest.mark.req("DURA-03", "DURA-04", "SCAL-03", "SCAL-04")
    async def test_a_session_that_is_over_loses_its_turns(self, store: SharedStore, others: SharedStore) -> None:
        assert await store.beat(HERE, SHORT)
        author = await Author(store).start()
        await asyncio.sleep(3 * SHORT)
        (claimed,) = await others.claim(THERE, 10)
        assert (claimed.task_id, claimed.epoch, claimed.turns) == (author.task_id, 2, [StoredTurn(1, b"request")])
        with pytest.raises(StaleWrite):
            await author.chunk("late")

    async def test_a_session_that_is_over_stays_over(self, store: SharedStore) -> None:
        assert await store.beat(HERE, SHORT)
        await asyncio.sleep(3 * SHORT)
        assert not await store.beat(HERE, LONG)
        assert not await store.beat(HERE, LONG)

    async def test_all_servers_know_which_sessions_live(self, store: SharedStore, others: SharedStore) -> None:
        assert not await others.lives(HERE)
        assert await store.beat(HERE, LONG)
        assert await others.lives(HERE)
        await store.end_session(HERE)
        assert not await others.lives(HERE)

    async def test_servers_tell_each_other_their_addresses(self, store: SharedStore, others: SharedStore) -> None:
        assert await store.beat(HERE, LONG, "one.example:1")
        assert await others.beat(THERE, LONG, "two.example:2")
        assert await others.beat("says nothing", LONG)
        assert await store.beat(HERE, LONG, "one.example:1")
        assert sorted(await others.addresses()) == ["one.example:1", "two.example:2"]
        await store.end_session(HERE)
        assert list(await others.addresses()) == ["two.example:2"]

    async def test_a_receipt_tells_the_session_that_left_it(self, store: SharedStore, others: SharedStore) -> None:
        receipt = Receipt("key", b"print", "task", 9_000, session=HERE)
        assert await store.reserve(ANN, receipt, 0) == receipt
        assert await others.recall(ANN, "key", 0) == receipt
        await Author(store, task_id="task").start(receipt=receipt)
        assert await others.recall(ANN, "key", 0) == receipt

    async def test_a_heartbeat_makes_a_session_longer(self, store: SharedStore, others: SharedStore) -> None:
        assert await store.beat(HERE, SHORT)
        assert await store.beat(HERE, LONG)
        await Author(store).start()
        await asyncio.sleep(3 * SHORT)
        assert list(await others.claim(THERE, 10)) == []

    async def test_a_session_that_is_ended_hands_over_at_once(self, store: SharedStore, others: SharedStore) -> None:
        assert await store.beat(HERE, LONG)
        author = await Author(store).start()
        await store.end_session(HERE)
        assert [one.task_id for one in await others.claim(THERE, 10)] == [author.task_id]
        assert not await store.beat(HERE, LONG)

    async def test_a_task_tells_the_session_that_has_its_turns(self, store: SharedStore, others: SharedStore) -> None:
        assert await store.beat(HERE, LONG)
        author = await Author(store).start()
        record = await others.load(ANN, author.task_id)
        assert record is not None
        assert record.session == HERE
        await author.become(COMPLETED, end=[1])
        assert (await author.load()).session == ""

    async def test_of_many_claimers_each_task_goes_to_one(self, store: SharedStore, others: SharedStore) -> None:
        tasks = {(await Author(store).start("gone")).task_id for _ in range(20)}
        sessions = [f"r{number}" for number in range(10)]
        assert all([await store.beat(session, LONG) for session in sessions])
        stores = (store, others)
        rounds = await asyncio.gather(*(stores[n % 2].claim(session, 3) for n, session in enumerate(sessions)))
        claimed = [one.task_id for got in rounds for one in got]
        assert len(claimed) == 20
        assert set(claimed) == tasks

    async def test_numbers_are_those_of_the_last_commit(self, store: SharedStore, others: SharedStore) -> None:
        author = await Author(store).start()
        await author.chunk("one")
        assert await others.numbers([author.task_id, "no such task"]) == {author.task_id: 2}


class LetterPromises:
    async def test_a_letter_is_handed_out_once_and_in_order(self, store: SharedStore, others: SharedStore) -> None:
        assert await store.beat(HERE, LONG)
        sent = [Letter(HERE, f"l{number}", bytes([number])) for number in range(5)]
        for letter in sent:
            await others.post(letter)
        got = [*await store.collect(HERE, 3), *await store.collect(HERE, 3)]
        assert got == sent
        assert list(await store.collect(HERE, 3)) == []

    async def test_a_letter_is_for_its_session_only(self, store: SharedStore, others: SharedStore) -> None:
        assert await store.beat(HERE, LONG)
        assert await others.beat(THERE, LONG)
        await others.post(Letter(HERE, "l", b"text"))
        assert list(await others.collect(THERE, 10)) == []
        assert len(await store.collect(HERE, 10)) == 1

    async def test_a_letter_to_a_session_that_is_over_is_lost(self, store: SharedStore, others: SharedStore) -> None:
        assert await store.beat(HERE, LONG)
        await others.post(Letter(HERE, "early", b"text"))
        await store.end_session(HERE)
        await others.post(Letter(HERE, "late", b"text"))
        await others.post(Letter("nobody", "l", b"text"))
        assert list(await store.collect(HERE, 10)) == []
        assert list(await store.collect("nobody", 10)) == []
