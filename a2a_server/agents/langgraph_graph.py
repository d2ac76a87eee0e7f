"""Serves a compiled LangGraph graph, unchanged (spec: AGNT-08). It needs the extra `langgraph`.

1. A message becomes the graph's input: text a message of the user, data other fields.
2. What models say is streamed, each message into an artifact of its own. Each finished node is a status.
3. An interrupt becomes a question. Its checkpoint is in the turn's state, and the answer resumes it there.
4. All tasks of a context share a thread of the graph's checkpointer, whose id is in the context's state.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, get_type_hints

from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel
from langgraph.types import Command, Interrupt, StreamMode

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.foreign import ForeignAgent, Texts, json_of, made_card, spoken, unreadable
from a2a_server.agents.parts import data_part
from a2a_server.agents.turn import Turn
from a2a_server.ports.agent import InvalidAgentResponse
from a2a_server.protocol.names import JSON, TEXT

Graph = Pregel[Any, Any, Any, Any]

_MODES: list[StreamMode] = ["messages", "updates", "values", "custom", "checkpoints"]
_MESSAGES, _STRUCTURED = "messages", "structured_response"
_INTERRUPT = "__interrupt__"
_THREAD = "langgraph"
_RESUMED_AT = ("thread_id", "checkpoint_ns", "checkpoint_id")


class LangGraphAgent(ForeignAgent):
    """A graph with its card."""

    def __init__(self, graph: Graph, card: pb.AgentCard | None = None) -> None:
        modes = (TEXT, JSON)
        super().__init__(card or made_card(graph.name, None, modes, modes), self._answer)
        self._graph = graph
        self._kept = isinstance(graph.checkpointer, BaseCheckpointSaver)
        self._fields = _fields(graph)

    async def _answer(self, turn: Turn) -> None:
        given, config = self._resumed(turn) if turn.state.get("at") else (self._input(turn), self._thread(turn))
        await turn.status()  # the message is read: there is a task from here on
        run = GraphRun(turn, config)
        await run.follow(self._graph, given)
        if run.interrupts:
            await self._ask(turn, run)
            return
        turn.state["at"] = None
        await run.deliver()

    def _thread(self, turn: Turn) -> RunnableConfig:
        if not self._kept:
            return {}
        return {"configurable": {"thread_id": turn.context.state.setdefault(_THREAD, uuid.uuid4().hex)}}

    def _resumed(self, turn: Turn) -> tuple[Command[Any], RunnableConfig]:
        answer = turn.text if turn.data is None else turn.data
        return Command(resume={turn.state["interrupt"]: answer}), {"configurable": dict(turn.state["at"])}

    async def _ask(self, turn: Turn, run: GraphRun) -> None:
        """Ask what the first interrupt wants. When it is answered, the next one comes up."""
        if not self._kept:
            raise InvalidAgentResponse("the graph interrupts, but cannot be resumed: compile it with a checkpointer")
        at = run.config["configurable"]
        turn.state.update(at={key: at[key] for key in _RESUMED_AT if key in at}, interrupt=run.interrupts[0].id)
        await turn.ask(spoken(run.interrupts[0].value))

    def _input(self, turn: Turn) -> Any:  # noqa: ANN401 - as the graph types it
        data = turn.data
        if not all(part.HasField("text") or part.HasField("data") for part in turn.parts):
            raise unreadable("the graph reads text and data only")
        if not self._fields:  # the functional API takes any value
            return turn.text if data is None else data
        if self._sets(data):
            return {**data, **self._said(turn.text)} if turn.text else data
        if _MESSAGES not in self._fields and data is not None:
            raise unreadable(f"data must be an object with fields of: {', '.join(self._fields)}")
        words = [turn.text] if turn.text else []
        return self._said("\n".join(words if data is None else [*words, json.dumps(data, ensure_ascii=False)]))

    def _sets(self, data: object) -> bool:
        """Whether data is an object with fields of the input. What was said is set by texts alone."""
        return isinstance(data, Mapping) and bool(data) and set(data) <= {*self._fields} - {_MESSAGES}

    def _said(self, text: str) -> dict[str, Any]:
        if _MESSAGES in self._fields:
            return {_MESSAGES: [HumanMessage(text)]}
        texts = [name for name, kind in self._fields.items() if kind is str]
        if len(texts) != 1:
            raise unreadable(f"must be data, an object with fields of: {', '.join(self._fields)}")
        return {texts[0]: text}


def _fields(graph: Graph) -> dict[str, Any]:
    """The fields of the graph's input with their types. Empty if the input is one value."""
    kind = graph.InputType
    return get_type_hints(kind) if isinstance(kind, type) else {}


class GraphRun:
    """One run of a graph: passes on what happens, and keeps what it came to."""

    def __init__(self, turn: Turn, config: RunnableConfig) -> None:
        self.config = config
        """Where the run is: its newest checkpoint."""
        self.interrupts: list[Interrupt] = []
        self._turn = turn
        self._texts = Texts(turn)
        self._output: Any = None

    async def follow(self, graph: Graph, given: Any) -> None:  # noqa: ANN401 - as the graph types it
        # Its type says nothing of the tuples that several modes with subgraphs give.
        events: Any = graph.astream(
            *(given, self.config), stream_mode=_MODES, subgraphs=True, output_keys=graph.output_channels
        )
        async with aclosing(events):
            async for place, mode, event in events:
                if mode == "messages":
                    await self._hear(*event)
                elif mode == "custom":
                    await self._turn.status(spoken(event))
                elif not place:  # the graph itself, none of those inside it
                    await self._note(mode, event)
        await self._texts.end_all()

    async def _hear(self, message: object, about: Mapping[str, Any]) -> None:
        if isinstance(message, AIMessage):
            await self._texts.write(message.id, str(message.text), about.get("langgraph_node"))
            if not isinstance(message, AIMessageChunk) or message.chunk_position == "last":
                await self._texts.end(message.id)

    async def _note(self, mode: str, event: Any) -> None:  # noqa: ANN401 - as above
        if mode == "checkpoints":
            self.config = event["config"]
        elif mode == "values":
            self._output = event
        else:
            self.interrupts += event.get(_INTERRUPT, ())
            for node in event:
                if not node.startswith("__"):
                    await self._turn.status(f"Node: {node}")

    async def deliver(self) -> None:
        """Add what the graph returns and has not streamed."""
        output = self._output
        if not isinstance(output, Mapping) or _MESSAGES not in output:
            if output is not None:
                await self._turn.add_artifact(output if isinstance(output, str) else data_part(json_of(output)))
            return
        if (structured := output.get(_STRUCTURED)) is not None:
            await self._turn.add_artifact(data_part(json_of(structured)))
        last = output[_MESSAGES][-1] if output[_MESSAGES] else None
        if isinstance(last, AIMessage) and last.id not in self._texts and (text := str(last.text)):
            await self._turn.add_artifact(text)
