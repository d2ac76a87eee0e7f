"""Input requests: questions with an id, and their answers, as 1.0 carries them (spec: XTRA, EXTN-07).

A question is an input request if its message lists the extension and its metadata has, under the extension's URI,
`{"inputRequest": {"kind": "input-request", "requestId", "prompt", "sensitive"}}`. The answer is a tool result: a data
part `{"toolUseId", "result"}` marked by the part metadata `{"partKind": "tool-result"}` under the same URI.
An answer to a sensitive question is for the agent only. What is stored is its `redacted` copy (XTRA-04). The same holds
for a credential that the agent asked for in band, with or without the extension (SECR-04).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import has_in_band
from a2a_server.domain.lifecycle import INTERRUPTED
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.names import INPUT_REQUEST_URI

DESCRIPTION: Final = "Questions carry an id, may be marked as sensitive, and are answered by tool results for that id."

UNDECLARED: Final = (
    f"an input request needs the extension {INPUT_REQUEST_URI}, which the card does not declare; "
    "give the Agent extensions=[INPUT_REQUESTS], or set input_request_extension"
)
"""The error for an agent that makes one without declaring the extension (EXTN-01)."""

TOOL_RESULT: Final = "tool-result"
TOOL_USE: Final = "tool-use"

_REQUEST: Final = "inputRequest"
_KIND: Final = "input-request"
_PART_KIND: Final = "partKind"
_ID: Final = "toolUseId"
_RESULT: Final = "result"
_NULL: Final = struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)


class InputRequest(NamedTuple):
    """What is asked for."""

    request_id: str
    prompt: str = ""
    sensitive: bool = False
    """Whether the answer is for the agent alone (XTRA-04)."""


_CREDENTIAL: Final = InputRequest("", sensitive=True)


class ToolResult(NamedTuple):
    """An answer, in a part of a message."""

    part: int
    """The index of the part."""
    tool_use_id: str
    value: struct_pb2.Value


def declaration() -> pb.AgentExtension:
    return pb.AgentExtension(uri=INPUT_REQUEST_URI, description=DESCRIPTION)


# -- questions


def put_request(message: pb.Message, request: InputRequest) -> None:
    if INPUT_REQUEST_URI not in message.extensions:
        message.extensions.append(INPUT_REQUEST_URI)
    members = message.metadata.fields[INPUT_REQUEST_URI].struct_value.fields[_REQUEST].struct_value.fields
    members["kind"].string_value = _KIND
    members["prompt"].string_value = request.prompt
    members["sensitive"].bool_value = request.sensitive
    members["requestId"].string_value = request.request_id


def request_in(message: pb.Message) -> InputRequest | None:
    """Return the input request of a message, if there is one. The check is fast for messages without one.

    A question for a credential in band counts as a sensitive request. Without the extension it has no id.
    """
    if not message.extensions or INPUT_REQUEST_URI not in message.extensions:
        return _CREDENTIAL if message.HasField("metadata") and has_in_band(message.metadata) else None
    own = _member(message.metadata, INPUT_REQUEST_URI).struct_value
    if _REQUEST not in own.fields:
        return None
    request = own.fields[_REQUEST].struct_value
    request_id, prompt = (_member(request, name).string_value for name in ("requestId", "prompt"))
    return InputRequest(request_id, prompt, _is_meant(_member(request, "sensitive")))


def open_request(status: pb.TaskStatus) -> InputRequest | None:
    """The input request that a task waits with."""
    return request_in(status.message) if status.state in INTERRUPTED and status.HasField("message") else None


def _is_meant(value: struct_pb2.Value) -> bool:
    """Whether a question is sensitive. A value that is not a boolean counts as true, to be safe."""
    kind = value.WhichOneof("kind")
    return value.bool_value if kind == "bool_value" else kind not in {None, "null_value"}


# -- answers


def tool_result(tool_use_id: str, value: struct_pb2.Value) -> pb.Part:
    """The part that answers an input request."""
    part = pb.Part()
    members = part.data.struct_value.fields
    members[_ID].string_value = tool_use_id
    members[_RESULT].CopyFrom(value)
    mark(part, TOOL_RESULT)
    return part


def mark(part: pb.Part, kind: str) -> None:
    part.metadata.fields[INPUT_REQUEST_URI].struct_value.fields[_PART_KIND].string_value = kind


def kind_of(part: pb.Part) -> str:
    """Return `tool-result`, `tool-use`, or "" for an ordinary part."""
    if not part.HasField("metadata"):
        return ""
    return _member(_member(part.metadata, INPUT_REQUEST_URI).struct_value, _PART_KIND).string_value


def results_in(message: pb.Message) -> Iterator[ToolResult]:
    """All tool results of a message. One without an id has an empty id."""
    for index, part in enumerate(message.parts[:]):
        if kind_of(part) == TOOL_RESULT:
            content = part.data.struct_value
            result = _member(content, _RESULT)
            yield ToolResult(index, _member(content, _ID).string_value, result if result.WhichOneof("kind") else _NULL)


def check_answer(status: pb.TaskStatus, message: pb.Message) -> None:
    """Refuse results for any other request than the open one (XTRA-02). Answers in plain text are allowed."""
    request = open_request(status)
    if request is None or not request.request_id:
        return
    wrong = [result for result in results_in(message) if result.tool_use_id != request.request_id]
    if wrong:
        refuse([Violation(f"message.parts[{result.part}]", _complaint(result, request)) for result in wrong])


def _complaint(result: ToolResult, request: InputRequest) -> str:
    wanted = f"the task asks for {request.request_id[:80]!r}"
    if not result.tool_use_id:
        return f"a tool result needs a toolUseId; {wanted}"
    return f"is the result for {result.tool_use_id[:80]!r}, but {wanted}"


def _member(fields: struct_pb2.Struct, name: str) -> struct_pb2.Value:
    """Test first: reading a missing key of a protobuf map inserts it."""
    return fields.fields[name] if name in fields.fields else struct_pb2.Value()


REDACTED: Final = "[redacted]"
_REDACTED_VALUE: Final = struct_pb2.Value(string_value=REDACTED)


def kept_of(task: pb.Task, message: pb.Message) -> pb.Message | None:
    """What to store instead of a message to this task; None when the message itself may be stored.

    Every message that answers a sensitive request is redacted as a whole, because a client that does not know the
    extension puts the value into its text. After the request was answered, a result for it is recognised by the
    request's id, and a repeated text answer by its message id.
    """
    history = task.history
    requests = open_request(task.status), sensitive_request(history, message), answered_before(history, message)
    request = next((request for request in requests if request is not None and request.sensitive), None)
    return None if request is None else redacted(message, request)


def sensitive_request(history: Iterable[pb.Message], message: pb.Message) -> InputRequest | None:
    """The sensitive request in the history for which the message holds a result."""
    ids = {result.tool_use_id for result in results_in(message)}
    if not ids:
        return None
    requests = (request for said in history if (request := request_in(said)) is not None)
    return next((request for request in requests if request.sensitive and request.request_id in ids), None)


def answered_before(history: Iterable[pb.Message], message: pb.Message) -> InputRequest | None:
    """The request that an earlier message with the same id answered, directly after it was asked."""
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
    """The message without its content: only its ids and the form of the answer are left."""
    answering = {result.part for result in results_in(message) if result.tool_use_id == request.request_id}
    answer, other = tool_result(request.request_id, _REDACTED_VALUE), pb.Part(text=REDACTED)
    return pb.Message(
        message_id=message.message_id,
        context_id=message.context_id,
        task_id=message.task_id,
        role=message.role,
        extensions=message.extensions,
        reference_task_ids=message.reference_task_ids,
        parts=[answer if index in answering else other for index in range(len(message.parts))],
    )
