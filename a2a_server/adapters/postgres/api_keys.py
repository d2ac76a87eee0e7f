"""The rows of API keys (spec: GATE-08)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from a2a_server.adapters.postgres.database import Database
from a2a_server.adapters.postgres.schema import queries
from a2a_server.ports.keys import StoredKey

if TYPE_CHECKING:
    import asyncpg

SQL = queries("api_keys.sql")


async def keys_after(database: Database, change: int, limit: int) -> Sequence[tuple[int, StoredKey]]:
    return [(row["change"], key_of(row)) for row in await database.fetch(SQL["after"], change, limit)]


async def note_use(database: Database, used: Mapping[str, int]) -> None:
    await database.fetch(SQL["used"], list(used), list(used.values()))


def key_of(row: asyncpg.Record) -> StoredKey:
    _, *columns = row
    key = StoredKey(*columns)
    return key._replace(scopes=None if key.scopes is None else frozenset(key.scopes))
