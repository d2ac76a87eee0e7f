"""One turn as its author sees it: what came in, what is remembered, and the ways to answer (spec: AGNT-01, INTR)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, Unpack

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.artifact import ArtifactIds, ArtifactWriter, Label, LabelFields, Whole, plain_label, whole
from a2a_server.agents.feed import Feed
from a2a_server.agents.incoming import Incoming
from a2a_server.agents.input_requests import as_request
from a2a_server.agents.parts import Content, Json, as_message, from_struct, to_struct
from a2a_server.agents.state import Saved
from a2a_server.domain.events import IN_BAND_KEY
from a2a_server.domain.lifecycle import INTERRUPTED
from a2a_server.ports.agent import TurnRequest

Event: TypeAlias = pb.StreamResponse | pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent
EVENTS = (pb.StreamResponse, pb.TaskStatusUpdateEvent, pb.TaskArtifactUpdateEvent)
Result: TypeAlias = Whole | Event | pb.Message
"""What a skill may return."""


class Turn(Incoming):
    """One message and the answer to it.

    The calls that answer only queue events; readers see them once they are durable. After a call that stops the task
    (`ask`, `require_auth`, `complete`, `fail`, `reject`, `reply`) the skill should return: the server drops and logs
    what still comes.
    """

    __slots__ = ("_default", "_direct", "_feed", "_ids", "_saved")

    def __init__(  # noqa: PLR0913, PLR0917 - the agent knows it all, and nobody else makes turns
        self,
        request: TurnRequest,
        feed: Feed,
        skill: str,
        saved: Saved,
        direct: bool,  # noqa: FBT001 - keywords would double the price
        default: bool,  # noqa: FBT001 - as above
    ) -> None:
        self.request = request
        self.skill = skill
        self._feed = feed
        self._direct = direct
        self._default = default
        self._saved = saved
        self._ids = ArtifactIds(request, saved.artifacts if request.rerun and saved.turn == request.number else 0)

    @property
    def cancel_metadata(self) -> dict[str, Any] | None:
        """What came with the cancel that is being carried out; None when nobody asked to cancel."""
        metadata = self._feed.outlet.cancel_metadata
        return None if metadata is None else from_struct(metadata)

    async def next_message(self) -> pb.Message:
        """Wait for a further message to this task while the turn runs."""
        return await self._feed.outlet.next_message()

    # -- what is remembered

    @property
    def state(self) -> dict[str, Any]:
        """JSON values that the next turn finds again; saved when the turn asks, and by `checkpoint`."""
        return self._saved.values

    async def checkpoint(self, **updates: Json) -> None:
        """Save the state now; on return it is durable, and a rerun of this turn starts from it.

        Artifacts that are finished by now stay as they are; one that is still open is expected to be written anew.
        """
        self._saved.values.update(updates)
        self._feed.flush()
        self._save()
        await self._feed.outlet.durable()

    def _save(self) -> None:
        saved = self._saved
        saved.skill = self.skill
        saved.turn = self.request.number
        saved.artifacts = self._ids.finished
        self._feed.outlet.save(saved.dump())

    # -- progress and results

    async def status(self, content: Content, *, metadata: Mapping[str, Json] | None = None) -> None:
        """Say what is going on: WORKING with a message."""
        self._feed.send(_status(pb.TASK_STATE_WORKING, content, metadata))
        await self._feed.room()

    def artifact(  # noqa: PLR0913 - an artifact has that many members
        self,
        name: str | None = None,
        *,
        description: str = "",
        artifact_id: str | None = None,
        media_type: str | None = None,
        metadata: Mapping[str, Json] | None = None,
        extensions: Sequence[str] = (),
    ) -> ArtifactWriter:
        """Write an artifact piece by piece. Without a name it bears the skill's id; its own id is stable (CTX-14)."""
        label = Label(
            name=self.skill if name is None else name,
            description=description,
            artifact_id=artifact_id,
            media_type=media_type,
            metadata=metadata,
            extensions=extensions,
        )
        return ArtifactWriter(self._feed, self._ids, label)

    async def add_artifact(self, content: Whole, name: str | None = None, **label: Unpack[LabelFields]) -> None:
        """Add an artifact at once: a value, several parts, or one of your own making. Labels as in `artifact`."""
        self._add(content, Label(self.skill if name is None else name, **label))
        await self._feed.room()

    def _add(self, content: Whole, label: Label) -> None:
        self._feed.send(whole(content, label, self._ids))

    async def emit(self, event: Event) -> None:
        """Pass on an event of your own making; empty ids and times are filled in, nothing else changes (EXEC-03)."""
        self._emit(event)
        await self._feed.room()

    def _emit(self, event: Event) -> None:
        response = _response(event)
        if response.status_update.status.state in INTERRUPTED:
            self._save()
        self._feed.send(response)

    # -- the ends of a turn

    async def ask(self, content: Content, *, sensitive: bool = False, request_id: str | None = None) -> None:
        """Ask the client: INPUT_REQUIRED. The answer starts the next turn, which finds the state.

        `sensitive` or a `request_id` makes it an input request, to be answered by a tool result for that id, and read
        by `answer`; without an id it gets one. A sensitive answer is for the next turn alone: it is kept nowhere.
        """
        if sensitive or request_id is not None:
            content = as_request(content, request_id, sensitive=sensitive)
        await self._interrupt(pb.TASK_STATE_INPUT_REQUIRED, content, None)

    async def require_auth(self, content: Content, *, in_band: bool = False) -> None:
        """Ask for authorization: AUTH_REQUIRED. `in_band` says that the credential comes in the next message.

        A skill that learns by itself when the credential has come may wait for it here; `status` then says that work
        goes on (INTR-07).
        """
        await self._interrupt(pb.TASK_STATE_AUTH_REQUIRED, content, {IN_BAND_KEY: True} if in_band else None)

    async def complete(self, content: Content | None = None) -> None:
        """End the task as COMPLETED, as returning does, with a closing message if you like."""
        self._conclude(content)
        await self._feed.room()

    async def fail(self, content: Content) -> None:
        """End the task as FAILED, and say why."""
        await self._stop(_status(pb.TASK_STATE_FAILED, content))

    async def reject(self, content: Content) -> None:
        """Decline the task as REJECTED, and say why."""
        await self._stop(_status(pb.TASK_STATE_REJECTED, content))

    async def reply(self, content: Content) -> None:
        """Answer in conversation: a direct Message while no task exists, otherwise COMPLETED with it (SEND-11)."""
        self._reply(content)
        await self._feed.room()

    def _reply(self, content: Content) -> None:
        if self._has_task:
            self._conclude(content)
        else:
            self._feed.send(pb.StreamResponse(message=as_message(content)))

    def internal(self, kind: str, /, **fields: object) -> None:
        """Tell the server's telemetry, and no client, what goes on inside (INTL-01)."""
        self._feed.outlet.internal(kind if kind.startswith("internal:") else f"internal:{kind}", fields)

    # -- what the agent calls when the skill has returned; it asks for no room, because the turn is over

    def _deliver(self, result: Result) -> None:
        """Make an artifact of a return value. Events and messages are passed on as they are; None is nothing."""
        if isinstance(result, str):  # nearly all are
            self._feed.send(whole(result, plain_label(self.skill), self._ids))
        elif isinstance(result, pb.Message):
            self._reply(result)
        elif isinstance(result, EVENTS):
            self._emit(result)
        elif result is not None:
            self._add(result, plain_label(self.skill))

    def _conclude(self, content: Content | None = None) -> None:
        if self._saved.values or not self._default:
            self._save()  # a message that came meanwhile keeps the task going, with another turn of this skill
        self._feed.send(_status(pb.TASK_STATE_COMPLETED, content))

    @property
    def _has_task(self) -> bool:
        return not self._direct or self._feed.used or self.rerun or self.number > 1

    async def _interrupt(self, state: pb.TaskState, content: Content, metadata: Mapping[str, Json] | None) -> None:
        event = _status(state, content, metadata)
        self._save()
        await self._stop(event)

    async def _stop(self, event: pb.StreamResponse) -> None:
        self._feed.send(event)
        await self._feed.room()


def _status(
    state: pb.TaskState, content: Content | None, metadata: Mapping[str, Json] | None = None
) -> pb.StreamResponse:
    event = pb.StreamResponse()
    update = event.status_update
    update.status.state = state
    if content is not None:
        update.status.message.CopyFrom(as_message(content))
    if metadata is not None:
        update.metadata.CopyFrom(to_struct(metadata))
    return event


def _response(event: Event) -> pb.StreamResponse:
    """A copy, because the author may change the event and send it again."""
    if isinstance(event, pb.TaskStatusUpdateEvent):
        return pb.StreamResponse(status_update=event)
    if isinstance(event, pb.TaskArtifactUpdateEvent):
        return pb.StreamResponse(artifact_update=event)
    response = pb.StreamResponse()
    response.CopyFrom(event)
    return response
