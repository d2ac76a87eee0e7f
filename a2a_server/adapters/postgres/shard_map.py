"""Which of several databases has which slot, as the databases themselves say (spec: SCAL-05).

1. Each database has one row that says which slots are its own. No other place decides that, so that servers with
   different settings can never write one slot in two databases.
2. The settings count once: when databases become one store. `found` does that, and later lets further databases join.
3. Each change of a row raises its version. A server that reads another version than it knows reads all rows again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from a2a_server.adapters.postgres.database import Database, DatabaseOptions
from a2a_server.adapters.postgres.schema import SQL as SCHEMA
from a2a_server.adapters.postgres.schema import queries
from a2a_server.domain.slots import SLOTS, slots_text
from a2a_server.ports.store import StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    import asyncpg

    from a2a_server.adapters.postgres.database import Connection

SQL = queries("shards.sql")
ALL: Final = (1 << SLOTS) - 1
_LOOK: Final = 0.02
"""Seconds between looks for the database of a slot that is on its way."""
_LOOKS: Final = 5
"""Looks at the start, before the server refuses to work."""


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """One of several databases, as the settings have it."""

    name: str
    options: DatabaseOptions
    slots: frozenset[int]
    """Those that it gets when the store is made."""


class Held(NamedTuple):
    """What a database says about itself."""

    id: UUID
    version: int
    bits: int
    """One for each slot that it has."""
    home: UUID | None
    """The first database of the store; None while this one is a store of its own."""
    members: frozenset[UUID]
    """In the home: all databases of the store."""
    moving_bits: int
    """Those on their way to or from here."""

    @property
    def slots(self) -> frozenset[int]:
        return slots_of(self.bits)

    @property
    def moving(self) -> frozenset[int]:
        return slots_of(self.moving_bits)


def bits_of(slots: frozenset[int]) -> bytes:
    return sum(1 << slot for slot in slots).to_bytes(SLOTS // 8, "little")


def slots_of(bits: int) -> frozenset[int]:
    return frozenset(slot for slot in range(SLOTS) if bits >> slot & 1)


def held(row: asyncpg.Record) -> Held:
    shard, version, slots, home, members, moving = row
    bits, moving_bits = (int.from_bytes(some or b"", "little") for some in (slots, moving))
    return Held(shard, version, bits, home, frozenset(members), moving_bits)


async def held_by(database: Database) -> Held:
    return held((await database.fetch(SQL["held"]))[0])


def check_still(one: Held, name: str) -> None:
    """Refuse to remove data while some of it may be on its way."""
    if one.moving_bits:
        raise StoreRefused(
            f"slots are moving from or to the database {name!r}. Wait for `a2ad db shards move`, or run it again"
        )


def check_alone(one: Held, name: str) -> None:
    """Refuse a database that is only a part of a store."""
    if one.home not in {None, one.id} or one.bits != ALL or one.moving_bits:
        raise StoreRefused(
            f"the store {name} is one of several databases that are a store together. List all of them in "
            "postgresql.shards"
        )


# -- the store is made


class Member(NamedTuple):
    """A database that is to be part of the store."""

    name: str
    database: Database
    slots: frozenset[int]


async def found(home: Member, others: Sequence[Member]) -> None:
    """Make these databases one store, if they are not; add those that are new. Raises `StoreRefused`.

    The others come first. Until the home has its members nobody uses them, so that this can be run again.
    """

    async def work(connection: Connection) -> None:
        await connection.execute(SCHEMA["alone"])
        at_home = await held_on(connection)
        if at_home.home not in {None, at_home.id}:
            raise StoreRefused(f"postgresql.shards: the database {home.name!r} belongs to a store with another home")
        await _check_distinct([home, *others])
        new = at_home.home is None
        if new:
            await connection.execute(SQL["shut"])
            if len(home.slots) < SLOTS:
                await _check_unused(connection, home.name)
        joining = [(one, await one.database.transaction(partial(_join, one, at_home, new=new))) for one in others]
        members = at_home.members | {at_home.id} | {shard for _, shard in joining}
        if new or members != at_home.members:
            slots = home.slots if new else at_home.slots
            await connection.execute(SQL["join"], at_home.id, bits_of(slots), sorted(members))

    await home.database.transaction(work)


async def held_on(connection: Connection) -> Held:
    row = await connection.fetchrow(SQL["held"])
    assert row is not None  # noqa: S101 - a migration makes it
    return held(row)


async def _check_distinct(members: Sequence[Member]) -> None:
    names: dict[UUID, str] = {}
    for one in members:
        known = names.setdefault((await held_by(one.database)).id, one.name)
        if known != one.name:
            raise StoreRefused(f"postgresql.shards: {known!r} and {one.name!r} are the same database, or copies of it")


async def _join(one: Member, home: Held, connection: Connection, *, new: bool) -> UUID:
    now = await held_on(connection)
    if now.home not in {None, home.id}:
        raise StoreRefused(f"postgresql.shards: the database {one.name!r} belongs to another store")
    if new or now.id not in home.members:
        await connection.execute(SQL["shut"])
        await _check_unused(connection, one.name)
        await connection.execute(SQL["join"], home.id, bits_of(one.slots if new else frozenset()), [])
    return now.id


async def _check_unused(connection: Connection, name: str) -> None:
    if await connection.fetchval(SQL["used"]):
        raise StoreRefused(
            f"postgresql.shards: the database {name!r} has tasks already, or a server uses it. Make it `store`, "
            "give it slots 0-4095 and the others none, and move slots with `a2ad db shards move`"
        )


# -- who has what


class Shard:
    """A database of the store, with what it said last."""

    def __init__(self, name: str, database: Database) -> None:
        self.name = name
        self.held: Held | None = None
        """None while it cannot be asked."""
        self._database = database
        self._reading: asyncio.Task[int] | None = None
        self._next: asyncio.Task[int] | None = None

    async def look(self) -> Held | None:
        """What it says now; None if it cannot be asked."""
        try:
            return await held_by(self._database)
        except StoreUnavailable:
            return None

    async def still_says(self, version: int) -> bool:
        """Whether nothing has changed since. Calls that come together share one read, which begins after them."""
        if self._next is None:
            self._next = asyncio.create_task(self._read_after(self._reading), name="version of a shard")
            self._next.add_done_callback(lambda done: done.cancelled() or done.exception())  # for callers that left
        return await asyncio.shield(self._next) == version

    async def _read_after(self, before: asyncio.Task[int] | None) -> int:
        if before is not None:
            await asyncio.wait([before])
        self._reading, self._next = self._next, None
        return int((await self._database.fetch(SQL["version"]))[0][0])


class ShardMap:
    """Finds the database of a slot."""

    def __init__(self, shards: Sequence[Shard], patience: float) -> None:
        self._shards = shards
        self._patience = patience
        self._door = asyncio.Lock()
        self._reads = 0
        self._known: dict[int, Shard] = {}

    def find(self, slot: int) -> Shard | None:
        """The database that had a slot at the last look."""
        shard = self._known.get(slot)
        if shard is None:
            for shard in self._shards:
                if shard.held is not None and shard.held.bits >> slot & 1:
                    self._known[slot] = shard
                    return shard
            return None
        return shard

    async def settled(self) -> int:
        """Wait a while until each slot is somewhere. Returns the number of the read that says so."""
        end = asyncio.get_running_loop().time() + self._patience
        while self._somewhere() != ALL:
            await self._look_again(self._reads, end, "slots are")
        return self._reads

    def _somewhere(self) -> int:
        bits = 0
        for shard in self._shards:
            bits |= shard.held.bits if shard.held else 0
        return bits

    async def _look_again(self, reads: int, end: float, what: str) -> None:
        if asyncio.get_running_loop().time() >= end:
            raise StoreUnavailable(f"{what} on the way to another database, or a database is away")
        await asyncio.sleep(_LOOK)
        await self.renew(reads)

    async def renew(self, after: int = -1) -> int:
        """Ask all databases, unless somebody has since the read with this number. Returns the number of the last."""
        async with self._door:
            if after in {-1, self._reads}:
                found_now = await asyncio.gather(*(shard.look() for shard in self._shards))
                # All at once: a place of before with a version of now would pass for true.
                for shard, said in zip(self._shards, found_now, strict=True):
                    shard.held = said
                self._known.clear()
                self._reads += 1
            return self._reads

    async def check(self) -> None:
        """Refuse to work while slots are nowhere, or in two places."""
        for attempt in range(_LOOKS):  # the databases are not asked at the same moment, and slots may be moving
            await self.renew()
            try:
                self._check()
            except StoreRefused:
                if attempt == _LOOKS - 1:
                    raise
                await asyncio.sleep(_LOOK)
            else:
                return

    def _check(self) -> None:
        if away := [shard.name for shard in self._shards if shard.held is None]:
            raise StoreUnavailable(f"the databases {away} in postgresql.shards do not answer")
        for one in self._shards:
            for other in self._shards:
                if one is not other and one.held and other.held and (twice := one.held.bits & other.held.bits):
                    slots = slots_text(slots_of(twice))
                    raise StoreRefused(f"both {one.name!r} and {other.name!r} have the slots {slots}")
        found_bits = self._somewhere()
        for shard in self._shards:
            found_bits |= shard.held.moving_bits if shard.held else 0
        if nowhere := ALL & ~found_bits:
            slots = slots_text(slots_of(nowhere))
            raise StoreRefused(
                f"no database in postgresql.shards has the slots {slots}. List all databases of the store"
            )

    async def shard_of(self, slot: int) -> tuple[Shard, int, int]:
        """The database that has a slot, its version, and the number of the read that says so. Waits for it a while."""
        end = asyncio.get_running_loop().time() + self._patience
        while True:
            reads, shard = self._reads, self.find(slot)
            if shard is not None and shard.held is not None:
                return shard, shard.held.version, reads
            await self._look_again(reads, end, f"the slot {slot} is")
