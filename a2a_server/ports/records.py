"""The values that a store reads and writes: log entries, heads, turns, receipts, and one write (spec: DURA-01).

1. An `Entry` is one event of a task's log, serialised once and shared by the store and all readers.
2. A `TaskHead` is the task without its artifacts, with the keys that lists are ordered and filtered by.
3. A `Write` is everything that one transaction changes about one task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.ports.push import PushConfig

TASK: Final = int(pb.StreamResponse.TASK_FIELD_NUMBER)
MESSAGE: Final = int(pb.StreamResponse.MESSAGE_FIELD_NUMBER)
STATUS: Final = int(pb.StreamResponse.STATUS_UPDATE_FIELD_NUMBER)
ARTIFACT: Final = int(pb.StreamResponse.ARTIFACT_UPDATE_FIELD_NUMBER)


class Entry:
    """One event of a task's log. Most entries are passed on as bytes and never parsed.

    Kinds: `TASK` (number 1, the task as created), `STATUS`, `ARTIFACT`, and `MESSAGE`: a message that joined the
    history. Streams never show entries of the kind `MESSAGE` (STRM-03).
    """

    __slots__ = ("_event", "number", "wire")

    def __init__(self, number: int, wire: bytes, event: pb.StreamResponse | None = None) -> None:
        self.number = number
        self.wire = wire
        self._event = event

    @classmethod
    def of(cls, number: int, event: pb.StreamResponse) -> Entry:
        return Entry(number, event.SerializeToString(), event)

    @property
    def kind(self) -> int:
        """Which payload the event holds: the field number in the first byte of its wire form."""
        return self.wire[0] >> 3 if self.wire else 0

    @property
    def event(self) -> pb.StreamResponse:
        event = self._event
        if event is None:
            event = self._event = pb.StreamResponse.FromString(self.wire)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and (self.number, self.wire) == (other.number, other.wire)

    def __hash__(self) -> int:
        return hash((self.number, self.wire))

    def __repr__(self) -> str:
        return f"Entry({self.number}, {self.event!r})"


class TaskHead(NamedTuple):
    """The task without artifacts, and the keys that lists are ordered and filtered by."""

    task: bytes
    context_id: str
    state: int
    status_ms: int


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A message that is being answered or waits for its turn. The store does not look into `request`."""

    number: int
    request: bytes


@dataclass(frozen=True, slots=True)
class Receipt:
    """The record of a send, found again by its idempotency key (ONCE-01)."""

    key: str
    fingerprint: bytes
    task_id: str
    """The id reserved for the task that the send creates. After a direct message there is no such task."""
    expires_ms: int
    reply: bytes = b""
    """The direct message that answered the send, once there is one."""
    session: str = ""
    """The session that works on the send. A store that one server has for itself need not keep it."""


@dataclass(slots=True, eq=False)
class Write:
    """Everything one transaction changes about one task."""

    scope: Scope
    task_id: str
    expected: int
    """The number of the last entry the writer knows; 0 creates the task."""
    epoch: int
    """Must be the stored epoch, or with `claim` the next one. A task that is created without `claim` has epoch 0."""
    entries: Sequence[Entry] = ()
    """Numbered `expected + 1`, `expected + 2` …"""
    head: TaskHead | None = None
    """The new head. Required on creation, and whenever an entry changes the status or the history."""
    artifacts: bytes | None = None
    """A Task that holds only artifacts, up to and including the last of `entries`."""
    claim: str | None = None
    """The session that takes the right to write with this write."""
    begin: Sequence[StoredTurn] = ()
    """Turns to add."""
    end: Sequence[int] = ()
    """Numbers of turns that are over."""
    state: bytes | None = None
    """What the agent saved; None leaves it as it is."""
    remember: Mapping[str, bytes | None] | None = None
    """Values to store in the state of the task's context, by their names; None removes one (AGNT-06)."""
    configs: Sequence[PushConfig] = ()
    """Push configs registered by the same request, in time for its first entry (SEND-07)."""
    notify: bool = False
    """Queue a webhook to every config of the task for each status, artifact and task entry (PAID-01)."""
    traces: Sequence[tuple[int, Trace | None]] = ()
    """Pairs (entry number, trace): webhooks from that entry on carry that trace (TRAC-01)."""
    receipt: Receipt | None = None
    """The receipt to leave. If one that has not expired has the same key, the write raises `Repeated`.

    A receipt that names the very task which is being created was reserved for it, and is no repetition.
    """
    now_ms: int = 0
    """The time at which receipts are judged. At 0 none has expired."""

    def __post_init__(self) -> None:
        if self.entries and self.entries[-1].number != self.expected + len(self.entries):
            last = self.entries[-1].number
            raise ValueError(f"entries end at {last}, not at {self.expected} + {len(self.entries)}")
        if self.expected == 0 and not (self.entries and self.head):
            raise ValueError(f"task {self.task_id!r} cannot be created without a first entry and a head")

    def trace_of(self, number: int) -> Trace | None:
        """The trace that an entry belongs to."""
        return next((trace for first, trace in reversed(self.traces) if first <= number), None)
