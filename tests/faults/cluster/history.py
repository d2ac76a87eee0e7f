"""What a fault run leaves to be judged: all that its clients, agents, receivers and database have recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from google.protobuf import json_format

from a2a_proto import a2a_pb2 as pb
from tests.support.house import REPLAY

TASK, MESSAGE = "task", "message"


@dataclass(frozen=True, slots=True)
class Sent:
    """A message, which its client sends again, with one idempotency key, until a server acknowledges it."""

    message: str
    restartable: bool = False
    """Whether its turn may run more than once."""
    text: str | None = None
    """What the artifacts of its task hold when it is completed."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A server has answered a message."""

    message: str
    task: str
    state: int
    """Of the task, as the answer shows it."""


@dataclass(frozen=True, slots=True)
class Heard:
    """An event as one reader saw it. A reader that was cut goes on elsewhere, and is still the same reader."""

    reader: str
    server: str
    task: str
    number: int
    kind: str
    """A task shows a state, so of it only the number counts."""
    digest: str
    state: int = 0


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook as it came to its receiver. `accepted`: whether the receiver said so."""

    config: str
    task: str
    number: int
    accepted: bool
    kind: str = ""
    digest: str = ""
    """Of the body, which is the event as JSON."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn, as the agent saw it. `ended` is None if it did not come to that."""

    task: str
    message: str
    process: str
    began: float
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Away:
    """A time in which a process ran nothing: it was stopped, or (without an end) killed."""

    process: str
    since: float
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A change of a task's fence, in the order in which the database made them. `writer` is a server process."""

    writer: str
    task: str
    number: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Entry:
    number: int
    kind: str
    digest: str


@dataclass(frozen=True, slots=True)
class Resting:
    """A task as it is stored when the run is over."""

    task: str
    state: int
    messages: tuple[str, ...]
    text: str
    log: tuple[Entry, ...]


@dataclass(slots=True)
class History:
    """All of it, in the order of recording."""

    sent: list[Sent] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    configs: dict[str, str] = field(default_factory=dict)
    """The task of each webhook config that was acknowledged. A config comes with the first message of its task."""
    turns: list[Turn] = field(default_factory=list)
    away: list[Away] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    resting: dict[str, Resting] = field(default_factory=dict)
    views: list[tuple[str, str, str]] = field(default_factory=list)
    """Server, task, and a digest of the task as that server shows it in the end."""
    surprises: list[str] = field(default_factory=list)
    """Answers that no fault excuses."""

    def hear(self, reader: str, server: str, item: pb.StreamResponse) -> Heard:
        """Record an item of a stream."""
        kind = item.WhichOneof("payload") or ""
        fields = getattr(item, kind).metadata.fields
        number = int(fields[REPLAY].number_value) if REPLAY in fields else 0
        heard = Heard(reader, server, task_of(item), number, kind, digest(item), state_of(item))
        self.heard.append(heard)
        return heard


def task_of(item: pb.StreamResponse) -> str:
    payload = getattr(item, item.WhichOneof("payload") or "")
    return str(payload.id if isinstance(payload, pb.Task) else payload.task_id)


def state_of(item: pb.StreamResponse) -> int:
    """The state that an item shows; 0 if it shows none."""
    match item.WhichOneof("payload"):
        case "task":
            return int(item.task.status.state)
        case "status_update":
            return int(item.status_update.status.state)
        case _:
            return 0


def digest(item: pb.StreamResponse) -> str:
    """The same for one event through every door, with or without its number."""
    bare = pb.StreamResponse()
    bare.CopyFrom(item)
    payload = getattr(bare, bare.WhichOneof("payload") or "")
    if REPLAY in payload.metadata.fields:
        del payload.metadata.fields[REPLAY]
    if not payload.metadata.fields:
        payload.ClearField("metadata")
    return short(bare)


def short(message: Any) -> str:
    return hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()[:16]


def entry(number: int, wire: bytes) -> Entry:
    item = pb.StreamResponse.FromString(wire)
    return Entry(number, item.WhichOneof("payload") or "", digest(item))


def hooked(config: str, task: str, number: int, body: bytes, *, accepted: bool) -> Hook:
    item = json_format.Parse(body, pb.StreamResponse())
    return Hook(config, task, number, accepted, item.WhichOneof("payload") or "", digest(item))


def span(turn: Turn, away: Sequence[Away]) -> tuple[float, float]:
    """From when to when the turn can have run. What a stopped process does later is judged by what it writes."""
    ends = [gone.since for gone in away if gone.process == turn.process and gone.since >= turn.began]
    return turn.began, min([*ends, inf if turn.ended is None else turn.ended])
