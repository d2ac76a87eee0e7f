"""API keys in the store: what operators change, and what servers see of it (spec: GATE-08)."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from a2a_server.ports.keys import KeyAdmin, StoredKey
from a2a_server.ports.store import StoreRefused
from tests.support.house import PostgresKeyAdmin, PostgresOptions, PostgresStore, SqliteKeyAdmin, SqliteStore

KeptStore = SqliteStore | PostgresStore


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    return request.getfixturevalue("postgres") if request.param == "postgres" else tmp_path / "a2a.db"


@pytest.fixture
async def store(place: Path | str) -> AsyncIterator[KeptStore]:
    store = PostgresStore(PostgresOptions(dsn=place)) if isinstance(place, str) else SqliteStore(place)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def admin(place: Path | str) -> KeyAdmin:
    return PostgresKeyAdmin(PostgresOptions(dsn=place)) if isinstance(place, str) else SqliteKeyAdmin(place)


def key(key_id: str, owner: str = "ann", made_ms: int = 1) -> StoredKey:
    scopes = frozenset({"a2a:read", "x"}) if owner == "ann" else None
    return StoredKey(key_id, key_id.encode() * 4, owner, "north", scopes, owner == "bob", "for tests", made_ms, 99)


@pytest.mark.req("GATE-08")
async def test_a_server_sees_each_change_once(store: KeptStore, admin: KeyAdmin) -> None:
    assert await store.keys_after(0, 10) == []
    admin.make(key("one"))
    admin.make(key("two", "bob"))
    ((first, one), (second, two)) = await store.keys_after(0, 10)
    assert (one, two) == (key("one"), key("two", "bob"))
    assert first < second
    assert await store.keys_after(second, 10) == []
    assert await store.keys_after(0, 1) == [(first, one)]
    revoked = admin.revoke("one", 7)
    assert revoked == one._replace(revoked_ms=7)
    ((third, told),) = await store.keys_after(second, 10)
    assert (told, third > second) == (revoked, True)
    assert admin.revoke("one", 8) == revoked  # a second time changes nothing
    assert await store.keys_after(third, 10) == []
    assert admin.revoke("none", 8) is None


@pytest.mark.req("GATE-08")
async def test_uses_are_noted_and_change_nothing_else(store: KeptStore, admin: KeyAdmin) -> None:
    admin.make(key("one"))
    ((change, _),) = await store.keys_after(0, 10)
    await store.note_use({"one": 50, "gone": 60})
    await store.note_use({"one": 40})
    assert await store.keys_after(change, 10) == []
    assert admin.keys("", 10) == [key("one")._replace(used_ms=50)]


@pytest.mark.req("GATE-08")
async def test_the_newest_are_listed_first(store: KeptStore, admin: KeyAdmin) -> None:
    for number, owner in enumerate(["ann", "bob", "ann"]):
        admin.make(key(f"k{number}", owner, number))
    assert [found.key_id for found in admin.keys("", 10)] == ["k2", "k1", "k0"]
    assert [found.key_id for found in admin.keys("ann", 1)] == ["k2"]
    del store


@pytest.mark.req("GATE-08")
async def test_keys_outlive_the_server(tmp_path: Path) -> None:
    admin = SqliteKeyAdmin(tmp_path / "a2a.db")
    with pytest.raises(StoreRefused, match="there is no store"):
        admin.make(key("one"))
    for _ in range(2):
        store = SqliteStore(tmp_path / "a2a.db")
        await store.open()
        await store.close()
    admin.make(key("one"))
    assert admin.keys("", 1) == [key("one")]
    assert stat.S_IMODE((tmp_path / "a2a.db").stat().st_mode) == 0o600
