"""The requests of all benchmarks, serialised once."""

from __future__ import annotations

from generated import a2a_pb2 as pb

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
