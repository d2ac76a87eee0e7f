"""Agents that were written with another library, and a function of ours that runs them (spec: AGNT-02, AGNT-08).

Each such library has a module beside this one, which is imported only when the author's own code has imported the
library: `executor`, `langgraph_graph`, `pydantic_ai_agent`, `adk_agent`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

from pydantic_core import PydanticSerializationError, to_jsonable_python

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.agent import Agent
from a2a_server.agents.output import ArtifactWriter
from a2a_server.agents.parts import Content, JsonValue, data_part
from a2a_server.agents.registration import LifespanFunction
from a2a_server.agents.turn import Turn
from a2a_server.ports.agent import InvalidAgentResponse, InvalidParams, Plan
from a2a_server.protocol.names import JSON, TEXT

READS = (TEXT, JSON, "image/*", "audio/*", "video/*", "application/pdf")
"""The input modes of agents that pass files on to their model."""
WRITES = (TEXT, JSON)

Answer: TypeAlias = Callable[[Turn], Coroutine[Any, Any, None]]


class ForeignAgent(Agent):
    """An agent whose skills, as its card lists them, are all answered by one function."""

    def __init__(self, card: pb.AgentCard, answer: Answer, lifespan: LifespanFunction | None = None) -> None:
        super().__init__(card.name, card.description, card.version, lifespan=lifespan)
        self._card.CopyFrom(card)
        self._card.ClearField("supported_interfaces")  # the server knows where it is
        self._card.ClearField("skills")
        for skill in card.skills or made_card(card.name, card.description).skills:
            self._register(skill, answer, Plan(may_refuse=True, sound=True, skill=skill.id))


def made_card(
    name: str, description: str | None, reads: Sequence[str] = (TEXT,), writes: Sequence[str] = (TEXT,)
) -> pb.AgentCard:
    """The card of an agent that has none: its first paragraph about itself, and one skill."""
    about = (description or name).partition("\n\n")[0]
    return pb.AgentCard(
        name=name,
        description=about,
        version="1.0.0",
        capabilities=pb.AgentCapabilities(streaming=True),
        default_input_modes=reads,
        default_output_modes=writes,
        skills=[pb.AgentSkill(id="default", name=name, description=about, tags=["agent"])],
    )


class Texts:
    """Texts that come in pieces, each of which becomes an artifact. Several may be open at a time."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._pieces: dict[Hashable, list[str]] = {}
        self._open: dict[Hashable, tuple[ArtifactWriter, AsyncExitStack]] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._pieces

    def text(self, key: Hashable) -> str:
        return "".join(self._pieces.get(key, ()))

    async def write(self, key: Hashable, text: str, name: str | None = None) -> None:
        """Add a piece. The first one begins the artifact."""
        if not text:
            return
        self._pieces.setdefault(key, []).append(text)
        if key not in self._open:
            stack = AsyncExitStack()
            self._open[key] = await stack.enter_async_context(self._turn.artifact(name)), stack
        writer, _ = self._open[key]
        await writer.write(text)

    async def end(self, key: Hashable) -> None:
        """Finish the artifact, if it was begun."""
        if key in self._open:
            _, stack = self._open.pop(key)
            await stack.aclose()

    async def end_all(self) -> None:
        for key in list(self._open):
            await self.end(key)


def json_of(value: object) -> JsonValue:
    """The JSON value that a result stands for: pydantic models, dataclasses, times and the like are written as JSON."""
    try:
        written: JsonValue = to_jsonable_python(value)
    except PydanticSerializationError as error:
        raise InvalidAgentResponse(f"the result cannot be written as JSON: {error}") from error
    return written


def spoken(value: object) -> Content:
    """What a library says as a value, as a message: text as it is, everything else as data."""
    return value if isinstance(value, str) and value else data_part(json_of(value))


def unreadable(fault: str) -> InvalidParams:
    """The error for a message whose parts are not what the agent waits for."""
    return InvalidParams({"message.parts": fault})
