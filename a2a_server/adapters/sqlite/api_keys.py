"""The rows of API keys, and what operators do with them while a server runs (spec: GATE-08)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from a2a_server.adapters.sqlite.push_admin import visiting
from a2a_server.adapters.sqlite.schema import queries
from a2a_server.ports.keys import StoredKey

_SQL = queries("api_keys.sql")


def keys_after(connection: sqlite3.Connection, change: int, limit: int) -> Sequence[tuple[int, StoredKey]]:
    return [(row[0], _key(row)) for row in connection.execute(_SQL["after"], (change, limit))]


def note_use(connection: sqlite3.Connection, used: Mapping[str, int]) -> None:
    connection.executemany(_SQL["used"], [(when, key_id) for key_id, when in used.items()])


class SqliteKeyAdmin:
    """Every call opens the file, does one thing in a transaction, and closes it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def make(self, key: StoredKey) -> None:
        scopes = None if key.scopes is None else json.dumps(sorted(key.scopes))
        with visiting(self._path) as connection:
            connection.execute(_SQL["make"], key._replace(scopes=scopes))  # type: ignore[arg-type]  # as it is stored

    def keys(self, owner: str, limit: int) -> Sequence[StoredKey]:
        with visiting(self._path, "BEGIN") as connection:
            return [_key(row) for row in connection.execute(_SQL["listed"], (owner, limit))]

    def revoke(self, key_id: str, now_ms: int) -> StoredKey | None:
        with visiting(self._path) as connection:
            connection.execute(_SQL["revoke"], (now_ms, key_id))
            row = connection.execute(_SQL["one"], (key_id,)).fetchone()
            return _key(row) if row else None


def _key(row: tuple[Any, ...]) -> StoredKey:
    key = StoredKey(*row[1:])
    scopes = None if key.scopes is None else frozenset(json.loads(str(key.scopes)))
    return key._replace(scopes=scopes, extended_card=bool(key.extended_card))
