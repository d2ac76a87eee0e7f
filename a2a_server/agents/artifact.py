"""An artifact that is written in chunks, as events with the right `append` and `last_chunk` (spec: ARTF-01 to -03)."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.output import ArtifactIds, Label, TurnOutput
from a2a_server.agents.parts import Chunk, as_part
from a2a_server.ports.agent import InvalidAgentResponse


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
        if error is not None or self._output.stopped:
            self._output.flush()
        else:
            self._finish(self._newest)
        self._ids.close(self._ordinal)

    def _finish(self, newest: pb.StreamResponse) -> None:
        if self._output.holds(newest):
            newest.artifact_update.last_chunk = True
            self._output.flush()
        else:
            end = self._event(pb.Part(text=""))
            end.artifact_update.last_chunk = True
            self._output.send(end)

    def _event(self, part: pb.Part) -> pb.StreamResponse:
        """The first chunk carries the labels. Later ones need only the artifact's id."""
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
