"""What is kept of a task; only bytes and values, so that nothing is shared with whoever wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.reducer import fold
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.ports.entry import ARTIFACT
from a2a_server.ports.hooks import Hook
from a2a_server.ports.kept import Head, Lease, Turn
from a2a_server.ports.store import Record
from a2a_server.ports.write import Write


@dataclass(slots=True)
class ConfigRow:
    """A push config, the webhooks it is owed, and when the first of them may be tried."""

    serial: int
    wire: bytes
    version: str
    schemes: Sequence[str]
    host: str
    owed: dict[int, Trace | None] = field(default_factory=dict)
    """Numbers of entries, in order, so that the first can be read from the front; with the trace each belongs to."""
    due_ms: int | None = None
    attempts: int = 0
    claimed_until_ms: int | None = None
    served_ms: int = 0
    failing_ms: int | None = None
    parked_ms: int | None = None
    why: str = ""
    delivered: int = 0
    failed: int = 0

    @property
    def hook(self) -> Hook:
        return Hook(pb.TaskPushNotificationConfig.FromString(self.wire), self.version, self.schemes)


class TaskRow:
    """One task."""

    __slots__ = (
        "artifacts",
        "cancel",
        "configs",
        "epoch",
        "head",
        "lease",
        "scope",
        "shelved",
        "state",
        "task_id",
        "turns",
        "wires",
    )

    def __init__(self, scope: Scope, task_id: str, head: Head) -> None:
        self.scope = scope
        self.task_id = task_id
        self.head = head
        self.wires: list[bytes] = []
        """The log: entry n is at n - 1."""
        self.artifacts = b""
        self.shelved = 0
        """Up to here no entry holds an artifact that `artifacts` lacks."""
        self.epoch = 0
        self.lease: Lease | None = None
        self.turns: dict[int, Turn] | None = None
        """None when there are none, as with nearly all tasks: what is not there need not be collected as garbage."""
        self.cancel: bytes | None = None
        self.state = b""
        self.configs: dict[str, ConfigRow] | None = None
        """None as above."""

    @property
    def number(self) -> int:
        return len(self.wires)

    def take(self, write: Write) -> None:
        """Everything of a write that no index knows."""
        self.wires += [entry.wire for entry in write.entries]
        self.epoch = write.epoch
        if write.artifacts is not None:
            self.artifacts, self.shelved = write.artifacts, self.number
        elif self.shelved == write.expected and not any(entry.kind == ARTIFACT for entry in write.entries):
            self.shelved = self.number
        if write.claim is not None:
            self.lease = write.claim
        if write.state is not None:
            self.state = write.state
        if write.begin or write.end:
            self._take_turns(write)

    def _take_turns(self, write: Write) -> None:
        turns = self.turns or {}
        for turn in write.begin:
            turns[turn.number] = turn
        for number in write.end:
            turns.pop(number, None)
        self.turns = turns or None
        if not turns:
            self.cancel = None

    def task(self, *, artifacts: bool) -> pb.Task:
        """The task as it stands, the tail of its log folded in."""
        if not artifacts:
            return pb.Task.FromString(self.head.task)
        task = pb.Task.FromString(self.head.task + self.artifacts)  # halves of a message, concatenated, are the message
        if self.shelved == len(self.wires):
            return task
        tail = (pb.StreamResponse.FromString(wire) for wire in self.wires[self.shelved :])
        fold(task, (event for event in tail if event.HasField("artifact_update")))  # the head never lags
        return task

    def record(self) -> Record:
        return Record(self.task(artifacts=True), self.number, self.epoch, self.state, live=bool(self.turns))
