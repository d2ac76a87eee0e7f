"""The store's suite: every promise of `a2a_server/ports/store.py`, for every adapter.

A subclass supplies the `store` fixture: a store that is open and empty. `store_*.py` holds the promises by topic.
"""

from __future__ import annotations

import asyncio

import pytest

from a2a_server.ports.store import Store
from tests.conformance.authors import UNLIMITED, Author, config
from tests.conformance.store_contexts import ContextPromises
from tests.conformance.store_holdings import HoldingPromises
from tests.conformance.store_lists import ListPromises
from tests.conformance.store_push import (
    ConfigPromises,
    CountPromises,
    DebtPromises,
    ParkingPromises,
    RoomPromises,
    SkipPromises,
)
from tests.conformance.store_receipts import ReceiptPromises
from tests.conformance.store_retention import RetentionPromises
from tests.conformance.store_tasks import TaskPromises, WritePromises
from tests.conformance.store_traces import TracePromises
from tests.conformance.store_turns import TurnPromises


class StorePromises(
    TaskPromises,
    ListPromises,
    TurnPromises,
    ContextPromises,
    ReceiptPromises,
    ConfigPromises,
    DebtPromises,
    SkipPromises,
    RoomPromises,
    CountPromises,
    ParkingPromises,
    TracePromises,
    WritePromises,
    RetentionPromises,
):
    """Everything but exact counts of bytes."""

    async def test_the_secret_is_made_once(self, store: Store) -> None:
        secret = await store.secret()
        assert len(secret) == 32
        await store.close()
        await store.open()
        assert await store.secret() == secret

    @pytest.mark.req("DOOR-07")
    async def test_an_open_store_answers_a_ping(self, store: Store) -> None:
        await store.ping()

    async def test_a_store_is_opened_and_closed_as_often_as_one_likes(self, store: Store) -> None:
        author = await Author(store).start(state=b"state")
        await author.chunk("x", configs=[config(author.task_id)], notify=True)
        before = await author.load()
        for _ in range(2):
            await asyncio.gather(store.open(), store.open())
            await asyncio.gather(store.close(), store.close())
            await asyncio.gather(store.open(), store.open())
        assert await author.load() == before
        assert len(await store.claim_deliveries(0, 1, 10, UNLIMITED)) == 1
        await author.chunk("y")


class StoreContract(StorePromises, HoldingPromises):
    """Everything."""
