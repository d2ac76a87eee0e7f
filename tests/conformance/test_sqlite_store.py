"""The store in a SQLite file keeps the promises, and those that only a file can keep."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from a2a_server.adapters.sqlite import SqliteStore
from a2a_server.ports.store import Store
from tests.conformance.store_contract import StoreContract


class TestSqliteStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = SqliteStore(tmp_path / "a2a.db")
        await store.open()
        yield store
        await store.close()
