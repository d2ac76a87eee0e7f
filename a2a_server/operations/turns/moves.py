"""Statuses that the server sets itself; they name a reason that programs can read (spec: STAT-04, TIMO-02)."""

from __future__ import annotations

from collections.abc import Mapping

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import agent_message, next_status_ms, status_update, text_part
from a2a_server.domain.lifecycle import may_move
from a2a_server.operations.services import Workshop
from a2a_server.operations.turns.writer import TaskWriter

Details = Mapping[str, str | float]
"""What goes into the metadata of the status message."""


def move(shop: Workshop, writer: TaskWriter, state: int, text: str = "", details: Details | None = None) -> None:
    """Move the task, unless its lifecycle forbids it."""
    message = None
    if text:
        message = agent_message(shop.ids.new(), writer.context_id, writer.task_id, [text_part(text)])
        for name, value in (details or {}).items():
            message.metadata[name] = value
    move_with(shop, writer, state, message)


def move_with(shop: Workshop, writer: TaskWriter, state: int, message: pb.Message | None) -> None:
    """The same, with a message that is there already."""
    if not may_move(writer.image.state, state):
        return
    at_ms = next_status_ms(writer.image.status_ms, shop.clock.now_ms())
    if message is None:
        writer.append_plain_status(state, at_ms)
        return
    event, status = status_update(writer.task_id, writer.context_id, state, at_ms, message)
    writer.append_status(event, status, at_ms)
