"""The requests of all benchmarks, serialised once."""

from __future__ import annotations

from dataclasses import dataclass

from a2a_proto import a2a_pb2 as pb

TEXT = "The quick brown fox jumps over the lazy dog."


def message(skill: str, text: str = TEXT) -> pb.SendMessageRequest:
    """A user's message for a skill."""
    said = pb.Message(message_id="bench", role=pb.ROLE_USER, parts=[pb.Part(text=text)])
    request = pb.SendMessageRequest(message=said)
    request.metadata["skill"] = skill
    return request


def send(skill: str, text: str = TEXT) -> bytes:
    return message(skill, text).SerializeToString()


def get(task_id: str) -> bytes:
    return pb.GetTaskRequest(id=task_id).SerializeToString()


def page(size: int, token: str = "") -> bytes:
    return pb.ListTasksRequest(page_size=size, page_token=token).SerializeToString()


@dataclass(frozen=True, slots=True)
class Show:
    """What an agent is to do for an audience: wait until a gate is opened, then answer in so many equal chunks."""

    gate: str
    count: int
    size: int = 12
    """Characters per chunk."""
    pause: float = 0.0
    """Seconds before each chunk; 0 = as fast as the server takes them."""

    def __str__(self) -> str:
        return f"{self.gate} {self.count} {self.size} {self.pause}"

    @classmethod
    def of(cls, text: str) -> Show:
        gate, count, size, pause = text.split()
        return cls(gate, int(count), int(size), float(pause))

    @property
    def text(self) -> str:
        return "x" * self.size
