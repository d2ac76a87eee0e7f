"""The store in memory keeps the promises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.memory.tasks import TaskIndex
from a2a_server.domain.paging import TaskFilter
from a2a_server.domain.scope import Scope
from a2a_server.ports.records import TaskHead
from a2a_server.ports.store import Store
from tests.conformance.store_contract import StoreContract
from tests.conformance.store_sessions import LetterPromises, SessionPromises, SharedStore
from tests.support.house import MemoryStore


class TestMemoryStore(StoreContract):
    @pytest.fixture
    async def store(self) -> Store:
        return MemoryStore()


class TestSharedMemoryStore(SessionPromises, LetterPromises):
    """Several servers in one process, as tests have them."""

    @pytest.fixture
    async def store(self) -> SharedStore:
        return MemoryStore()

    @pytest.fixture
    async def others(self, store: SharedStore) -> SharedStore:
        return store


HERE = Scope("", "me")
EVERYTHING = TaskFilter()


@given(before=st.integers(0, 200), late=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10**6)), max_size=100))
def test_who_comes_late_finds_its_place(before: int, late: list[tuple[int, int]]) -> None:
    """Near the end, as what comes in the same millisecond, or anywhere."""
    index = TaskIndex()
    places = [(number // 8, f"{number:07}") for number in range(before)]
    places += [(status_ms, f"late-{number}-{turn}") for turn, (status_ms, number) in enumerate(late)]
    for status_ms, task_id in places:
        index.put(HERE, task_id, None, TaskHead(b"", "context", pb.TASK_STATE_COMPLETED, status_ms))
    ids, total = index.page(HERE, EVERYTHING, None, len(places) + 1)
    assert ids == [task_id for _, task_id in sorted(places, reverse=True)]
    assert total == len(places)
