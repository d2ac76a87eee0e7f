"""One turn as its author sees it: the message, what is remembered, and the ways to answer (spec: AGNT-01, EXEC-01)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, Unpack

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.calling import AgentReply, CallOptions, OutgoingCall, TurnCalls
from a2a_server.agents.context import Context
from a2a_server.agents.extensions import as_request, asked_before
from a2a_server.agents.output import (
    EVENTS,
    ArtifactIds,
    ArtifactWriter,
    Label,
    LabelFields,
    TurnEvent,
    TurnOutput,
    Whole,
    copy_of,
    new_status,
    whole_artifact,
)
from a2a_server.agents.parts import Content, JsonValue, as_message, from_struct, to_python
from a2a_server.domain.events import IN_BAND_KEY
from a2a_server.domain.input_requests import results_in
from a2a_server.domain.lifecycle import INTERRUPTED
from a2a_server.domain.media_types import matches
from a2a_server.ports.agent import TurnRequest
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.calling import CallFailed, OtherAgents

if TYPE_CHECKING:
    import typing_extensions

    from a2a_server.agents.agent import Saved

    Resources = typing_extensions.TypeVar("Resources", default=Any)  # Python itself knows `default` from 3.13 on
else:
    Resources = TypeVar("Resources")

_FILE = {"raw", "url"}

Result: TypeAlias = Whole | TurnEvent | pb.Message
"""What a skill may return."""


class Turn(Generic[Resources]):
    """One message and the answer to it. `Turn[Shop]` says what the agent's lifespan yields.

    The calls that answer only queue events; readers see them once they are durable. After a call that stops the task
    (`ask`, `require_auth`, `complete`, `fail`, `reject`, `reply`) the skill should return: the server drops and logs
    any later event.
    """

    __slots__ = (
        *("_calls", "_default", "_direct", "_ids", "_others", "_output", "_resources", "_saved"),
        *("request", "skill"),
    )

    def __init__(  # noqa: PLR0913 - only the agent makes turns
        self,
        request: TurnRequest,
        output: TurnOutput,
        skill: str,
        saved: Saved,
        *,
        direct: bool,
        default: bool,
        resources: Any = None,  # noqa: ANN401 - whatever the author opens
        others: OtherAgents | None = None,
    ) -> None:
        self.request = request
        self.skill = skill
        self._output = output
        self._direct = direct
        self._default = default
        self._saved = saved
        self._resources: Resources = resources
        self._others = others
        self._calls: TurnCalls | None = None
        self._ids = ArtifactIds(request, saved.artifacts if request.rerun and saved.turn == request.number else 0)

    # -- the message

    @property
    def message(self) -> pb.Message:
        return self.request.message

    @property
    def parts(self) -> Sequence[pb.Part]:
        return self.request.message.parts

    @property
    def text(self) -> str:
        """The text parts of the message, one per line."""
        parts = self.request.message.parts
        if len(parts) == 1:  # the usual message
            return parts[0].text
        return "\n".join([part.text for part in parts[:] if part.HasField("text")])

    @property
    def data(self) -> Any:  # noqa: ANN401 - the JSON border
        """The first data part as a Python value; None when there is none."""
        return next((to_python(part.data) for part in self.request.message.parts if part.HasField("data")), None)

    @property
    def files(self) -> list[pb.Part]:
        """The parts that hold a file: bytes (`raw`), a reference (`url`), or a text or data with a file's name."""
        return [part for part in self.request.message.parts if part.filename or part.WhichOneof("content") in _FILE]

    @property
    def answer(self) -> Any:  # noqa: ANN401 - as above
        """The answer to the input request that the task waited with; without a tool result the text or data."""
        if (request := asked_before(self.history)) is None:
            return None
        return self.results.get(request.request_id, self.text or self.data)

    @property
    def results(self) -> dict[str, Any]:
        """The tool results in the message, by the ids of their requests."""
        return {result.tool_use_id: to_python(result.value) for result in results_in(self.request.message)}

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the request. That of the message is in `message.metadata`."""
        return from_struct(self.request.metadata)

    async def next_message(self) -> pb.Message:
        """Wait for a further message to this task while the turn runs. After a question the task is WORKING again."""
        message = await self._output.outlet.next_message()
        if self._output.waits:
            await self.status()
        return message

    # -- the task and the caller

    @property
    def history(self) -> Sequence[pb.Message]:
        """The messages of the task so far, this one last."""
        return self.request.task.history

    @property
    def task(self) -> pb.Task:
        """The task as it was when the turn began."""
        return self.request.task

    @property
    def task_id(self) -> str:
        return self.request.task_id

    @property
    def context_id(self) -> str:
        return self.request.context_id

    @property
    def number(self) -> int:
        """1 in a task's first turn, greater in later ones."""
        return self.request.number

    @property
    def references(self) -> Sequence[pb.Task]:
        """The tasks that the message refers to, as far as the caller may see them."""
        return self.request.references

    @property
    def rerun(self) -> bool:
        """Whether a restart interrupted this turn, which now runs again from its last checkpoint."""
        return self.request.rerun

    @property
    def cancel_metadata(self) -> dict[str, Any] | None:
        """The metadata of the cancel that is being carried out; None when nobody asked to cancel."""
        metadata = self._output.outlet.cancel_metadata
        return None if metadata is None else from_struct(metadata)

    @property
    def caller(self) -> Caller:
        return self.request.caller

    @property
    def tenant(self) -> str:
        return self.request.tenant

    @property
    def trace(self) -> dict[str, str]:
        """Headers to send with calls to others, so that they join the client's trace; empty when it sent none."""
        trace = self.request.trace
        return {} if trace is None else trace.headers()

    @property
    def extensions(self) -> frozenset[str]:
        """The URIs of the extensions that are active in this request."""
        return self.request.extensions

    @property
    def accepted_output_modes(self) -> tuple[str, ...]:
        return self.request.accepted_output_modes

    def accepts(self, media_type: str) -> bool:
        """Whether the client takes this media type. A client that named none takes all."""
        modes = self.request.accepted_output_modes
        return not modes or any(matches(media_type, mode) for mode in modes)

    def preferred(self, media_types: Iterable[str]) -> str | None:
        """The first of your media types, best first, that the client takes; None when it takes none of them."""
        return next((mode for mode in media_types if self.accepts(mode)), None)

    @property
    def resources(self) -> Resources:
        """What the agent's lifespan yields; None without one."""
        return self._resources

    # -- what is remembered

    @property
    def state(self) -> dict[str, Any]:
        """JSON values that the next turn finds again. Saved when the turn asks the client, and by `checkpoint`."""
        return self._saved.values

    @property
    def context(self) -> Context:
        """The conversation: what earlier tasks of the context said, and the state that they share."""
        if self._output.context is None:
            self._output.context = Context(self.request, self._output.outlet)
        return self._output.context

    async def checkpoint(self, **updates: JsonValue) -> None:
        """Save the state now. When this returns it is durable, and a rerun of this turn starts from it.

        Artifacts that are finished stay as they are. One that is still open is expected to be written again.
        """
        self._saved.values.update(updates)
        self._output.flush()
        self._save()
        if self._output.context is not None:
            self._output.context.save()
        await self._output.outlet.durable()

    def _save(self) -> None:
        saved = self._saved
        saved.skill = self.skill
        saved.turn = self.request.number
        saved.artifacts = self._ids.finished
        self._output.outlet.save(saved.dump())

    # -- progress and results

    async def status(self, content: Content | None = None, *, metadata: Mapping[str, JsonValue] | None = None) -> None:
        """Report progress: WORKING, with a message if there is something to say."""
        await self._send(new_status(pb.TASK_STATE_WORKING, content, metadata))

    def artifact(self, name: str | None = None, **label: Unpack[LabelFields]) -> ArtifactWriter:
        """Write an artifact piece by piece. Its name defaults to the skill's id, and its own id is stable (CTX-14)."""
        return ArtifactWriter(self._output, self._ids, Label(self.skill if name is None else name, **label))

    async def add_artifact(self, content: Whole, name: str | None = None, **label: Unpack[LabelFields]) -> None:
        """Add an artifact at once: a value, several parts, or an artifact of your own. Labels as in `artifact`."""
        await self._send(whole_artifact(content, Label(self.skill if name is None else name, **label), self._ids))

    async def emit(self, event: TurnEvent) -> None:
        """Send an event of your own. Empty ids and times are filled in, nothing else changes (EXEC-03)."""
        self._emit(event)
        await self._output.room()

    def _emit(self, event: TurnEvent) -> None:
        response = copy_of(event)
        if response.status_update.status.state in INTERRUPTED:
            self._save()
        self._output.send(response)

    # -- other agents

    async def call(self, agent: str, content: Content = "", **options: Unpack[CallOptions]) -> AgentReply:
        """Send a message to another agent and return its answer, whole. `agent` is the URL of its host or its card.

        If it asks something, this turn asks the client the same, and ends here: in the next turn the same call sends
        the client's answer. Raises `CallFailed` if it cannot be called, or does not succeed.
        """
        return await self._outgoing(agent, content, options).reply()

    def stream(
        self, agent: str, content: Content = "", **options: Unpack[CallOptions]
    ) -> AsyncGenerator[pb.StreamResponse, None]:
        """Do the same, and iterate over the events of the other agent as they come, those of failures too."""
        return self._outgoing(agent, content, options).events()

    def _outgoing(self, agent: str, content: Content, options: CallOptions) -> OutgoingCall:
        if self._others is None:
            raise CallFailed("This agent runs where no other agents can be called.")
        if self._calls is None:
            self._calls = TurnCalls(self, self._others, self._saved, self._output.outlet)
        return self._calls.begin(agent, content, options)

    # -- the ends of a turn

    async def ask(
        self, content: Content | None = None, *, sensitive: bool = False, request_id: str | None = None
    ) -> None:
        """Ask the client: INPUT_REQUIRED. The answer starts the next turn, which finds the state.

        `sensitive` or a `request_id` makes it an input request: the client answers with a tool result for that id,
        which the next turn reads as `answer`. A sensitive answer is not stored. Such a request needs words.
        """
        if sensitive or request_id is not None:
            content = as_request(content or "", request_id, sensitive=sensitive)
        await self._interrupt(pb.TASK_STATE_INPUT_REQUIRED, content, None)

    async def require_auth(
        self, content: Content | None = None, *, in_band: bool = False, sensitive: bool = False
    ) -> None:
        """Ask for authorization: AUTH_REQUIRED. `in_band` says that the credential comes in the next message.

        That message is not stored, and only the turn that it starts reads it. `sensitive` makes an input request of
        it, as in `ask`.
        A skill may also wait for the credential itself, and then call `status` to continue (INTR-07).
        """
        if sensitive:
            content = as_request(content or "", None, sensitive=True)
        mark = {IN_BAND_KEY: True} if in_band or sensitive else None
        await self._interrupt(pb.TASK_STATE_AUTH_REQUIRED, content, mark)

    async def complete(self, content: Content | None = None) -> None:
        """End the task as COMPLETED, as returning does, with a closing message if you like."""
        self._conclude(content)
        await self._output.room()

    async def fail(self, content: Content | None = None) -> None:
        """End the task as FAILED, and say why if you can."""
        await self._send(new_status(pb.TASK_STATE_FAILED, content))

    async def reject(self, content: Content | None = None) -> None:
        """Decline the task as REJECTED, and say why if you like."""
        await self._send(new_status(pb.TASK_STATE_REJECTED, content))

    async def reply(self, content: Content) -> None:
        """Answer in conversation: a direct Message while no task exists, otherwise COMPLETED with it (SEND-11)."""
        self._reply(content)
        await self._output.room()

    def _reply(self, content: Content) -> None:
        if not self._direct or self._output.needs_task or self.rerun or self.number > 1:  # there is a task
            self._conclude(content)
        else:
            self._output.send(pb.StreamResponse(message=as_message(content)))

    async def _interrupt(
        self, state: pb.TaskState, content: Content | None, metadata: Mapping[str, JsonValue] | None
    ) -> None:
        event = new_status(state, content, metadata)
        self._save()
        await self._send(event)

    async def _send(self, event: pb.StreamResponse) -> None:
        self._output.send(event)
        await self._output.room()

    def internal(self, kind: str, /, **fields: object) -> None:
        """Tell the server's telemetry, and no client, what happens inside the turn (INTL-01)."""
        self._output.outlet.internal(kind if kind.startswith("internal:") else f"internal:{kind}", fields)

    # -- called by the agent when the skill has returned; the turn is over, so there is no need to wait for room

    def _deliver(self, result: Result) -> None:
        """Make an artifact of a return value. Events and messages are sent as they are; None is nothing."""
        if isinstance(result, pb.Message):
            self._reply(result)
        elif not isinstance(result, str) and isinstance(result, EVENTS):  # most results are text
            self._emit(result)
        elif result is not None:
            self._output.send(whole_artifact(result, Label(self.skill), self._ids))

    def _conclude(self, content: Content | None = None) -> None:
        if self._saved.values or not self._default:
            self._save()  # if a message came meanwhile, the task continues with another turn of this skill
        self._output.send(new_status(pb.TASK_STATE_COMPLETED, content))
