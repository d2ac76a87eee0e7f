"""One task: reading, takeovers of turns, and receipts of sends (spec: DURA-01 to -03, ONCE-01).

Content leaves rows here, in `lists` and in `push`, and is opened there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.postgres.database import Database
from a2a_server.adapters.postgres.schema import queries
from a2a_server.domain.reducer import fold
from a2a_server.domain.scope import Scope
from a2a_server.domain.slots import place_of, slot_in
from a2a_server.ports.records import ARTIFACT, Entry, Receipt, StoredTurn, Write
from a2a_server.ports.sealing import (
    ContentSealing,
    agent_state_place,
    artifacts_place,
    event_place,
    head_place,
    reply_place,
    turn_place,
)
from a2a_server.ports.store import Claimed, StoredTask

if TYPE_CHECKING:
    import asyncpg

    from a2a_server.adapters.postgres.database import Connection

_SQL = queries("tasks.sql")

_MOST_UNHEARD: Final = 10_000
_UNHEARD_FOR: Final = 60.0
"""Seconds in which a transaction that was cut off may still be stored."""


async def load(database: Database, scope: Scope, task_id: str, sealing: ContentSealing) -> StoredTask | None:
    slot, key = place_of(scope)
    row = await database.first(_SQL["load"], slot, task_id, key, ARTIFACT)
    if row is None:
        return None
    head, number, epoch, state, log_bytes, session, *shelf = row
    task = whole(task_id, sealing.open(head, head_place(scope, task_id)), Shelf(*shelf), sealing)
    state = sealing.open(state or b"", agent_state_place(task_id))
    return StoredTask(task, number, epoch, state, log_bytes, session)


class Shelf(NamedTuple):
    """The artifacts of a task as they are stored, and the later events that update them."""

    artifacts: bytes | None = None
    numbers: Sequence[int] | None = None
    wires: Sequence[bytes] | None = None


def whole(task_id: str, head: bytes, shelf: Shelf, sealing: ContentSealing) -> pb.Task:
    """A task from its head, which is open, and its artifacts."""
    artifacts = sealing.open(shelf.artifacts or b"", artifacts_place(task_id))
    task = pb.Task.FromString(head + artifacts)  # joined, the bytes of both parse as the whole message
    if shelf.numbers and shelf.wires:
        tail = zip(shelf.numbers, shelf.wires, strict=True)
        fold(task, (pb.StreamResponse.FromString(sealing.open(wire, event_place(task_id, at))) for at, wire in tail))
    return task


async def entries(database: Database, task_id: str, after: int, limit: int, sealing: ContentSealing) -> list[Entry]:
    if (slot := slot_in(task_id)) is None:
        rows = await database.fetch(_SQL["entries_without_slot"], task_id, after, limit)
    else:
        rows = await database.fetch(_SQL["entries"], slot, task_id, after, limit)
    return [Entry(number, sealing.open(wire, event_place(task_id, number))) for number, wire in rows]


async def has_context(database: Database, scope: Scope, context_id: str) -> bool:
    return bool(await database.fetch(_SQL["has_context"], *place_of(scope), context_id))


class _Unheard(NamedTuple):
    slot: int
    task_id: str
    session: str
    epoch: int
    until: float
    """When to stop looking, by `time.monotonic`."""


class Takeovers:
    """Takes tasks over. One that was taken is told, also if the commit did not answer.

    A write may claim a task for this server without anybody hearing that it was stored: the caller was told that the
    store is away. Such a task is taken over from ourselves, or its turn would wait for a server that does not know it.
    """

    def __init__(self, database: Database, sealing: ContentSealing) -> None:
        self._database = database
        self._sealing = sealing
        self._untold: dict[tuple[str, str, int], Claimed] = {}
        """What was taken by attempts that may have failed: by task, session and epoch."""
        self._unheard: dict[str, _Unheard] = {}
        """What writes may have claimed, by task."""

    def doubt(self, write: Write) -> None:
        """Look for a while whether a write that was not answered has claimed its task."""
        if write.claim is not None and len(self._unheard) < _MOST_UNHEARD:
            place, until = place_of(write.scope), time.monotonic() + _UNHEARD_FOR
            self._unheard[write.task_id] = _Unheard(place.slot, write.task_id, write.claim, write.epoch, until)

    def believe(self, write: Write) -> None:
        """Stop looking, because a later write has claimed the task and was answered."""
        if write.claim is not None and self._unheard:
            self._unheard.pop(write.task_id, None)

    async def claim(self, session: str, over: Sequence[str], limit: int) -> Sequence[Claimed]:
        """Take tasks of sessions that are over. Nothing is taken if any of it cannot be opened."""
        now = time.monotonic()
        self._unheard = {task_id: one for task_id, one in self._unheard.items() if one.until > now}
        if not over and not self._untold and not self._unheard:
            return ()
        claimed = await self._database.transaction(partial(self._attempt, session, over, limit))
        self._untold.clear()
        return claimed

    async def _attempt(
        self, session: str, over: Sequence[str], limit: int, connection: Connection
    ) -> Sequence[Claimed]:
        ours = [(key, one) for key, one in self._untold.items() if key[1] == session]
        before = [one for key, one in ours if await connection.fetchval(_SQL["claimed"], *key)]
        unheard = zip(*[one[:4] for one in self._unheard.values()], strict=True) if self._unheard else [()] * 4
        rows = await connection.fetch(_SQL["claim"], session, limit, list(over), *unheard)
        taken = [_claimed(row, self._sealing) for row in sorted(rows, key=itemgetter("made_ns"))]
        self._untold |= {(one.task_id, session, one.epoch): one for one in taken}
        return [*before, *taken]


def _claimed(row: asyncpg.Record, sealing: ContentSealing) -> Claimed:
    tenant, owner, task_id, epoch, _, numbers, requests = row
    turns = [
        StoredTurn(number, sealing.open(request, turn_place(task_id, number)))
        for number, request in zip(numbers, requests, strict=True)
    ]
    return Claimed(Scope(tenant, owner), task_id, epoch, turns)


# -- receipts of sends


async def recall(database: Database, scope: Scope, key: str, now_ms: int, sealing: ContentSealing) -> Receipt | None:
    row = await database.first(_SQL["recall"], *place_of(scope), key, now_ms)
    return sealing.opened_receipt(scope, Receipt(*row)) if row else None


async def leave_receipt(  # noqa: PLR0913 - who gives way is said with it
    connection: Connection, scope: Scope, receipt: Receipt, now_ms: int, *, made: str | None = None, dead: bool = False
) -> bool:
    """Leave one that is sealed, unless a living one has the key; see the statement for those that give way.

    `made`: the id of the task that is made along with it.
    """
    row = receipt.fingerprint, receipt.task_id, receipt.expires_ms, receipt.reply, receipt.session
    values = *place_of(scope), receipt.key, *scope, *row, made, dead, now_ms
    return await connection.fetchval(_SQL["leave_receipt"], *values) is not None


async def reserve(  # noqa: PLR0913 - the call's
    database: Database, scope: Scope, receipt: Receipt, now_ms: int, instead_of: str, *, sealing: ContentSealing
) -> Receipt:
    sealed = sealing.sealed_receipt(scope, receipt)

    async def work(connection: Connection) -> Receipt | None:
        row = await connection.fetchrow(_SQL["hold_receipt"], *place_of(scope), receipt.key)
        found = Receipt(*row) if row else None
        dead = False
        if found is not None and found.expires_ms > now_ms:
            dead = found.task_id == instead_of and not found.reply
            if not dead or await connection.fetchval(_SQL["exists"], instead_of):
                return sealing.opened_receipt(scope, found)
        return receipt if await leave_receipt(connection, scope, sealed, now_ms, dead=dead) else None

    while (held := await database.transaction(work)) is None:
        pass  # somebody else was first, and is found now
    return held


async def answer(database: Database, scope: Scope, key: str, reply: bytes, sealing: ContentSealing) -> None:
    await database.fetch(_SQL["answer"], *place_of(scope), key, sealing.seal(reply, reply_place(scope, key)))


async def living_receipt(
    connection: Connection, scope: Scope, key: str, now_ms: int, sealing: ContentSealing
) -> Receipt | None:
    row = await connection.fetchrow(_SQL["recall"], *place_of(scope), key, now_ms)
    return sealing.opened_receipt(scope, Receipt(*row)) if row else None
