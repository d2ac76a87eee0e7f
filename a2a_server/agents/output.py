"""What a turn sends: events in order, and artifacts with stable ids, whole or in chunks (spec: ORDR-01, ARTF)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias, TypedDict

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.context import Context
from a2a_server.agents.parts import Chunk, Content, JsonValue, as_message, as_part, as_parts, to_struct
from a2a_server.domain.lifecycle import INTERRUPTED, STOPPING, TERMINAL
from a2a_server.ports.agent import InvalidAgentResponse, Outlet, TurnRequest

Whole: TypeAlias = Chunk | Sequence[pb.Part] | pb.Artifact
"""What becomes an artifact at once."""
TurnEvent: TypeAlias = pb.StreamResponse | pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent
EVENTS = (pb.StreamResponse, pb.TaskStatusUpdateEvent, pb.TaskArtifactUpdateEvent)

LINGER = 0.02
"""Seconds that a chunk may be held back.

A chunk has to say whether it is the last, but an author knows that only when no further one comes. So each chunk waits
for the next one. A slow source must not make clients wait for text that is already there, so the wait is limited:
shorter than anybody notices, longer than the gap between the last token and the end of most model streams. When the
limit passes, the chunk is sent unmarked. No event says then that it was the last: that would take a part without
content, which chat windows show and the task keeps.
"""


class TurnOutput:
    """Passes events to the outlet. It holds back one chunk at most, and sends it before any later event."""

    context: Context | None = None
    """Set when the skill has looked at it. What it has changed is saved together with the end of the turn."""

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet
        self.room = outlet.room
        self.used = False
        """Whether anything was sent, so that a task exists."""
        self._held: pb.StreamResponse | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._fault: InvalidAgentResponse | None = None
        self._state = 0
        self._answered = False

    @property
    def stopped(self) -> bool:
        """Whether the turn has ended or interrupted its task. A status after an interruption resumes the task."""
        return self._answered or self._state in STOPPING

    @property
    def waits(self) -> bool:
        """Whether the turn has asked something, and the task waits for the answer."""
        return self._state in INTERRUPTED

    @property
    def needs_task(self) -> bool:
        """Whether there is a task, or something to save with one."""
        return self.used or (self.context is not None and self.context.changed)

    def send(self, event: pb.StreamResponse) -> None:
        if self.context is not None and event.status_update.status.state in STOPPING:
            self.context.save()
        if self._held is not None or self._fault is not None:
            self.flush()
        self.used = True
        self.outlet.emit(event)
        if event.HasField("status_update"):
            if self._state not in TERMINAL:
                self._state = event.status_update.status.state
        elif event.HasField("message"):
            self._answered = True

    def hold(self, event: pb.StreamResponse) -> None:
        """Keep a chunk until the next event, the end of its artifact, or LINGER."""
        self.flush()
        self._held = event
        loop = asyncio.get_running_loop()
        self._due = loop.time() + LINGER
        if self._timer is None:  # one timer serves a whole burst of chunks
            self._timer = loop.call_at(self._due, self._tick, loop)

    def holds(self, event: pb.StreamResponse | None) -> bool:
        return event is not None and event is self._held

    def flush(self) -> None:
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        if self._held is not None:
            held, self._held = self._held, None
            self.used = True
            self.outlet.emit(held)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held is not None or self._fault is not None:
            self.flush()

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._held is None:
            return
        if loop.time() < self._due:
            self._timer = loop.call_at(self._due, self._tick, loop)
            return
        try:
            self.flush()
        except InvalidAgentResponse as fault:  # nobody could catch it here; the author's next call raises it
            self._fault = fault


# -- artifacts


class LabelFields(TypedDict, total=False):
    """The keyword arguments that label an artifact."""

    description: str
    artifact_id: str | None
    media_type: str | None
    metadata: Mapping[str, JsonValue] | None
    extensions: Sequence[str]


class Label(NamedTuple):
    """What an artifact says about itself beside its parts."""

    name: str
    description: str = ""
    artifact_id: str | None = None
    media_type: str | None = None
    metadata: Mapping[str, JsonValue] | None = None
    extensions: Sequence[str] = ()

    def fill(self, artifact: pb.Artifact, artifact_id: str) -> None:
        """Label an artifact in place."""
        artifact.artifact_id = artifact_id
        artifact.name = self.name
        if self.description:
            artifact.description = self.description
        if self.metadata is not None:
            artifact.metadata.CopyFrom(to_struct(self.metadata))
        if self.extensions:
            artifact.extensions.extend(self.extensions)


class ArtifactIds:
    """Names a turn's artifacts in the order of their first chunks.

    A rerun of the turn gives the same step the same id, so it replaces the artifact instead of repeating it. Other
    turns and tasks give other ids (CTX-14).
    """

    __slots__ = ("_begun", "_open", "_request")

    def __init__(self, request: TurnRequest, finished: int) -> None:
        self._begun = finished
        self._open: set[int] = set()
        self._request = request

    @property
    def finished(self) -> int:
        """How many artifacts are complete, up to the first that is not."""
        return min(self._open, default=self._begun + 1) - 1

    def open(self) -> tuple[int, str]:
        self._begun += 1
        self._open.add(self._begun)
        return self._begun, self._name()

    def close(self, ordinal: int) -> None:
        self._open.discard(ordinal)

    def next(self) -> str:
        """The id of an artifact that is written at once."""
        self._begun += 1
        return self._name()

    def _name(self) -> str:
        request = self._request
        turn = "" if request.number <= 1 else f"-{request.number}"
        return f"{request.task_id}{turn}-{self._begun}"


# -- events


def whole_artifact(content: Whole, label: Label, ids: ArtifactIds) -> pb.StreamResponse:
    """The one event of an artifact that is complete at once."""
    event = pb.StreamResponse()
    update = event.artifact_update
    update.last_chunk = True
    artifact = update.artifact
    if isinstance(content, str):  # the usual answer
        label.fill(artifact, label.artifact_id or ids.next())
        part = artifact.parts.add()
        part.text = content
        if label.media_type:
            part.media_type = label.media_type
    elif isinstance(content, pb.Artifact):
        artifact.artifact_id = content.artifact_id or label.artifact_id or ids.next()
        artifact.name = label.name
        artifact.MergeFrom(content)
    else:
        label.fill(artifact, label.artifact_id or ids.next())
        artifact.parts.extend(as_parts(content, label.media_type or ""))
    return event


class ArtifactWriter:
    """Use it as `async with turn.artifact("report") as out`, and `await out.write(…)` as often as you like.

    Without any write there is no artifact. When an exception leaves the block, the chunks written so far stay, and none
    is marked as the last.
    """

    __slots__ = ("_closed", "_id", "_ids", "_label", "_newest", "_ordinal", "_output")

    def __init__(self, output: TurnOutput, ids: ArtifactIds, label: Label) -> None:
        self._output = output
        self._ids = ids
        self._label = label
        self._id = label.artifact_id or ""
        self._ordinal = 0
        self._newest: pb.StreamResponse | None = None
        self._closed = False

    @property
    def artifact_id(self) -> str:
        if not self._id:
            self._ordinal, self._id = self._ids.open()
        return self._id

    async def write(self, chunk: Chunk) -> None:
        """Add a part: text for str, a file for bytes, data for every other JSON value."""
        if self._closed:
            raise InvalidAgentResponse("an artifact is finished when its `async with` block ends")
        self._newest = event = self._event(as_part(chunk, self._label.media_type or ""))
        self._output.hold(event)
        await self._output.room()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        if self._newest is None:
            return
        if self._output.holds(self._newest):
            self._newest.artifact_update.last_chunk = error is None and not self._output.stopped
            self._output.flush()
        self._ids.close(self._ordinal)

    def _event(self, part: pb.Part) -> pb.StreamResponse:
        """The first chunk carries the labels. Later ones need only the artifact's id."""
        event = pb.StreamResponse()
        update = event.artifact_update
        artifact = update.artifact
        if self._newest is None:
            self._label.fill(artifact, self.artifact_id)
        else:
            update.append = True
            artifact.artifact_id = self._id
        artifact.parts.append(part)
        return event


def new_status(
    state: pb.TaskState, content: Content | None, metadata: Mapping[str, JsonValue] | None = None
) -> pb.StreamResponse:
    event = pb.StreamResponse()
    update = event.status_update
    update.status.state = state
    if content is not None:
        update.status.message.CopyFrom(as_message(content))
    if metadata is not None:
        update.metadata.CopyFrom(to_struct(metadata))
    return event


def copy_of(event: TurnEvent) -> pb.StreamResponse:
    """A copy, because the author may change the event and send it again."""
    if isinstance(event, pb.TaskStatusUpdateEvent):
        return pb.StreamResponse(status_update=event)
    if isinstance(event, pb.TaskArtifactUpdateEvent):
        return pb.StreamResponse(artifact_update=event)
    response = pb.StreamResponse()
    response.CopyFrom(event)
    return response
