"""Promises about receipts: one send, one result, whoever asks again (spec: ONCE-01)."""

from __future__ import annotations

import asyncio

import pytest

from a2a_server.ports.records import Receipt
from a2a_server.ports.store import Repeated, Store
from tests.conformance.authors import ANN, ANN_ELSEWHERE, BOB, HERE, Author, config, fresh

NOW = 1_000
LATER = 5_000


def receipt(key: str, task_id: str = "", *, expires_ms: int = LATER) -> Receipt:
    return Receipt(key, b"fingerprint", task_id or fresh(), expires_ms)


class ReceiptPromises:
    async def test_a_receipt_is_left_with_the_write(self, store: Store) -> None:
        kept = receipt("k")
        await Author(store, kept.task_id).create(receipt=kept)
        assert await store.recall(ANN, "k", NOW) == kept

    @pytest.mark.req("AUTZ-03", "TENA-05")
    async def test_keys_are_the_callers_own(self, store: Store) -> None:
        mine, other = receipt("k"), receipt("k")
        await store.reserve(ANN, mine, NOW)
        assert await store.recall(BOB, "k", NOW) is None
        assert await store.recall(ANN_ELSEWHERE, "k", NOW) is None
        assert await store.reserve(BOB, other, NOW) == other
        assert await store.recall(ANN, "k", NOW) == mine

    async def test_a_repetition_leaves_nothing(self, store: Store) -> None:
        first = receipt("k")
        await Author(store, first.task_id).create(receipt=first)
        again = Author(store)
        with pytest.raises(Repeated) as caught:
            await again.start(receipt=receipt("k", again.task_id), configs=[config(again.task_id)])
        assert caught.value.receipt == first
        assert await store.load(ANN, again.task_id) is None
        assert await store.entries(again.task_id, 0, 10) == []
        assert await store.recall(ANN, "k", NOW) == first

    async def test_a_follow_up_is_repeated_too(self, store: Store) -> None:
        author = await Author(store).create()
        kept = receipt("k", author.task_id)
        await author.say(receipt=kept)
        with pytest.raises(Repeated):
            await author.say(receipt=kept)
        assert (await author.load()).number == 2

    async def test_of_many_equal_sends_one_creates(self, store: Store) -> None:
        authors = [Author(store) for _ in range(10)]
        sends = (author.create(receipt=receipt("k", author.task_id)) for author in authors)
        results = await asyncio.gather(*sends, return_exceptions=True)
        (winner,) = [result for result in results if isinstance(result, Author)]
        losers = [result.receipt.task_id for result in results if isinstance(result, Repeated)]
        assert losers == [winner.task_id] * 9

    async def test_a_receipt_lives_until_it_expires(self, store: Store) -> None:
        kept = receipt("k")
        await store.reserve(ANN, kept, NOW)
        assert await store.recall(ANN, "k", LATER - 1) == kept
        assert await store.recall(ANN, "k", LATER) is None

    async def test_an_expired_receipt_repeats_nothing(self, store: Store) -> None:
        await store.reserve(ANN, receipt("k"), NOW)
        author = Author(store)
        kept = receipt("k", author.task_id, expires_ms=9_000)
        with pytest.raises(Repeated):
            await author.create(receipt=kept)  # no time given: every receipt lives
        await author.create(receipt=kept, now_ms=LATER)
        assert await store.recall(ANN, "k", LATER) == kept

    # -- reservations

    async def test_whoever_reserves_first_holds_the_key(self, store: Store) -> None:
        wishes = [receipt("k") for _ in range(10)]
        got = await asyncio.gather(*(store.reserve(ANN, wish, NOW) for wish in wishes))
        assert len(set(got)) == 1
        assert got[0] in wishes
        assert await store.recall(ANN, "k", NOW) == got[0]

    async def test_an_expired_reservation_is_replaced(self, store: Store) -> None:
        await store.reserve(ANN, receipt("k"), NOW)
        late = receipt("k", expires_ms=9_000)
        assert await store.reserve(ANN, late, LATER) == late

    async def test_the_reserved_task_is_no_repetition(self, store: Store) -> None:
        kept = receipt("k")
        await store.reserve(ANN, kept, NOW)
        author = await Author(store, kept.task_id).create(receipt=kept, now_ms=NOW)
        assert (await author.load()).number == 1
        assert await store.recall(ANN, "k", NOW) == kept

    async def test_a_dead_send_is_replaced_once(self, store: Store) -> None:
        dead = receipt("k")
        await store.reserve(ANN, dead, NOW)
        wishes = [receipt("k") for _ in range(10)]
        got = await asyncio.gather(*(store.reserve(ANN, wish, NOW, instead_of=dead.task_id) for wish in wishes))
        assert len(set(got)) == 1
        assert got[0] in wishes
        with pytest.raises(Repeated):  # the dead send is not as dead as was thought
            await Author(store, dead.task_id).create(receipt=dead, now_ms=NOW)

    async def test_only_the_named_send_is_replaced(self, store: Store) -> None:
        kept = receipt("k")
        await store.reserve(ANN, kept, NOW)
        assert await store.reserve(ANN, receipt("k"), NOW, instead_of="another") == kept

    async def test_a_send_with_a_result_is_not_dead(self, store: Store) -> None:
        replied, created = receipt("replied"), receipt("created")
        await store.reserve(ANN, replied, NOW)
        await store.answer(ANN, "replied", b"reply")
        await Author(store, created.task_id).start(HERE, receipt=created)
        for kept in (replied, created):
            held = await store.reserve(ANN, receipt(kept.key), NOW, instead_of=kept.task_id)
            assert held.task_id == kept.task_id

    async def test_an_answer_completes_the_receipt(self, store: Store) -> None:
        kept = receipt("k")
        await store.reserve(ANN, kept, NOW)
        await store.answer(BOB, "k", b"not hers")
        await store.answer(ANN, "k", b"reply")
        await store.answer(ANN, "k", b"second thoughts")
        await store.answer(ANN, "never reserved", b"reply")
        found = await store.recall(ANN, "k", NOW)
        assert found == Receipt("k", kept.fingerprint, kept.task_id, kept.expires_ms, b"reply")
        assert await store.recall(ANN, "never reserved", NOW) is None
