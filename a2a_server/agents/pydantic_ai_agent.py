"""Serves a pydantic-ai `Agent`, unchanged (spec: AGNT-08). It needs the extra `pydantic-ai`.

1. A message becomes the prompt. The conversation so far comes from the context's state.
2. What the model says is streamed, each of its texts into an artifact of its own. Each tool call is a status.
3. A result that is not text becomes a data part.
4. Deferred tool calls become a question. The run so far is in the turn's state until the answers come.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import (
    AgentStreamEvent,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    FunctionToolCallEvent,
    ModelMessagesTypeAdapter,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    RunContext,
    TextPart,
    TextPartDelta,
    ToolApproved,
    ToolDenied,
    UserContent,
)
from pydantic_ai.agent import AbstractAgent

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.foreign import READS, WRITES, ForeignAgent, Texts, json_of, made_card, unreadable
from a2a_server.agents.parts import Chunk, data_part, file_part, text_part, to_python
from a2a_server.agents.turn import Turn
from a2a_server.ports.agent import ContentTypeNotSupported
from a2a_server.protocol.names import BINARY

MOST_HISTORY = 128 * 1024
"""How many bytes of a conversation are remembered, as JSON. The earliest exchanges are forgotten first."""

YES = "yes"
"""The text that approves. Any other text denies, and the model is told it."""

_CONVERSATION = "pydantic-ai"
_REQUESTS = TypeAdapter(DeferredToolRequests)

Messages = list[dict[str, Any]]
"""Messages of pydantic-ai, as JSON."""


class PydanticAIAgent(ForeignAgent):
    """A pydantic-ai agent with its card."""

    def __init__(self, agent: AbstractAgent[None, Any], card: pb.AgentCard | None = None) -> None:
        if agent.deps_type not in {object, type(None)}:
            needs = f"{agent.name or 'the agent'} needs deps of type {agent.deps_type.__name__}"
            raise ValueError(f"{needs}, which a server cannot make; run it from a skill, as docs/pydantic-ai.md shows")
        about = agent.description
        card = card or made_card(agent.name or "Agent", about if isinstance(about, str) else None, READS, WRITES)
        super().__init__(card, self._answer, self._entered)
        self._foreign = agent

    async def _entered(self) -> AsyncIterator[None]:
        """Open what the agent's toolsets and model need, once for all turns."""
        async with self._foreign:
            yield

    async def _answer(self, turn: Turn) -> None:
        earlier: Messages = turn.context.state.get(_CONVERSATION, [])
        before, own = turn.state.get("before", earlier), turn.state.get("own", [])
        prompt = results = None
        if own:
            results = _results(_REQUESTS.validate_python(turn.state["waits_for"]), turn)
        else:
            prompt = _prompt(turn.parts)
        await turn.status()  # the message is read: there is a task from here on
        listener = ModelListener(turn)
        run = await self._foreign.run(
            prompt,
            message_history=ModelMessagesTypeAdapter.validate_python([*before, *own]),
            deferred_tool_results=results,
            event_stream_handler=listener.hear,
        )
        own = [*own, *ModelMessagesTypeAdapter.dump_python(run.new_messages(), mode="json")]
        if isinstance(run.output, DeferredToolRequests):
            turn.state.update(before=before, own=own, waits_for=_REQUESTS.dump_python(run.output, mode="json"))
            await turn.ask(_question(run.output))
            return
        turn.state.clear()
        turn.state["own"] = []  # an empty state would not be saved, and a message that came meanwhile finds the old one
        turn.context.state[_CONVERSATION] = _recent([*earlier, *own])
        if run.output != listener.newest:
            await turn.add_artifact(_output(run.output))


class ModelListener:
    """Passes on what happens in a run: each text of the model, and each tool call."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._texts = Texts(turn)
        self._newest = 0

    @property
    def newest(self) -> str:
        """The text that the model has said last."""
        return self._texts.text(self._newest)

    async def hear(self, _: RunContext[None], events: AsyncIterable[AgentStreamEvent]) -> None:
        async for event in events:
            match event:
                case PartStartEvent(part=TextPart(content=text)):
                    self._newest += 1
                    await self._texts.write(self._newest, text)
                case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                    await self._texts.write(self._newest, text)
                case PartEndEvent(part=TextPart()):
                    await self._texts.end(self._newest)
                case FunctionToolCallEvent(part=call):
                    await self._turn.status(f"Tool: {call.tool_name}")


def _prompt(parts: Sequence[pb.Part]) -> str | list[UserContent]:
    content = [_content(part) for part in parts]
    (only,) = content if len(content) == 1 else (None,)
    return only if isinstance(only, str) else content


def _content(part: pb.Part) -> UserContent:
    match part.WhichOneof("content"):
        case "text":
            return part.text
        case "data":
            return json.dumps(to_python(part.data), ensure_ascii=False)
        case "raw":
            return BinaryContent(part.raw, media_type=part.media_type or BINARY)
        case _:
            raise ContentTypeNotSupported("The agent reads text, data and files with their bytes, but follows no link.")


def _output(output: object) -> Chunk:
    if isinstance(output, str):
        return output
    if isinstance(output, BinaryContent):
        return file_part(output.data, media_type=output.media_type)
    return data_part(json_of(output))


def _recent(messages: Messages) -> Messages:
    """The newest exchanges that fit into MOST_HISTORY. What the agent was told at the start stays in front."""
    begins = [number for number, message in enumerate(messages) if _kinds(message) & {"user-prompt"}]
    for begin in begins:
        kept = messages[begin:]
        if len(json.dumps(kept)) <= MOST_HISTORY:
            if begin and (told := [part for part in messages[0]["parts"] if part["part_kind"] == "system-prompt"]):
                return [{**kept[0], "parts": [*told, *kept[0]["parts"]]}, *kept[1:]]
            return kept
    return []


def _kinds(message: Mapping[str, Any]) -> set[str]:
    return {part["part_kind"] for part in message["parts"]}


# -- deferred tool calls


def _question(requests: DeferredToolRequests) -> list[str | pb.Part]:
    """Say what the run waits for, in words and as data."""
    words, asked = [], []
    for call in (*requests.approvals, *requests.calls):
        kind, args = requests.kind(call.tool_call_id), json_of(call.args_as_dict())
        asked.append({"id": call.tool_call_id, "kind": kind, "tool": call.tool_name, "args": args})
        wanted = "Approve" if kind == "approval" else "Answer"
        words.append(f"{wanted} {call.tool_name}({json.dumps(args, ensure_ascii=False)})?")
    return [text_part("\n".join(words)), data_part({"requests": asked})]


def _results(requests: DeferredToolRequests, turn: Turn) -> DeferredToolResults:
    """Read the answers: data that maps the id of each call to its answer, or a text for all of them."""
    approvals, calls = ([call.tool_call_id for call in some] for some in (requests.approvals, requests.calls))
    given = turn.data
    if given is None:
        yes = turn.text.strip().lower() == YES
        return DeferredToolResults(
            approvals={call: yes or ToolDenied(turn.text) for call in approvals},
            calls=dict.fromkeys(calls, turn.text),
        )
    if not isinstance(given, Mapping) or set(given) != {*approvals, *calls}:
        raise unreadable(f"data must be an object with an answer for each of: {', '.join((*approvals, *calls))}")
    return DeferredToolResults(
        approvals={call: _approval(call, given[call]) for call in approvals},
        calls={call: given[call] for call in calls},
    )


def _approval(call: str, given: object) -> bool | ToolApproved | ToolDenied:
    match given:
        case bool():
            return given
        case str():
            return ToolDenied(given)
        case dict():
            return ToolApproved(override_args=given)
        case _:
            kinds = "true, false, a text that says why not, or an object with the arguments to use"
            raise unreadable(f"the answer for {call} must be {kinds}")
