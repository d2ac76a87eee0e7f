"""Promises about turns: who may write a task, and takeovers (spec: DURA-02, DURA-03)."""

from __future__ import annotations

import pytest

from a2a_server.ports.records import StoredTurn
from a2a_server.ports.store import Claimed, StaleWrite, Store
from tests.conformance.authors import BOB, COMPLETED, HERE, THERE, Author


class TurnPromises:
    async def test_a_task_is_taken_over_while_it_has_a_turn(self, store: Store) -> None:
        author = await Author(store).start()
        await author.commit(author.write(begin=[StoredTurn(2, b"next")]))
        await author.commit(author.write(end=[1]))
        (claimed,) = await store.claim(THERE, 10)
        author.epoch = claimed.epoch
        await author.become(COMPLETED, end=[2])
        assert list(await store.claim(HERE, 10)) == []

    async def test_one_write_ends_a_turn_and_begins_others(self, store: Store) -> None:
        author = await Author(store).start()
        await author.commit(author.write(end=[1], begin=[StoredTurn(2, b"two"), StoredTurn(3, b"three")]))
        (claimed,) = await store.claim(THERE, 10)
        assert list(claimed.turns) == [StoredTurn(2, b"two"), StoredTurn(3, b"three")]

    async def test_turns_of_a_session_that_is_over_are_taken_over_with_the_next_epoch(self, store: Store) -> None:
        author = await Author(store, scope=BOB).start()
        await author.commit(author.write(begin=[StoredTurn(2, b"next")]))
        claimed = await store.claim(THERE, 10)
        assert list(claimed) == [Claimed(BOB, author.task_id, 2, [StoredTurn(1, b"request"), StoredTurn(2, b"next")])]
        assert (await author.load()).epoch == 2
        assert list(await store.claim(THERE, 10)) == []

    @pytest.mark.req("DURA-03")
    async def test_who_lost_a_task_cannot_write(self, store: Store) -> None:
        author = await Author(store).start()
        await store.claim(THERE, 10)
        before = await author.load()
        with pytest.raises(StaleWrite):
            await author.chunk("late")
        with pytest.raises(StaleWrite):
            await author.chunk("late", claim=HERE)
        assert await author.load() == before
        assert len(await store.entries(author.task_id, 0, 10)) == 1
        author.epoch = 2
        await author.chunk("mine now")

    async def test_nobody_takes_over_what_is_its_own(self, store: Store) -> None:
        await Author(store).start()
        assert list(await store.claim(HERE, 10)) == []

    async def test_a_task_without_turns_is_not_taken_over(self, store: Store) -> None:
        author = await Author(store).start()
        await author.become(COMPLETED, end=[1])
        assert list(await store.claim(THERE, 10)) == []

    async def test_a_turn_that_nobody_ever_claimed_is_anybodys(self, store: Store) -> None:
        author = await Author(store).create(begin=[StoredTurn(1, b"request")])
        (claimed,) = await store.claim(HERE, 10)
        assert (claimed.task_id, claimed.epoch) == (author.task_id, 1)

    async def test_the_right_to_write_outlives_the_turn_it_was_taken_for(self, store: Store) -> None:
        """Whoever holds the epoch may begin another turn."""
        author = await Author(store).start()
        await author.commit(author.write(end=[1]))
        assert list(await store.claim(THERE, 10)) == []
        await author.commit(author.write(begin=[StoredTurn(2, b"next")]))
        assert len(await store.claim(THERE, 10)) == 1

    async def test_a_task_that_was_over_from_the_start_is_like_any_other(self, store: Store) -> None:
        author = await Author(store, state=COMPLETED).create(claim=HERE)
        assert (await author.load()).epoch == 1
        assert list(await store.claim(THERE, 10)) == []
        with pytest.raises(StaleWrite):
            await author.commit(author.write(epoch=0, begin=[StoredTurn(2, b"late")]))
        await author.commit(author.write(claim=HERE))
        assert (await author.load()).epoch == 2

    async def test_a_turn_after_the_end_is_counted_all_the_same(self, store: Store) -> None:
        """No agent is ever asked to work on a task that is over, but that is not the store's to know."""
        author = await Author(store, state=COMPLETED).create(claim=HERE)
        await author.commit(author.write(begin=[StoredTurn(2, b"next")]))
        (claimed,) = await store.claim(THERE, 10)
        assert (claimed.epoch, list(claimed.turns)) == (2, [StoredTurn(2, b"next")])

    async def test_no_more_are_taken_over_than_asked_for(self, store: Store) -> None:
        tasks = {(await Author(store).start()).task_id for _ in range(5)}
        rounds = [await store.claim(THERE, 2) for _ in range(4)]
        assert [len(claimed) for claimed in rounds] == [2, 2, 1, 0]
        assert {one.task_id for claimed in rounds for one in claimed} == tasks
