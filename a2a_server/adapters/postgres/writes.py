"""What writes become in the database: the columns of the statement that stores a group (spec: DURA-01, DURA-03).

Content enters rows here and in `push`: entries, heads, artifacts, states of agents and contexts, requests of turns.
What comes here is sealed, but for the states of contexts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from a2a_server.adapters.postgres.schema import queries
from a2a_server.domain.slots import place_of
from a2a_server.ports.records import ARTIFACT, MESSAGE, Entry, StoredTurn, TaskHead, Write

if TYPE_CHECKING:
    from a2a_server.adapters.postgres.database import Rows

SQL = queries("writes.sql")

_UNTRACED: Final = (None, None)
_WITHOUT_WEBHOOKS: Final = 4
"""The columns of entries that are written where no webhook can be owed."""

_serials = count(time.time_ns())
"""Creations in their order, also those of the same moment. A later process begins later."""

Kind = str
"""The name of the statement that stores a write."""


def kind_of(write: Write) -> Kind:
    if not write.expected:
        return "create"
    plain = write.head is None and write.artifacts is None and write.claim is None and write.state is None
    return "append" if plain and not write.begin and not write.end else "change"


def stands_alone(write: Write) -> bool:
    """Whether it has what groups have no room for, and few writes have."""
    return write.receipt is not None or bool(write.configs) or bool(write.remember)


def values_of(kind: Kind, writes: Sequence[Write], part: int) -> Sequence[object]:
    """The arguments of the statement. `part`: whose part of the totals is changed."""
    if kind == "create":
        return (
            *_columns(map(_creation, writes), len(CreatedRow._fields)),
            len(writes),
            *_columns((row[:_WITHOUT_WEBHOOKS] for row in _entries(writes)), _WITHOUT_WEBHOOKS),
            *_columns(_turns(writes), len(TurnRow._fields)),
            part,
        )
    entries = _columns(_entries(writes), len(EntryRow._fields))
    if kind == "append":
        return (*_columns(map(_step, writes), len(StepRow._fields)), len(writes), *entries)
    changes = ((*_step(write), *_change(write)) for write in writes)
    width = len(StepRow._fields) + len(ChangeRow._fields)
    return (*_columns(changes, width), len(writes), *entries, *_columns(_turns(writes), len(TurnRow._fields)), part)


def _columns(rows: Iterable[Sequence[object]], width: int) -> Iterator[Sequence[object]]:
    return zip(*found, strict=True) if (found := list(rows)) else iter([()] * width)


class CreatedRow(NamedTuple):
    slot: int
    scope: UUID
    task: str
    tenant: str
    owner: str
    context_id: str
    state: int
    status_ms: int
    made_ns: int
    head: bytes
    number: int
    shelved: int
    epoch: int
    busy: bool
    watched: bool
    session: str
    log_bytes: int
    artifacts: bytes | None
    agent_state: bytes | None


def _creation(write: Write) -> CreatedRow:
    slot, scope = place_of(write.scope)
    head, number = write.head, len(write.entries)
    assert head is not None  # noqa: S101 - a write that creates has one
    shelved = number if write.artifacts is not None or not _carries(write.entries) else 0
    return CreatedRow(
        slot,
        scope,
        write.task_id,
        write.scope.tenant,
        write.scope.owner,
        head.context_id,
        head.state,
        head.status_ms,
        next(_serials),
        head.task,
        number,
        shelved,
        write.epoch,
        any(_begun(write)),
        bool(write.configs),
        write.claim or "",
        _log_bytes(write),
        write.artifacts,
        write.state,
    )


class StepRow(NamedTuple):
    slot: int
    scope: UUID
    task: str
    expected: int
    number: int
    epoch: int
    """The one that must be stored."""
    carries: bool
    """Whether an entry updates an artifact, so that a reader must look for it."""
    told: int
    """How many entries are owed to webhooks."""
    bytes: int
    """How much longer the log becomes."""


def _step(write: Write) -> StepRow:
    slot, scope = place_of(write.scope)
    told = sum(entry.kind != MESSAGE for entry in write.entries) if write.notify else 0
    return StepRow(
        slot,
        scope,
        write.task_id,
        write.expected,
        write.expected + len(write.entries),
        write.epoch - (write.claim is not None),
        _carries(write.entries),
        told,
        _log_bytes(write),
    )


def _log_bytes(write: Write) -> int:
    return sum([len(entry.wire) for entry in write.entries])


def _carries(entries: Sequence[Entry]) -> bool:
    return any(entry.kind == ARTIFACT for entry in entries)


class ChangeRow(NamedTuple):
    new_epoch: int
    claims: bool
    session: str
    ended: str
    begins: bool
    context_id: str | None
    state: int | None
    status_ms: int | None
    head: bytes | None
    artifacts: bytes | None
    agent_state: bytes | None


def _change(write: Write) -> ChangeRow:
    head: TaskHead | None = write.head
    ended = "{" + ",".join(map(str, write.end)) + "}"
    claims, begins = write.claim is not None, any(_begun(write))
    fence = write.epoch, claims, write.claim or "", ended, begins
    if head is None:
        return ChangeRow(*fence, None, None, None, None, write.artifacts, write.state)
    columns = head.context_id, head.state, head.status_ms, head.task
    return ChangeRow(*fence, *columns, write.artifacts, write.state)


class EntryRow(NamedTuple):
    place: int
    """Of the write in its group, from 1."""
    number: int
    kind: int
    wire: bytes
    told: bool
    traceparent: str | None
    tracestate: str | None


def _entries(writes: Sequence[Write]) -> Iterator[EntryRow]:
    for place, write in enumerate(writes, 1):
        for entry in write.entries:
            kind = entry.kind
            trace = (write.trace_of(entry.number) or _UNTRACED) if write.traces else _UNTRACED
            yield EntryRow(place, entry.number, kind, entry.wire, write.notify and kind != MESSAGE, *trace)


class TurnRow(NamedTuple):
    place: int
    number: int
    request: bytes


def _turns(writes: Sequence[Write]) -> Iterator[TurnRow]:
    for place, write in enumerate(writes, 1):
        for turn in _begun(write):
            yield TurnRow(place, turn.number, turn.request)


def _begun(write: Write) -> Iterator[StoredTurn]:
    """Turns that begin with a write and do not end with it. Of two with one number the last counts."""
    turns = {turn.number: turn for turn in write.begin if turn.number not in write.end}
    return iter(turns.values())


def debts_of(write: Write) -> Iterator[Sequence[object]]:
    """What is owed for a write: numbers, and the two halves of traces."""
    rows = ((row.number, row.traceparent, row.tracestate) for row in _entries([write]) if row.told)
    return _columns(rows, 3)


def is_ours(write: Write, reached: Rows) -> bool:
    """Whether it was stored, though nobody heard so: the database is where this write leads to, and no other."""
    if not reached or not (write.entries or write.claim is not None):
        return False
    if not write.epoch:
        return False  # nobody has claimed the task, so anybody may have written the same
    number, epoch, session, wire = reached[0]
    if (number, epoch) != (write.expected + len(write.entries), write.epoch):
        return False
    if write.entries and wire != write.entries[-1].wire:
        return False
    return write.claim is None or session == write.claim
