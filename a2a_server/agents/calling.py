"""Agents that call agents: one call, its answer, and a question that is passed on (spec: AGNT-03, SUBA-01 to -03).

1. `turn.call` and `turn.stream` make an `OutgoingCall`. Its message refers to the turn's task.
2. As soon as the other agent has a task, the call is kept in the saved state of the turn, and the turn's own task shows
   it: WORKING, with the id of the other task in `referenceTaskIds`.
3. If the other agent asks something, the turn asks the same and ends. In the next turn the same call sends the client's
   answer to the task that waits for it.
4. A turn that runs again after a crash follows the task that it had begun before. A turn that is canceled has it
   canceled.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypedDict
from uuid import NAMESPACE_URL, uuid5

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.parts import Content, JsonValue, as_message, data_part, to_python, to_struct
from a2a_server.domain.events import has_in_band
from a2a_server.domain.lifecycle import INTERRUPTED, TERMINAL
from a2a_server.domain.reducer import fold
from a2a_server.ports.agent import SKILL_KEY, InvalidAgentResponse, Outlet
from a2a_server.ports.calling import AgentCall, CallFailed, OtherAgents

if TYPE_CHECKING:
    from a2a_server.agents.agent import Saved
    from a2a_server.agents.turn import Turn

_TASK: Final = "task"
_CONTEXT: Final = "context"
_TURN: Final = "turn"
_ASKED: Final = "asked"
_BEGUN: Final = "Another agent works on this."
_ENDED: Final = "The other agent is done."


class PassedOn(BaseException):
    """The other agent's question was passed on to the client; the answer starts the next turn."""


@dataclass(frozen=True, slots=True)
class AgentReply:
    """What another agent has answered."""

    task: pb.Task | None = None
    message: pb.Message | None = None
    """The answer of an agent that made no task."""

    @property
    def parts(self) -> list[pb.Part]:
        """The parts of the message, or of all artifacts."""
        if self.message is not None:
            return list(self.message.parts)
        artifacts = self.task.artifacts if self.task is not None else ()
        return [part for artifact in artifacts for part in artifact.parts]

    @property
    def text(self) -> str:
        """The text of the answer: of the artifacts, or what the task's last status says if there are none."""
        parts = self.parts or (self.task.status.message.parts if self.task is not None else ())
        return "".join(part.text for part in parts)

    @property
    def data(self) -> Any:  # noqa: ANN401 - the JSON border
        """The first data part as a Python value; None when there is none."""
        return next((to_python(part.data) for part in self.parts if part.HasField("data")), None)

    @property
    def files(self) -> list[pb.Part]:
        return [part for part in self.parts if part.HasField("raw") or part.HasField("url")]

    @property
    def waits(self) -> bool:
        """Whether the other agent has asked something, or wants authorization."""
        return self.task is not None and self.task.status.state in INTERRUPTED

    @property
    def failed(self) -> bool:
        state = pb.TASK_STATE_COMPLETED if self.task is None else self.task.status.state
        return state in TERMINAL and state != pb.TASK_STATE_COMPLETED


class CallOptions(TypedDict, total=False):
    """The keyword arguments of a call."""

    data: JsonValue
    """Any JSON value, as a further part."""
    files: Iterable[pb.Part]
    """Further parts, made with `file_part`."""
    skill: str
    """The other agent's skill, if it is served by a2ad."""
    metadata: Mapping[str, JsonValue]
    """Of the request."""
    context_id: str
    """A conversation with the other agent, from an earlier reply."""
    timeout: float
    """Seconds until the answer must be complete."""
    name: str
    """Tells several calls to one agent in the same turn apart."""
    quiet: bool
    """Whether this task does not show the call."""
    pass_on: bool
    """Whether this turn asks what the other agent asks; otherwise the reply `waits`. True unless said otherwise."""
    signed: bool
    """Whether the other agent's card must have a valid signature."""


class TurnCalls:
    """The calls of one turn. Those that have begun and not ended are kept in its saved state, by their names."""

    def __init__(self, turn: Turn[Any], others: OtherAgents, saved: Saved, outlet: Outlet) -> None:
        self._turn = turn
        self._saved = saved
        self._outlet = outlet
        self.others = others
        self.sent = Counter[str]()
        """How many messages this run has sent, by the name of the call."""
        self.returned: set[str] = set()
        """The calls that have returned a question to the skill."""

    @property
    def runs_again(self) -> bool:
        """Whether a turn that is interrupted now, and not canceled, will run again."""
        request = self._turn.request
        restartable = request.rerun or (request.plan is not None and request.plan.restartable)
        return restartable and self._turn.cancel_metadata is None

    def of(self, name: str) -> Mapping[str, Any] | None:
        kept: Mapping[str, Any] | None = self._saved.calls.get(name)
        return kept

    def put(self, name: str, kept: Mapping[str, Any] | None) -> None:
        """Keep a call, or forget it. It is written with the next event."""
        if kept == self.of(name):
            return
        self._saved.calls.pop(name, None)
        if kept is not None:
            self._saved.calls[name] = kept
        self._outlet.save(self._saved.dump_calls(self._turn.skill))

    def begin(self, agent: str, content: Content, options: CallOptions) -> OutgoingCall:
        """Make a call of what an author gives."""
        message = as_message(content) if content else pb.Message()
        if (data := options.get("data")) is not None:
            message.parts.append(data_part(data))
        message.parts.extend(options.get("files", ()))
        if not message.parts:
            raise InvalidAgentResponse("a call needs a text, data or files")
        message.context_id = options.get("context_id", message.context_id)
        skill, signed = options.get("skill"), options.get("signed", False)
        return OutgoingCall(
            turn=self._turn,
            calls=self,
            call=AgentCall(agent=agent, trace=self._turn.trace, timeout=options.get("timeout"), signed=signed),
            name=options.get("name", agent),
            message=message,
            metadata={**options.get("metadata", {}), **({} if skill is None else {SKILL_KEY: skill})},
            quiet=options.get("quiet", False),
            passes_on=options.get("pass_on", True),
        )


@dataclass(slots=True, kw_only=True)
class OutgoingCall:
    """One call of a turn."""

    turn: Turn[Any]
    calls: TurnCalls
    call: AgentCall
    name: str
    """What the call is kept under."""
    message: pb.Message
    metadata: Mapping[str, JsonValue] | None = None
    quiet: bool = False
    """Whether the turn's own task does not show the call."""
    passes_on: bool = True
    task: pb.Task = field(default_factory=pb.Task)
    """The other agent's task so far; without an id there is none."""
    answer: pb.Message | None = None

    async def reply(self) -> AgentReply:
        """Make the call to its end."""
        async with aclosing(self.events()) as events:
            async for _ in events:
                pass
        reply = AgentReply(self.task if self.task.id else None, self.answer)
        if reply.failed:
            state = pb.TaskState.Name(self.task.status.state).removeprefix("TASK_STATE_")
            said = "".join(part.text for part in self.task.status.message.parts)
            raise CallFailed(f"{self.call.agent}: {state}{f': {said}' if said else ''}", task=self.task)
        return reply

    async def events(self) -> AsyncGenerator[pb.StreamResponse, None]:
        """Yield the other agent's events. Raises `PassedOn` after a question that is passed on."""
        try:
            async with aclosing(self._source()) as source:
                async for event in source:
                    await self._take(event)
                    yield event
        except asyncio.CancelledError:
            if not self.calls.runs_again:
                self._cancel()
            raise
        except CallFailed:
            self._cancel()
            self.calls.put(self.name, None)
            raise
        await self._end()

    async def _source(self) -> AsyncGenerator[pb.StreamResponse, None]:
        """Begin a task, or go on with the one that an earlier turn, or an earlier run of this one, has begun."""
        kept = self.calls.of(self.name)
        request = self._request(kept)
        if kept is not None:
            async with aclosing(self.others.follow(self.call, kept[_TASK])) as following:
                async for event in following:
                    if event.task.status.state in INTERRUPTED and self._answers(kept):
                        break
                    yield event
                else:
                    return
        self.calls.returned.discard(self.name)
        async with aclosing(self.others.send(self.call, request)) as events:
            async for event in events:
                yield event

    def _answers(self, kept: Mapping[str, Any]) -> bool:
        """Whether this call's message is what the other agent's task waits for."""
        return bool(kept[_TURN] < self.turn.number) or self.name in self.calls.returned

    @property
    def others(self) -> OtherAgents:
        return self.calls.others

    def _request(self, kept: Mapping[str, Any] | None) -> pb.SendMessageRequest:
        """Refer to the turn's task. A question that was passed on is answered with what the client has said.

        The id of the message is the same when the turn runs again, so that a repeated send is noticed.
        """
        message = pb.Message()
        if kept is not None and kept[_ASKED]:
            message.parts.extend(self.turn.parts)
        else:
            message.MergeFrom(self.message)
        message.role = pb.ROLE_USER
        if kept is not None:
            message.task_id, message.context_id = kept[_TASK], kept[_CONTEXT]
        self.calls.sent[self.name] += 1
        place = f"{self.turn.task_id}/{self.turn.number}/{self.name}/{self.calls.sent[self.name]}"
        message.message_id = message.message_id or str(uuid5(NAMESPACE_URL, place))
        message.reference_task_ids.append(self.turn.task_id)
        return pb.SendMessageRequest(message=message, metadata=to_struct(self.metadata) if self.metadata else None)

    async def _take(self, event: pb.StreamResponse) -> None:
        if event.HasField("message"):
            self.answer = event.message
            return
        known = self.task.id
        fold(self.task, [event])
        self.task.id = self.task.id or event.status_update.task_id or event.artifact_update.task_id
        if self.task.id != known:
            self._keep()
            await self._show(_BEGUN)
        elif event.HasField("status_update") and event.status_update.status.state == pb.TASK_STATE_WORKING:
            await self._show("".join(part.text for part in event.status_update.status.message.parts))

    async def _end(self) -> None:
        if not self.task.id:
            return
        if self.task.status.state in INTERRUPTED:
            self._keep()
            if self.passes_on:
                await self._pass_on()
            self.calls.returned.add(self.name)
            return
        self.calls.put(self.name, None)
        if self.task.status.state == pb.TASK_STATE_COMPLETED:
            await self._show(_ENDED)

    async def _pass_on(self) -> None:
        """Ask the client what the other agent has asked (SUBA-03)."""
        status = self.task.status
        message = pb.Message(parts=status.message.parts, reference_task_ids=[self.task.id])
        content = message if message.parts else None
        if status.state == pb.TASK_STATE_AUTH_REQUIRED:
            await self.turn.require_auth(content, in_band=has_in_band(status.message.metadata))
        else:
            await self.turn.ask(content)
        raise PassedOn

    def _keep(self) -> None:
        """Remember the task for the next turn, and for the next run of this one."""
        asked = self.passes_on and self.task.status.state in INTERRUPTED
        kept = {_TASK: self.task.id, _CONTEXT: self.task.context_id, _TURN: self.turn.number, _ASKED: asked}
        self.calls.put(self.name, kept)

    async def _show(self, text: str) -> None:
        """Report in the turn's own task, and say which task it is about (SUBA-02)."""
        if text and not self.quiet:
            message = pb.Message(parts=[pb.Part(text=text)], reference_task_ids=[self.task.id])
            await self.turn.status(message)

    def _cancel(self) -> None:
        """Have the other agent stop."""
        task_id = self.task.id or (self.calls.of(self.name) or {}).get(_TASK, "")
        if task_id and self.task.status.state not in TERMINAL:
            self.others.cancel(self.call, task_id)
