"""What an agent author uses: Agent, Turn, and helpers for parts (spec: AGNT-01).

1. An `Agent` has skills: async functions that authors register with `@agent.skill` (`agent`, `extensions`).
2. For each message the server calls `Agent.run`, which picks the skill and gives it a `Turn` (`turn`).
3. What the skill returns, yields or sends becomes events (`parts`, `artifact`).
4. A skill may call other agents (`calling`).
5. The events go to the server in order, with the state that the next turn finds again (`output`).

`testing` runs turns in memory, for the author's own tests.
"""

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.agent import Agent
from a2a_server.agents.calling import AgentReply
from a2a_server.agents.context import Context
from a2a_server.agents.extensions import INPUT_REQUESTS, Extension, tool_result_part, tool_use_part
from a2a_server.agents.output import ArtifactWriter
from a2a_server.agents.parts import data_part, file_part, text_part
from a2a_server.agents.turn import Turn
from a2a_server.ports.agent import (
    ContentTypeNotSupported,
    InvalidAgentResponse,
    InvalidParams,
    Outlet,
    TurnRequest,
    UnsupportedOperation,
)
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.calling import CallFailed
from a2a_server.protocol.errors import Violation

__all__ = [
    "INPUT_REQUESTS",
    "Agent",
    "AgentReply",
    "ArtifactWriter",
    "CallFailed",
    "Caller",
    "ContentTypeNotSupported",
    "Context",
    "Extension",
    "InvalidAgentResponse",
    "InvalidParams",
    "Outlet",
    "Turn",
    "TurnRequest",
    "UnsupportedOperation",
    "Violation",
    "data_part",
    "file_part",
    "pb",
    "text_part",
    "tool_result_part",
    "tool_use_part",
]
