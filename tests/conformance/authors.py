"""Writers for the store's suite: what a task's owner would commit, with the bookkeeping done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypedDict, Unpack

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.push import PushConfig
from a2a_server.ports.records import Entry, Receipt, StoredTurn, TaskHead, Write
from a2a_server.ports.store import Store, StoredTask
from tests.support.house import Scope, Trace

ANN = Scope("acme", "ann")
BOB = Scope("acme", "bob")
ANN_ELSEWHERE = Scope("globex", "ann")

WORKING = pb.TASK_STATE_WORKING
COMPLETED = pb.TASK_STATE_COMPLETED
ASKING = pb.TASK_STATE_INPUT_REQUIRED

HERE, THERE = "here", "there"
"""Sessions."""


class Unlimited:
    """Room for everybody."""

    def room(self, owner: str, host: str = "") -> int:
        return 1 << 30

    def take(self, owner: str, host: str) -> None:
        """Nothing is counted."""


UNLIMITED = Unlimited()

_names = count(1)


def fresh(prefix: str = "task") -> str:
    return f"{prefix}-{next(_names)}"


def chunk(number: int, text: str, *, artifact: str = "a", append: bool = True) -> Entry:
    part = pb.Artifact(artifact_id=artifact, parts=[pb.Part(text=text)])
    return Entry.of(number, pb.StreamResponse(artifact_update=pb.TaskArtifactUpdateEvent(artifact=part, append=append)))


def status(number: int, state: int = WORKING) -> Entry:
    update = pb.TaskStatusUpdateEvent(status=pb.TaskStatus(state=pb.TaskState.Name(state)))
    return Entry.of(number, pb.StreamResponse(status_update=update))


def message(number: int, text: str = "hello") -> Entry:
    return Entry.of(number, pb.StreamResponse(message=pb.Message(message_id=f"m{number}", parts=[pb.Part(text=text)])))


def config(task_id: str, config_id: str = "c", url: str = "https://hook.example/") -> PushConfig:
    return PushConfig(pb.TaskPushNotificationConfig(task_id=task_id, id=config_id, url=url))


class More(TypedDict, total=False):
    """What else a `Write` may hold."""

    expected: int
    epoch: int
    artifacts: bytes
    claim: str
    begin: Sequence[StoredTurn]
    end: Sequence[int]
    state: bytes
    remember: Mapping[str, bytes | None]
    configs: Sequence[PushConfig]
    notify: bool
    traces: Sequence[tuple[int, Trace | None]]
    receipt: Receipt
    now_ms: int


@dataclass
class Author:
    """Writes one task. Keywords of every method go into its `Write` as they are."""

    store: Store
    task_id: str = field(default_factory=fresh)
    scope: Scope = ANN
    context_id: str = "context"
    state: int = WORKING
    status_ms: int = 1_000
    number: int = 0
    epoch: int = 0

    def write(self, *entries: Entry, head: TaskHead | None = None, **more: Unpack[More]) -> Write:
        more.setdefault("epoch", self.epoch + ("claim" in more))
        more.setdefault("expected", self.number)
        return Write(scope=self.scope, task_id=self.task_id, entries=entries, head=head, **more)

    def first(self) -> Entry:
        return Entry.of(1, pb.StreamResponse(task=self.task()))

    def task(self) -> pb.Task:
        task = pb.Task(id=self.task_id, context_id=self.context_id)
        task.status.state = self.state  # type: ignore[assignment]  # any number, as stored
        task.status.timestamp.FromMilliseconds(self.status_ms)
        return task

    def head(self) -> TaskHead:
        return TaskHead(self.task().SerializeToString(), self.context_id, self.state, self.status_ms)

    async def commit(self, write: Write) -> None:
        await self.store.commit(write)
        self.number, self.epoch = self.number + len(write.entries), write.epoch

    async def create(self, **more: Unpack[More]) -> Author:
        await self.commit(self.write(self.first(), head=self.head(), **more))
        return self

    async def start(self, session: str = HERE, **more: Unpack[More]) -> Author:
        """Create the task with a running turn."""
        more["claim"], more["begin"] = session, [StoredTurn(1, b"request")]
        return await self.create(**more)

    async def chunk(self, text: str, *, artifact: str = "a", append: bool = True, **more: Unpack[More]) -> None:
        await self.commit(self.write(chunk(self.number + 1, text, artifact=artifact, append=append), **more))

    def next_chunk(self, further: int, text: str) -> Entry:
        """The chunk that comes after so many further ones."""
        return chunk(self.number + 1 + further, text)

    async def become(self, state: int, status_ms: int | None = None, /, **more: Unpack[More]) -> None:
        self.state, self.status_ms = state, self.status_ms if status_ms is None else status_ms
        await self.commit(self.write(status(self.number + 1, state), head=self.head(), **more))

    async def say(self, **more: Unpack[More]) -> None:
        await self.commit(self.write(message(self.number + 1), head=self.head(), **more))

    async def load(self) -> StoredTask:
        record = await self.store.load(self.scope, self.task_id)
        assert record is not None
        return record

    async def texts(self) -> dict[str, str]:
        """Each artifact's text, as a reader sees it."""
        task = (await self.load()).task
        return {artifact.artifact_id: "".join(part.text for part in artifact.parts) for artifact in task.artifacts}
