"""What is kept of an answer that is for the agent's eyes only: that there was one, nothing of it (spec: XTRA-04)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.input_requests import (
    InputRequest,
    open_request,
    request_in,
    results_in,
    tool_result,
)

REDACTED: Final = "[redacted]"
_REDACTED_VALUE: Final = struct_pb2.Value(string_value=REDACTED)


def kept_of(task: pb.Task, message: pb.Message) -> pb.Message | None:
    """What to keep in place of a message to this task; None when the message itself may be kept.

    Whatever answers a sensitive request is withheld as a whole: a client that knows nothing of the extension puts the
    value into its text. Once the request is no longer open, results for it are recognised by its id, and an answer in
    words that is sent again by its own.
    """
    request = open_request(task.status)
    if request is None:
        request = sensitive_request(task.history, message) or answered_before(task.history, message)
    return redacted(message, request) if request is not None and request.sensitive else None


def sensitive_request(history: Iterable[pb.Message], message: pb.Message) -> InputRequest | None:
    """The sensitive request of these messages for which the message holds a result."""
    ids = {result.tool_use_id for result in results_in(message)}
    if not ids:
        return None
    requests = (request for said in history if (request := request_in(said)) is not None)
    return next((request for request in requests if request.sensitive and request.request_id in ids), None)


def answered_before(history: Iterable[pb.Message], message: pb.Message) -> InputRequest | None:
    """The request that a message of this id has answered already, if it was the next thing said."""
    asked = None
    for said in history:
        if said.role == pb.ROLE_AGENT:
            asked = request_in(said)
        elif said.message_id == message.message_id and asked is not None:
            return asked
        else:
            asked = None
    return None


def redacted(message: pb.Message, request: InputRequest) -> pb.Message:
    """The same message with nothing of what its client has put into it, but its ids and the form of the answer."""
    kept = pb.Message(
        message_id=message.message_id,
        context_id=message.context_id,
        task_id=message.task_id,
        role=message.role,
        extensions=message.extensions,
        reference_task_ids=message.reference_task_ids,
    )
    answering = {result.part for result in results_in(message) if result.tool_use_id == request.request_id}
    for index in range(len(message.parts)):
        part = kept.parts.add()
        if index in answering:
            part.CopyFrom(tool_result(request.request_id, _REDACTED_VALUE))
        else:
            part.text = REDACTED
    return kept
