"""What the commands of operators work on: the store of the settings, which servers may be using (spec: OPER-04)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import cast

from a2a_server.adapters.sqlite import copying
from a2a_server.adapters.sqlite.api_keys import SqliteKeyAdmin
from a2a_server.adapters.sqlite.database_admin import SqliteDatabaseAdmin
from a2a_server.adapters.sqlite.kept_admin import SqliteKeptAdmin
from a2a_server.adapters.sqlite.push_admin import SqlitePushAdmin
from a2a_server.adapters.sqlite.rekeying import SqliteSealingAdmin
from a2a_server.ports.copying import CopyProgress, CopySource, CopyTarget, copy
from a2a_server.ports.database import DatabaseAdmin
from a2a_server.ports.keys import KeyAdmin
from a2a_server.ports.push import PushAdmin
from a2a_server.ports.retention import KeptAdmin
from a2a_server.ports.sealing import UNSEALED, SealingAdmin
from a2a_server.ports.shards import ShardAdmin
from a2a_server.ports.store import StoreRefused
from a2a_server.serve.parts import database_of, file_of, postgres, sealing_of, shards_of
from a2a_server.settings import Settings
from a2a_server.settings.model import POSTGRES


def push_admin_of(settings: Settings) -> PushAdmin:
    """What `a2ad push` works on."""
    if settings.postgresql.shards:
        return cast("PushAdmin", postgres().ShardedPushAdmin(shards_of(settings), sealing_of(settings)))
    if settings.store.startswith(POSTGRES):
        return cast("PushAdmin", postgres().PostgresPushAdmin(database_of(settings), sealing_of(settings)))
    return SqlitePushAdmin(file_of(settings.store), sealing_of(settings))


def key_admin_of(settings: Settings) -> KeyAdmin:
    """What `a2ad keys` works on."""
    if settings.store.startswith(POSTGRES):
        return cast("KeyAdmin", postgres().PostgresKeyAdmin(database_of(settings)))
    return SqliteKeyAdmin(file_of(settings.store))


def kept_admin_of(settings: Settings) -> KeptAdmin:
    """What `a2ad db prune | delete | usage` works on."""
    if settings.postgresql.shards:
        return cast("KeptAdmin", postgres().ShardedKeptAdmin(shards_of(settings), sealing_of(settings)))
    if settings.store.startswith(POSTGRES):
        return cast("KeptAdmin", postgres().PostgresKeptAdmin(database_of(settings), sealing_of(settings)))
    return SqliteKeptAdmin(file_of(settings.store), sealing_of(settings))


def shard_admin_of(settings: Settings) -> ShardAdmin:
    """What `a2ad db shards` works on."""
    if not settings.postgresql.shards:
        raise StoreRefused("the store is one database; [[postgresql.shards]] lists several")
    return cast("ShardAdmin", postgres().PostgresShardAdmin(shards_of(settings)))


def sealing_admin_of(settings: Settings, *, plain: bool) -> SealingAdmin:
    """What `a2ad db rekey` works on. With `plain` content is to be sealed no more."""
    sealing = sealing_of(settings)
    wanted = UNSEALED if plain else sealing
    if settings.store.startswith(POSTGRES):
        return cast("SealingAdmin", postgres().PostgresSealingAdmin(database_of(settings), sealing, wanted))
    return SqliteSealingAdmin(file_of(settings.store), sealing, wanted)


def copy_store(settings: Settings, source: str, target: str, tell: Callable[[CopyProgress], None]) -> Mapping[str, int]:
    """Copy all that is in a store into an empty one. Returns how many rows of each kind that was."""
    if settings.postgresql.shards:
        raise StoreRefused("a store on several databases, as in postgresql.shards, cannot be copied")
    with ExitStack() as held:
        rows: CopySource = held.enter_context(
            postgres().copied_from(database_of(settings, source))
            if source.startswith(POSTGRES)
            else copying.copied_from(file_of(source))
        )
        empty: CopyTarget = held.enter_context(
            postgres().copied_to(database_of(settings, target))
            if target.startswith(POSTGRES)
            else copying.copied_to(file_of(target))
        )
        return copy(rows, empty, tell)


def database_admin_of(settings: Settings) -> DatabaseAdmin:
    """What `a2ad db status | upgrade` works on."""
    if settings.store.startswith(POSTGRES):
        wakeup_dsn = settings.postgresql.wakeup_dsn
        return cast("DatabaseAdmin", postgres().PostgresDatabaseAdmin(database_of(settings), wakeup_dsn=wakeup_dsn))
    return SqliteDatabaseAdmin(file_of(settings.store))
