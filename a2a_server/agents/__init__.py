"""What an agent author touches: Agent, Turn, and helpers for parts (spec: AGNT-01)."""

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.agent import Agent
from a2a_server.agents.artifact import ArtifactWriter
from a2a_server.agents.extensions import Extension
from a2a_server.agents.input_requests import INPUT_REQUESTS, tool_result_part, tool_use_part
from a2a_server.agents.parts import data_part, file_part, text_part
from a2a_server.agents.turn import Turn
from a2a_server.ports.agent import InvalidAgentResponse

__all__ = [
    "INPUT_REQUESTS",
    "Agent",
    "ArtifactWriter",
    "Extension",
    "InvalidAgentResponse",
    "Turn",
    "data_part",
    "file_part",
    "pb",
    "text_part",
    "tool_result_part",
    "tool_use_part",
]
