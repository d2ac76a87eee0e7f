"""Questions that are answered by id, and the parts that tools' calls and results travel in (spec: XTRA)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.extensions import Extension
from a2a_server.agents.parts import Content, Json, as_message, data_part
from a2a_server.domain.input_requests import (
    DESCRIPTION,
    TOOL_RESULT,
    TOOL_USE,
    InputRequest,
    mark,
    put_request,
    request_in,
)
from a2a_server.domain.validation import MAX_ID, is_name
from a2a_server.ports.agent import InvalidAgentResponse
from a2a_server.protocol.names import INPUT_REQUEST_URI

INPUT_REQUESTS: Final = Extension(INPUT_REQUEST_URI, DESCRIPTION)
"""For `Agent(extensions=[INPUT_REQUESTS])`: an agent that makes input requests declares that it does (EXTN-01)."""


def tool_result_part(tool_use_id: str, result: Json) -> pb.Part:
    """The answer to an input request, or the result of a tool."""
    return _marked({"toolUseId": tool_use_id, "result": result}, TOOL_RESULT)


def tool_use_part(call: Mapping[str, Json]) -> pb.Part:
    """What the client's tool is to do, in the words that agent and client agreed on; its id is the input request's."""
    return _marked(call, TOOL_USE)


def _marked(value: Mapping[str, Json], kind: str) -> pb.Part:
    part = data_part(value)
    mark(part, kind)
    return part


def as_request(content: Content, request_id: str | None, *, sensitive: bool) -> pb.Message:
    """A question that is an input request; its text is the prompt."""
    message = as_message(content)
    prompt = "\n".join(part.text for part in message.parts if part.HasField("text"))
    if not prompt:
        raise InvalidAgentResponse("an input request says in a text what is wanted")
    if request_id is None:
        request_id = uuid.uuid4().hex
    elif not is_name(request_id):
        raise InvalidAgentResponse(f"the id of an input request has 1 to {MAX_ID} printable characters")
    put_request(message, InputRequest(request_id, prompt, sensitive))
    return message


def asked_before(history: Sequence[pb.Message]) -> InputRequest | None:
    """The input request that the last message of a history came after."""
    return request_in(history[-2]) if len(history) > 1 else None
