"""The store in memory keeps the promises."""

from __future__ import annotations

import pytest

from a2a_server.ports.store import Store
from tests.conformance.store_contract import StoreContract
from tests.support.house import MemoryStore


class TestMemoryStore(StoreContract):
    @pytest.fixture
    async def store(self) -> Store:
        return MemoryStore()
