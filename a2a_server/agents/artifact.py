"""An artifact in the making: chunks in, events with the right `append` and `last_chunk` out (spec: ARTF-01 to -03)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeAlias, TypedDict

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.feed import Feed
from a2a_server.agents.parts import Chunk, Json, as_part, as_parts, to_struct
from a2a_server.ports.agent import InvalidAgentResponse, TurnRequest

Whole: TypeAlias = Chunk | Sequence[pb.Part] | pb.Artifact
"""What becomes an artifact at once."""


class LabelFields(TypedDict, total=False):
    """The keyword arguments that label an artifact."""

    description: str
    artifact_id: str | None
    media_type: str | None
    metadata: Mapping[str, Json] | None
    extensions: Sequence[str]


class Label(NamedTuple):
    """What an artifact says about itself beside its parts."""

    name: str
    description: str = ""
    artifact_id: str | None = None
    media_type: str | None = None
    metadata: Mapping[str, Json] | None = None
    extensions: Sequence[str] = ()

    def fill(self, artifact: pb.Artifact, artifact_id: str) -> None:
        """Label an artifact in place: constructors that nest cost three times as much."""
        artifact.artifact_id = artifact_id
        artifact.name = self.name
        if self.description:
            artifact.description = self.description
        if self.metadata is not None:
            artifact.metadata.CopyFrom(to_struct(self.metadata))
        if self.extensions:
            artifact.extensions.extend(self.extensions)


new_label: Final[Callable[[tuple[str, str, None, None, None, tuple[()]]], Label]] = partial(tuple.__new__, Label)
"""A label made of all its members at once, which takes a third of the time: every plain answer needs one."""


def plain_label(name: str) -> Label:
    return new_label((name, "", None, None, None, ()))


class ArtifactIds:
    """Names a turn's artifacts in the order of their first chunks.

    A rerun gives the same name to the same step, so that it replaces instead of repeating; another turn or task gives
    new names (CTX-14).
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
        """The name of an artifact that is written at once."""
        self._begun += 1
        return self._name()

    def _name(self) -> str:
        request = self._request
        turn = "" if request.number <= 1 else f"-{request.number}"
        return f"{request.task_id}{turn}-{self._begun}"


def whole(content: Whole, label: Label, ids: ArtifactIds) -> pb.StreamResponse:
    """The one event of an artifact that is there all at once."""
    event = pb.StreamResponse()
    update = event.artifact_update
    update.last_chunk = True
    artifact = update.artifact
    if isinstance(content, pb.Artifact):
        artifact.artifact_id = content.artifact_id or label.artifact_id or ids.next()
        artifact.name = label.name
        artifact.MergeFrom(content)
        return event
    label.fill(artifact, label.artifact_id or ids.next())
    if isinstance(content, str):  # nearly all answers are
        part = artifact.parts.add()
        part.text = content
        if label.media_type:
            part.media_type = label.media_type
    else:
        artifact.parts.extend(as_parts(content, label.media_type or ""))
    return event


class ArtifactWriter:
    """Use it as `async with turn.artifact("report") as out`, and `await out.write(…)` as often as you like.

    Without any write there is no artifact. When the block is left by an exception, what was written stays, and no
    chunk is marked as the last one.
    """

    __slots__ = ("_closed", "_feed", "_id", "_ids", "_label", "_newest", "_ordinal")

    def __init__(self, feed: Feed, ids: ArtifactIds, label: Label) -> None:
        self._feed = feed
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
        self._feed.hold(event)
        await self._feed.room()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        if self._newest is None:
            return
        if error is not None or self._feed.stopped:
            self._feed.flush()
        else:
            self._finish(self._newest)
        self._ids.close(self._ordinal)

    def _finish(self, newest: pb.StreamResponse) -> None:
        if self._feed.holds(newest):
            newest.artifact_update.last_chunk = True
            self._feed.flush()
        else:
            end = self._event(pb.Part(text=""))
            end.artifact_update.last_chunk = True
            self._feed.send(end)

    def _event(self, part: pb.Part) -> pb.StreamResponse:
        """The first chunk introduces the artifact; those after it need nothing but its id."""
        event = pb.StreamResponse()
        update = event.artifact_update
        if self._newest is None:
            self._label.fill(update.artifact, self.artifact_id)
            update.artifact.parts.append(part)
            return event
        update.append = True
        artifact = update.artifact
        artifact.artifact_id = self._id
        artifact.parts.add().CopyFrom(part)
        return event
