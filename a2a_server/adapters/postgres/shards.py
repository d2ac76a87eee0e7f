"""The store on several PostgreSQL databases: finds the one that a call is for (spec: SCAL-05).

1. Tasks, receipts, contexts and push configs are in the database that has the slot of their scope: `_at`. A call for a
   scope touches no other. Only where an id without a slot is all that is known, every database is asked.
2. Sessions, letters, API keys and the secret are in the first database, the *home*. Wake-ups go through it.
3. Claims and sweeps go from database to database; one that is away does not hold up the others. What an owner has in
   all tenants is added up: `_everywhere`.
4. A call that finds the map out of date reads it again, and is made where the slot is now. A read may have missed what
   has moved, so it counts only if its database still says the same afterwards. A write is refused by the database.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TypeVar

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.postgres.shard_map import Member, Shard, ShardMap, ShardOptions, found
from a2a_server.adapters.postgres.store import PostgresStore
from a2a_server.domain.scope import Scope
from a2a_server.domain.slots import place_of, slot_in, slots_text
from a2a_server.ports.agent import ContextMemory
from a2a_server.ports.keys import StoredKey
from a2a_server.ports.push import ClaimLimits, Delivery, FailedAttempt, PushConfig
from a2a_server.ports.records import Entry, Receipt, Write
from a2a_server.ports.replicas import Letter
from a2a_server.ports.retention import Deadlines, Holdings, Removed
from a2a_server.ports.sealing import UNSEALED, ContentSealing
from a2a_server.ports.store import (
    Claimed,
    ContextQuery,
    StaleWrite,
    StoredTask,
    StoreUnavailable,
    TaskPage,
    TaskQuery,
)

T = TypeVar("T")
log = structlog.get_logger(__name__)


def _always(_: object) -> bool:
    return True


def _never(_: object) -> bool:
    return False


class ShardedStore:
    """A `Store` with `Replicas`, `KeyStore` and `BucketStore`: a `PostgresStore` for each database. The first is the
    home.
    """

    def __init__(
        self, shards: Sequence[ShardOptions], sealing: ContentSealing = UNSEALED, *, upgrade: bool = True
    ) -> None:
        self._options = shards
        self._stores = [PostgresStore(shard.options, sealing, upgrade=upgrade, alone=False) for shard in shards]
        self._home, *self._others = self._stores
        self._shards = {
            Shard(options.name, store.database): store for options, store in zip(shards, self._stores, strict=True)
        }
        self._map = ShardMap([*self._shards], shards[0].options.patience)
        self._turn = 0
        """Whose claims come first, so that no database is always the last."""
        self._swept = 0
        """The database that is being swept."""
        self._notes: dict[PostgresStore, asyncio.Task[None]] = {}
        self._door = asyncio.Lock()
        self._held = AsyncExitStack()
        self._open = False

    async def open(self) -> None:
        """Raises `StoreRefused` if these databases are not one store, or not all of it."""
        async with self._door:
            if self._open:
                return
            async with AsyncExitStack() as undo:
                for store in self._stores:
                    await store.open()
                    undo.push_async_callback(store.close)
                home, *others = (
                    Member(options.name, store.database, options.slots)
                    for options, store in zip(self._options, self._stores, strict=True)
                )
                await found(home, others)
                await self._map.check()
                self._tell_moved()
                self._home.knows = [shard.held.id for shard in self._shards if shard.held]
                self._held = undo.pop_all()
            self._open = True

    def _tell_moved(self) -> None:
        for shard, options in zip(self._shards, self._options, strict=True):
            if shard.held and shard.held.slots != options.slots:
                log.info("shards.moved", database=shard.name, slots=slots_text(shard.held.slots))

    async def close(self) -> None:
        async with self._door:
            if self._open:
                self._open = False
                await asyncio.gather(*self._notes.values(), return_exceptions=True)
                await self._held.aclose()

    async def ping(self) -> None:
        """Whether the home answers. A call whose database is away is refused by itself."""
        await self._home.ping()

    async def secret(self) -> bytes:
        return await self._home.secret()

    # -- finding the database

    async def _at(
        self, slot: int, call: Callable[[PostgresStore], Awaitable[T]], *, final: Callable[[T], bool] = _never
    ) -> T:
        """Make a call where a slot is. `final` says of which results it is certain that they came from there."""
        while True:
            shard, version, reads = await self._map.shard_of(slot)
            refused: StaleWrite | None = None
            try:
                result = await call(self._shards[shard])
            except StaleWrite as error:
                refused = error
            else:
                if final(result):
                    return result
            if await shard.still_says(version):
                if refused is not None:
                    raise refused
                return result
            await self._map.renew(reads)

    async def _for(
        self, scope: Scope, call: Callable[[PostgresStore], Awaitable[T]], *, final: Callable[[T], bool] = _never
    ) -> T:
        return await self._at(place_of(scope).slot, call, final=final)

    async def _everywhere(self, call: Callable[[PostgresStore], Awaitable[T]]) -> Sequence[T]:
        """Make a call everywhere while nothing moves."""
        while True:
            reads = await self._map.settled()
            versions = [shard.held.version if shard.held else 0 for shard in self._shards]
            results = await asyncio.gather(*map(call, self._stores))
            still = map(Shard.still_says, self._shards, versions)
            if all(await asyncio.gather(*still)):
                return results
            await self._map.renew(reads)

    async def _wherever(self, call: Callable[[PostgresStore], Awaitable[T]]) -> Sequence[T]:
        """Make a call everywhere, but for databases that are away, if any answers."""
        results = await asyncio.gather(*map(call, self._stores), return_exceptions=True)
        good = [result for result in results if not isinstance(result, BaseException)]
        bad = [result for result in results if isinstance(result, BaseException)]
        for error in bad:
            if not good or not isinstance(error, StoreUnavailable):
                raise error
        return good

    # -- tasks

    async def commit(self, write: Write) -> bool:
        if slot_in(write.task_id) not in {None, place_of(write.scope).slot}:
            raise StaleWrite(write.task_id)  # somebody else's
        return await self._for(write.scope, lambda store: store.commit(write), final=_always)

    async def load(self, scope: Scope, task_id: str) -> StoredTask | None:
        return await self._for(scope, lambda store: store.load(scope, task_id))

    async def entries(self, task_id: str, after: int, limit: int) -> Sequence[Entry]:
        slot = slot_in(task_id)
        if slot is not None:
            return await self._at(slot, lambda store: store.entries(task_id, after, limit))
        found_here = await self._everywhere(lambda store: store.entries(task_id, after, limit))
        return next(filter(None, found_here), [])

    async def page(self, query: TaskQuery) -> TaskPage:
        return await self._for(query.scope, lambda store: store.page(query))

    async def has_context(self, scope: Scope, context_id: str) -> bool:
        return await self._for(scope, lambda store: store.has_context(scope, context_id))

    async def context(self, query: ContextQuery) -> ContextMemory:
        memory = await self._for(query.scope, lambda store: store.context(query))

        async def tasks(store: PostgresStore) -> Sequence[pb.Task]:
            return await (await store.context(query)).tasks()

        return memory._replace(tasks=lambda: self._for(query.scope, tasks))

    async def holdings(self, owner: str, tenant: str = "") -> Holdings:
        if tenant:
            return await self._for(Scope(tenant, owner), lambda store: store.holdings(owner, tenant))
        return Holdings(*map(sum, zip(*await self._everywhere(lambda store: store.holdings(owner)), strict=True)))

    async def waiting_since(self, state: int, before_ms: int, limit: int) -> Sequence[tuple[Scope, str]]:
        rows = await self._wherever(lambda store: store.waiting(state, before_ms, limit))
        return [(scope, task_id) for _, scope, task_id in [*heapq.merge(*rows)][:limit]]

    # -- sessions

    async def beat(self, session: str, seconds: float, address: str = "") -> bool:
        """The home decides. The others are told for the commands that work on them, and nobody waits for that."""
        known = await self._home.beat(session, seconds, address)
        for store in self._others:
            if store not in self._notes or self._notes[store].done():
                self._notes[store] = asyncio.create_task(_note(store, session, seconds), name="note of a session")
        return known

    async def lives(self, session: str) -> bool:
        return await self._home.lives(session)

    @property
    def ahead_ms(self) -> int:
        return self._home.ahead_ms

    async def addresses(self) -> Collection[str]:
        return await self._home.addresses()

    async def end_session(self, session: str) -> None:
        await self._home.end_session(session)
        await asyncio.gather(*self._notes.values())
        for store in self._others:
            await _note(store, session, 0)

    async def numbers(self, task_ids: Collection[str]) -> Mapping[str, int]:
        """Wrong ones do no harm, and the next look comes soon."""
        asked: dict[PostgresStore, list[str]] = {store: [] for store in self._stores}
        for task_id in task_ids:
            slot = slot_in(task_id)
            shard = None if slot is None else self._map.find(slot)
            for store in self._stores if shard is None else [self._shards[shard]]:
                asked[store].append(task_id)
        found_here = await self._wherever(lambda store: store.numbers(asked[store]))
        return {task_id: number for part in found_here for task_id, number in part.items()}

    async def post(self, letter: Letter) -> None:
        await self._home.post(letter)

    async def collect(self, session: str, limit: int) -> Sequence[Letter]:
        return await self._home.collect(session, limit)

    async def claim(self, session: str, limit: int) -> Sequence[Claimed]:
        holders = await self._wherever(lambda store: store.holders(session))
        over = await self._home.over({holder for part in holders for holder in part})
        claimed: list[Claimed] = []
        for store in self._stores:
            if len(claimed) < limit:
                with suppress(StoreUnavailable):  # its tasks wait until it is back
                    claimed += await store.take_over(session, over, limit - len(claimed))
        return claimed

    # -- receipts

    async def recall(self, scope: Scope, key: str, now_ms: int) -> Receipt | None:
        return await self._for(scope, lambda store: store.recall(scope, key, now_ms))

    async def reserve(self, scope: Scope, receipt: Receipt, now_ms: int, *, instead_of: str = "") -> Receipt:
        return await self._for(scope, lambda store: store.reserve(scope, receipt, now_ms, instead_of=instead_of))

    async def answer(self, scope: Scope, key: str, reply: bytes) -> None:
        await self._for(scope, lambda store: store.answer(scope, key, reply))

    # -- push configs and deliveries

    async def put_config(self, scope: Scope, hook: PushConfig) -> bool:
        return await self._for(scope, lambda store: store.put_config(scope, hook), final=bool)

    async def get_config(self, scope: Scope, task_id: str, config_id: str) -> PushConfig | None:
        return await self._for(scope, lambda store: store.get_config(scope, task_id, config_id))

    async def configs(self, scope: Scope, task_id: str, after: str, limit: int) -> Sequence[PushConfig] | None:
        return await self._for(scope, lambda store: store.configs(scope, task_id, after, limit))

    async def count_configs(self, owner: str, host: str | None, limit: int) -> int:
        return min(limit, sum(await self._everywhere(lambda store: store.count_configs(owner, host, limit))))

    async def count_hosts(self, owner: str, limit: int) -> int:
        hosts = await self._everywhere(lambda store: store.hosts(owner, limit))
        return min(limit, len({host for part in hosts for host in part}))

    async def delete_config(self, scope: Scope, task_id: str, config_id: str) -> bool:
        return await self._for(scope, lambda store: store.delete_config(scope, task_id, config_id))

    async def next_due(self) -> int | None:
        due = await self._wherever(PostgresStore.next_due)
        return min((one for one in due if one is not None), default=None)

    async def claim_deliveries(self, now_ms: int, until_ms: int, limit: int, limits: ClaimLimits) -> Sequence[Delivery]:
        """An owner's limits count in all databases together."""
        self._turn = (self._turn + 1) % len(self._stores)
        claimed: list[Delivery] = []
        away: list[StoreUnavailable] = []
        for store in (*self._stores[self._turn :], *self._stores[: self._turn]):
            if len(claimed) < limit:
                try:
                    claimed += await store.claim_deliveries(now_ms, until_ms, limit - len(claimed), limits)
                except StoreUnavailable as error:
                    away.append(error)
        if len(away) == len(self._stores):
            raise away[0]
        return claimed

    async def finish_attempt(self, delivery: Delivery, failure: FailedAttempt | None) -> bool:
        return await self._for(delivery.scope, lambda store: store.finish_attempt(delivery, failure), final=bool)

    # -- rates and API keys, which are in the home

    async def spend(self, spent: Mapping[bytes, float]) -> Mapping[bytes, float]:
        return await self._home.spend(spent)

    async def forget_full(self) -> None:
        await self._home.forget_full()

    async def keys_after(self, change: int, limit: int) -> Sequence[tuple[int, StoredKey]]:
        return await self._home.keys_after(change, limit)

    async def note_use(self, used: Mapping[str, int]) -> None:
        await self._home.note_use(used)

    # -- retention

    async def sweep(self, deadlines: Deadlines) -> Removed | None:
        """A round through each of the databases, one after the other."""
        try:
            removed = await self._stores[self._swept].sweep(deadlines)
        except StoreUnavailable:
            if self._swept == 0:
                raise
            log.warning("store.unavailable", during="retention", database=self._options[self._swept].name)
            removed = None
        if removed is None:
            self._swept = (self._swept + 1) % len(self._stores)
            return Removed() if self._swept else None
        return removed

    async def tidy(self) -> bool:
        """PostgreSQL's autovacuum gives space back by itself."""
        return False


async def _note(store: PostgresStore, session: str, seconds: float) -> None:
    try:
        await store.note(session, seconds)
    except StoreUnavailable:
        log.debug("store.unavailable", during="a note of a session")
