"""Which keys the content of the file may be sealed with (spec: SECR-03)."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from a2a_server.adapters.sqlite.schema import queries
from a2a_server.ports.sealing import ContentSealing

_SQL = queries("content_keys.sql")


def used(connection: sqlite3.Connection) -> Sequence[str]:
    """The ids of these keys. The one that seals what is written now comes first."""
    return [key for (key,) in connection.execute(_SQL["used"])]


def take_up(connection: sqlite3.Connection, sealing: ContentSealing) -> None:
    """Seal with the first key from now on. Raises `StoreRefused` if a key is missing, and then changes nothing."""
    known = used(connection)
    sealing.begin(known)
    if known[:1] != [sealing.first]:
        seal_with(connection, sealing.first)


def seal_with(connection: sqlite3.Connection, key: str) -> None:
    connection.execute(_SQL["seal_with"], (key,))


def changes(connection: sqlite3.Connection) -> int:
    """How often another key has begun to seal."""
    return int(connection.execute(_SQL["turn"]).fetchone()[0])


def forget_others(connection: sqlite3.Connection, key: str, changes: int) -> None:
    """Only this key is used. Nothing happens if a server has taken up another one meanwhile."""
    connection.execute(_SQL["forget_others"], (key, changes))
