"""The store in a PostgreSQL database (spec: RECV-01, DURA-01, SCAL-04, SCAL-08)."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from a2a_server.adapters.postgres import api_keys, holdings, lists, push, rates, tasks
from a2a_server.adapters.postgres.database import Database, DatabaseOptions, connect, verdict
from a2a_server.adapters.postgres.groups import Groups, Verdict, stale
from a2a_server.adapters.postgres.schema import SQL, Steps, check_known, migrate, migrations, take_up
from a2a_server.adapters.postgres.sessions import Sessions
from a2a_server.adapters.postgres.shard_map import check_alone, held_by
from a2a_server.adapters.postgres.sweeping import Sweep
from a2a_server.adapters.postgres.writes import SQL as WRITES
from a2a_server.adapters.postgres.writes import (
    debts_of,
    is_ours,
    kind_of,
    stands_alone,
    values_of,
)
from a2a_server.domain.scope import Scope
from a2a_server.domain.slots import place_of
from a2a_server.ports.agent import ContextMemory
from a2a_server.ports.keys import StoredKey
from a2a_server.ports.push import ClaimLimits, ClaimOrder, Delivery, FailedAttempt, PushConfig
from a2a_server.ports.records import Entry, Receipt, Write
from a2a_server.ports.retention import Deadlines, Holdings, Removed
from a2a_server.ports.sealing import UNSEALED, ContentSealing, context_place
from a2a_server.ports.store import (
    Claimed,
    ContextQuery,
    Repeated,
    StaleWrite,
    StoredTask,
    StoreUnavailable,
    TaskPage,
    TaskQuery,
)

if TYPE_CHECKING:
    from a2a_server.adapters.postgres.database import Connection

_PARTS: Final = 16
"""Rows over which a scope's totals are spread. Who writes takes one of them and stays with it."""

_UPGRADE: Final = 86_400.0
"""Seconds that a step of an upgrade may take: that of an index, or of waiting for other servers that upgrade."""


class PostgresStore(Sessions):
    """Plain writes go in groups, one group of each kind at a time; those with more to them have a transaction each."""

    def __init__(
        self,
        options: DatabaseOptions,
        sealing: ContentSealing = UNSEALED,
        *,
        upgrade: bool = True,
        steps: Steps | None = None,
        alone: bool = True,
    ) -> None:
        """`upgrade`: whether to bring the tables up to date, or to refuse those that are not. `steps` are for tests.
        `alone`: the database is the whole store, and not one of several.
        """
        self._steps = steps or migrations()
        super().__init__(Database(options), max(self._steps), sealing.first)
        self._upgrade = upgrade
        self._options = options
        self._alone = alone
        self._sealing = sealing
        self._door = asyncio.Lock()
        self._open = False
        self._held = AsyncExitStack()
        first, self._part_alone, *others = random.sample(range(_PARTS), 4)
        self._groups = {
            kind: Groups(partial(self._commit_group, kind, part))
            for kind, part in zip(("create", "append", "change"), (first, *others), strict=True)
        }
        # Callers wait for these answers, so they wait for no other statement.
        self._rates = Database(replace(options, connections=1), tells=False)
        self._lanes = push.LaneRound(self._database, sealing)
        self._takeovers = tasks.Takeovers(self._database, sealing)
        self._sweep = Sweep(self._database, first, sealing)

    @property
    def dsn(self) -> str:
        return self._options.dsn

    @property
    def database(self) -> Database:
        return self._database

    async def open(self) -> None:
        """Raises `StoreRefused` if the database is newer than this server."""
        async with self._door:
            if self._open:
                return
            async with AsyncExitStack() as undo:
                await self._migrate()
                await self._database.open()
                undo.push_async_callback(self._database.close)
                await self._rates.open()
                undo.push_async_callback(self._rates.close)
                await self._settle()
                self._held = undo.pop_all()
            self._open = True

    async def _migrate(self) -> None:
        connection = await connect(replace(self._options, command_timeout=_UPGRADE))
        try:
            if self._upgrade:
                await migrate(connection, self._options.name, self._steps)
            else:
                await check_known(connection, self._options.name, whose="server")
            await connection.execute(SQL["secret_add"], os.urandom(32))
        except Exception as error:
            raise verdict(error, self._options) from error
        finally:
            connection.terminate()

    async def _settle(self) -> None:
        now_ms = await self.compare_clocks()
        if self._alone:
            now = await held_by(self._database)
            check_alone(now, self._options.name)
            self.knows = [now.id]
        await self._database.transaction(partial(take_up, self._sealing))
        await self._database.transaction(lambda connection: push.set_back(connection, now_ms))

    async def close(self) -> None:
        """Finish all accepted calls and disconnect."""
        async with self._door:
            if self._open:
                self._open = False
                for groups in self._groups.values():
                    await groups.drain()
                await self._held.aclose()

    def _check(self) -> None:
        if not self._open:
            raise StoreUnavailable("the store is closed")

    async def ping(self) -> None:
        self._check()
        await self.secret()

    async def secret(self) -> bytes:
        return bytes((await self._database.fetch(SQL["secret"]))[0][0])

    # -- tasks

    async def commit(self, write: Write) -> bool:
        self._check()
        if not write.expected and write.epoch != (write.claim is not None):
            raise StaleWrite(write.task_id)
        if self._sealing is not UNSEALED:
            write = self._sealing.sealed(write)
        try:
            done = await (self._commit_alone(write) if stands_alone(write) else self._groups[kind_of(write)].do(write))
        except StoreUnavailable:
            self._takeovers.doubt(write)
            raise
        self._takeovers.believe(write)
        return done

    async def _commit_group(self, kind: str, part: int, writes: Sequence[Write]) -> Sequence[Verdict]:
        rows = await self._database.fetch(WRITES[kind], *values_of(kind, writes, part))
        due = {row["place"]: row["due"] for row in rows}
        return [due[place] if place in due else await self._refused(write) for place, write in enumerate(writes, 1)]

    async def _refused(self, write: Write) -> Verdict:
        """Look whether it was stored before: when a commit does not answer, its writes are run again."""
        slot, scope = place_of(write.scope)
        reached = await self._database.fetch(WRITES["reached"], slot, write.task_id, scope)
        return write.notify if is_ours(write, reached) else stale(write)

    async def _commit_alone(self, write: Write) -> bool:
        try:
            return await self._database.transaction(partial(self._write_all, write))
        except (StaleWrite, Repeated) as error:
            refusal: StaleWrite | Repeated = error
        found = await self._refused(write)
        if isinstance(found, Exception):
            raise refusal
        return found

    async def _write_all(self, write: Write, connection: Connection) -> bool:
        kind, slot, grown = kind_of(write), place_of(write.scope).slot, 0
        if write.receipt is not None:
            await self._leave(connection, write)
        if write.expected:  # before its entries, which they are owed
            grown += await push.put_with_write(connection, write, self._sealing)
        row = await connection.fetchrow(WRITES[kind], *values_of(kind, [write], self._part_alone))
        if row is None:
            raise stale(write)
        due = bool(row["due"])
        if not write.expected:
            grown += await push.put_with_write(connection, write, self._sealing)
            if write.notify and write.configs:
                due = bool(await connection.fetch(WRITES["bill"], slot, write.task_id, *debts_of(write)))
        grown += await self._remember(connection, write)
        await holdings.grow(connection, (slot, write.task_id), self._part_alone, grown)
        return due

    async def _leave(self, connection: Connection, write: Write) -> None:
        """Leave the receipt of a write, or raise whose has the key."""
        receipt, now_ms = write.receipt, write.now_ms
        assert receipt is not None  # noqa: S101 - the caller has looked
        made = None if write.expected else write.task_id
        while not await tasks.leave_receipt(connection, write.scope, receipt, now_ms, made=made):
            found = await tasks.living_receipt(connection, write.scope, receipt.key, now_ms, self._sealing)
            if found is not None:
                raise Repeated(found)

    async def _remember(self, connection: Connection, write: Write) -> int:
        """Change the state of the task's context. Returns how much longer it has become."""
        if not write.remember:
            return 0
        place, grown = (place_of(write.scope).slot, write.task_id), 0
        context = await connection.fetchval(WRITES["context"], *place)
        for name, value in sorted(write.remember.items()):  # in one order, so that no two wait for each other
            if value is None:
                grown += await connection.fetchval(WRITES["forget"], *place, name.encode()) or 0
            else:
                sealed = self._sealing.seal(value, context_place(write.scope, context, name))
                grown += await connection.fetchval(WRITES["remember"], *place, name.encode(), sealed)
        return grown

    async def load(self, scope: Scope, task_id: str) -> StoredTask | None:
        return await tasks.load(self._database, scope, task_id, self._sealing)

    async def entries(self, task_id: str, after: int, limit: int) -> Sequence[Entry]:
        return await tasks.entries(self._database, task_id, after, limit, self._sealing)

    async def page(self, query: TaskQuery) -> TaskPage:
        return await lists.page(self._database, query, self._sealing)

    async def has_context(self, scope: Scope, context_id: str) -> bool:
        return await tasks.has_context(self._database, scope, context_id)

    async def context(self, query: ContextQuery) -> ContextMemory:
        return await lists.context(self._database, query, self._sealing)

    async def holdings(self, owner: str, tenant: str = "") -> Holdings:
        return await holdings.held(self._database, owner, tenant)

    async def waiting_since(self, state: int, before_ms: int, limit: int) -> Sequence[tuple[Scope, str]]:
        return [(scope, task_id) for _, scope, task_id in await self.waiting(state, before_ms, limit)]

    async def waiting(self, state: int, before_ms: int, limit: int) -> Sequence[lists.WaitingTask]:
        """What `waiting_since` finds, with the times."""
        return await lists.waiting_since(self._database, state, before_ms, limit)

    # -- sessions

    async def claim(self, session: str, limit: int) -> Sequence[Claimed]:
        return await self.take_over(session, await self.over(await self.holders(session)), limit)

    async def take_over(self, session: str, over: Sequence[str], limit: int) -> Sequence[Claimed]:
        """Take tasks of sessions that are over."""
        self._check()
        return await self._takeovers.claim(session, over, limit)

    # -- receipts

    async def recall(self, scope: Scope, key: str, now_ms: int) -> Receipt | None:
        return await tasks.recall(self._database, scope, key, now_ms, self._sealing)

    async def reserve(self, scope: Scope, receipt: Receipt, now_ms: int, *, instead_of: str = "") -> Receipt:
        self._check()
        return await tasks.reserve(self._database, scope, receipt, now_ms, instead_of, sealing=self._sealing)

    async def answer(self, scope: Scope, key: str, reply: bytes) -> None:
        self._check()
        await tasks.answer(self._database, scope, key, reply, self._sealing)

    # -- push configs and deliveries

    async def put_config(self, scope: Scope, hook: PushConfig) -> bool:
        self._check()
        return await push.put_config(self._database, scope, hook, self._part_alone, self._sealing)

    async def get_config(self, scope: Scope, task_id: str, config_id: str) -> PushConfig | None:
        return await push.get_config(self._database, scope, task_id, config_id, self._sealing)

    async def configs(self, scope: Scope, task_id: str, after: str, limit: int) -> Sequence[PushConfig] | None:
        return await push.configs(self._database, scope, task_id, after, limit, sealing=self._sealing)

    async def count_configs(self, owner: str, host: str | None, limit: int) -> int:
        return await push.count_configs(self._database, owner, host, limit)

    async def count_hosts(self, owner: str, limit: int) -> int:
        return len(await self.hosts(owner, limit))

    async def hosts(self, owner: str, limit: int) -> Sequence[str]:
        """The hosts that `count_hosts` counts."""
        return await push.hosts(self._database, owner, limit)

    async def delete_config(self, scope: Scope, task_id: str, config_id: str) -> bool:
        self._check()
        return await push.delete_config(self._database, scope, task_id, config_id, self._part_alone)

    async def next_due(self) -> int | None:
        return await push.next_due(self._database)

    async def claim_deliveries(self, now_ms: int, until_ms: int, limit: int, limits: ClaimLimits) -> Sequence[Delivery]:
        self._check()
        return await self._lanes.claim(ClaimOrder(now_ms, until_ms, limit, limits))

    async def finish_attempt(self, delivery: Delivery, failure: FailedAttempt | None) -> bool:
        self._check()
        return await push.settle(self._database, delivery, failure)

    # -- API keys

    async def keys_after(self, change: int, limit: int) -> Sequence[tuple[int, StoredKey]]:
        return await api_keys.keys_after(self._database, change, limit)

    async def note_use(self, used: Mapping[str, int]) -> None:
        self._check()
        await api_keys.note_use(self._database, used)

    # -- rates

    async def spend(self, spent: Mapping[bytes, float]) -> Mapping[bytes, float]:
        self._check()
        return await rates.spend(self._rates, spent)

    async def forget_full(self) -> None:
        self._check()
        await rates.forget_full(self._rates)

    # -- retention

    async def sweep(self, deadlines: Deadlines) -> Removed | None:
        self._check()
        return await self._sweep.step(deadlines)

    async def tidy(self) -> bool:
        """PostgreSQL's autovacuum gives space back by itself."""
        return False
