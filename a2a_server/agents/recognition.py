"""Recognises agents of other libraries by their type, and serves them as they are (spec: AGNT-02, AGNT-08).

A library is looked up among the modules that are imported already: whoever has an agent of its type has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import AgentPort, HasLifespan

Beside = Mapping[str, object]
"""What is defined in the agent's module."""
Serve = Callable[[Any, Beside, pb.AgentCard | None], AgentPort]


@dataclass(frozen=True, slots=True)
class Library:
    """One type of agents, and what serves them."""

    module: str
    type_name: str
    serve: Serve

    @property
    def agent_type(self) -> tuple[type, ...]:
        """The type, if the library has been imported."""
        kind = getattr(sys.modules.get(self.module), self.type_name, None)
        return () if kind is None else (kind,)


# Each needs its library, and is therefore imported no sooner than an agent of its type is there.


def _executor(found: Any, beside: Beside, card: pb.AgentCard | None) -> AgentPort:  # noqa: ANN401 - as the library types it
    from a2a_server.agents.executor import ExecutorAgent, card_of  # noqa: PLC0415

    return ExecutorAgent(found, card or card_of(found, beside))


def _adk(found: Any, _: Beside, card: pb.AgentCard | None) -> AgentPort:  # noqa: ANN401 - as above
    try:
        from a2a_server.agents.adk_agent import AdkAgent  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(f"ADK cannot serve A2A here ({error}); pip install 'a2ad[adk]'") from error
    return AdkAgent(found, card)


def _langgraph(found: Any, _: Beside, card: pb.AgentCard | None) -> AgentPort:  # noqa: ANN401 - as above
    from a2a_server.agents.langgraph_graph import LangGraphAgent  # noqa: PLC0415

    return LangGraphAgent(found, card)


def _pydantic_ai(found: Any, _: Beside, card: pb.AgentCard | None) -> AgentPort:  # noqa: ANN401 - as above
    from a2a_server.agents.pydantic_ai_agent import PydanticAIAgent  # noqa: PLC0415

    return PydanticAIAgent(found, card)


EXECUTORS = Library("a2a.server.agent_execution", "AgentExecutor", _executor)
LIBRARIES = (
    EXECUTORS,
    Library("google.adk.agents", "BaseAgent", _adk),
    Library("google.adk.apps", "App", _adk),
    Library("google.adk.runners", "Runner", _adk),
    Library("langgraph.pregel", "Pregel", _langgraph),
    Library("pydantic_ai.agent", "AbstractAgent", _pydantic_ai),
)


def recognised(
    found: object,
    beside: Beside = MappingProxyType({}),
    card: pb.AgentCard | None = None,
) -> AgentPort | None:
    """The agent that serves what was found, if that is of a known type. Its own card is used only without `card`."""
    for library in LIBRARIES:
        if isinstance(found, library.agent_type):
            return library.serve(found, beside, card)
    return None


class OpenedAgent:
    """An agent that an async context manager makes when the server starts, and closes in the end (spec: AGNT-07).

    What is made may be an agent of another library, such as a graph whose checkpointer needs a connection.
    """

    def __init__(self, opening: AbstractAsyncContextManager[object], beside: Beside, card: pb.AgentCard | None) -> None:
        self._opening = opening
        self._beside = beside
        self._card = card

    @asynccontextmanager
    async def living(self) -> AsyncIterator[AgentPort]:
        async with self._opening as made:
            agent = recognised(made, self._beside, self._card) or made
            if isinstance(agent, HasLifespan):
                async with agent.living() as living:
                    yield living
            elif hasattr(agent, "card"):
                yield cast("AgentPort", agent)
            else:
                raise TypeError(f"a {type(agent).__name__} was made, which is not an agent")


def foreign_types() -> tuple[type, ...]:
    """The types that are recognised now."""
    return tuple(kind for library in LIBRARIES for kind in library.agent_type)
