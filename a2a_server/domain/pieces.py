"""Tasks and events put together of pieces that are serialised already, which protobuf lets us concatenate.

A plain answer is four events about one task: the same two ids in each, the same message in two, and statuses that say
nothing but when. Made as messages, all that is copied and serialised again and again (docs/decisions.md, Speed).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, NamedTuple

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import timestamp, wrap

_ID: Final = int(pb.Task.ID_FIELD_NUMBER)
_CONTEXT_ID: Final = int(pb.Task.CONTEXT_ID_FIELD_NUMBER)
_STATUS: Final = int(pb.Task.STATUS_FIELD_NUMBER)
_HISTORY: Final = int(pb.Task.HISTORY_FIELD_NUMBER)
_TOLD_STATUS: Final = int(pb.TaskStatusUpdateEvent.STATUS_FIELD_NUMBER)
_TASK: Final = int(pb.StreamResponse.TASK_FIELD_NUMBER)
_STATUS_UPDATE: Final = int(pb.StreamResponse.STATUS_UPDATE_FIELD_NUMBER)


class Draft(NamedTuple):
    """A task that is to be created."""

    task_id: str
    context_id: str
    message: bytes
    """The one that asks for it."""
    at_ms: int


new_draft: Final[Callable[[tuple[str, str, bytes, int]], Draft]] = partial(tuple.__new__, Draft)
"""A draft made of all its members at once, which takes a third of the time."""


def address(task_id: str, context_id: str) -> bytes:
    """The two ids, as they stand in a task and in every update of it."""
    ids = wrap(_ID, task_id.encode())
    return ids + wrap(_CONTEXT_ID, context_id.encode()) if context_id else ids


_STATES: Final = {int(state): pb.TaskStatus(state=name).SerializeToString() for name, state in pb.TaskState.items()}


def plain_status(state: int, at_ms: int) -> bytes:
    """A status without a message."""
    return _STATES[state] + _since(at_ms)


@lru_cache(maxsize=256)  # much happens in the same millisecond
def _since(at_ms: int) -> bytes:
    return pb.TaskStatus(timestamp=timestamp(at_ms)).SerializeToString()


def history_of(message: bytes) -> bytes:
    """A history that begins with this message."""
    return wrap(_HISTORY, message)


def task_of(ids: bytes, status: bytes, history: bytes) -> bytes:
    """A task without artifacts."""
    return ids + wrap(_STATUS, status) + history


def creation(task: bytes) -> bytes:
    """The event of a task that has come to be."""
    return wrap(_TASK, task)


def update(ids: bytes, status: bytes) -> bytes:
    """The event of a new status."""
    return wrap(_STATUS_UPDATE, ids + wrap(_TOLD_STATUS, status))
