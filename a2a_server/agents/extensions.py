"""Extensions that an agent declares, and input requests, which are one of them (spec: EXTN, XTRA)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.parts import Content, JsonValue, as_message, data_part, to_struct
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
from a2a_server.protocol.errors import Violation
from a2a_server.protocol.names import INPUT_REQUEST_URI

ExtensionCheck = Callable[[pb.SendMessageRequest], Iterable[Violation | str]]


@dataclass(frozen=True, slots=True)
class Extension:
    """One extension in the card. `check` gets the requests that activate it, and yields what is wrong with them."""

    uri: str
    description: str = ""
    required: bool = False
    params: Mapping[str, JsonValue] | None = None
    check: ExtensionCheck | None = None

    def card(self) -> pb.AgentExtension:
        params = None if self.params is None else to_struct(self.params, "params")
        return pb.AgentExtension(uri=self.uri, description=self.description, required=self.required, params=params)

    def faults(self, request: pb.SendMessageRequest) -> Iterator[Violation]:
        """What is wrong with a request by the extension's own rules. A plain text is about the metadata (EXTN-07)."""
        if self.check is None:
            return
        for problem in self.check(request):
            yield problem if isinstance(problem, Violation) else Violation("metadata", problem)


INPUT_REQUESTS: Final = Extension(INPUT_REQUEST_URI, DESCRIPTION)
"""For `Agent(extensions=[INPUT_REQUESTS])`: an agent that makes input requests must declare it (EXTN-01)."""


def tool_result_part(tool_use_id: str, result: JsonValue) -> pb.Part:
    """The answer to an input request, or the result of a tool."""
    return _marked({"toolUseId": tool_use_id, "result": result}, TOOL_RESULT)


def tool_use_part(call: Mapping[str, JsonValue]) -> pb.Part:
    """A call of the client's tool, in a form that agent and client agreed on. Its id is the input request's."""
    return _marked(call, TOOL_USE)


def _marked(value: Mapping[str, JsonValue], kind: str) -> pb.Part:
    part = data_part(value)
    mark(part, kind)
    return part


def as_request(content: Content, request_id: str | None, *, sensitive: bool) -> pb.Message:
    """Make a question an input request. Its text is the prompt."""
    message = as_message(content)
    prompt = "\n".join(part.text for part in message.parts if part.HasField("text"))
    if not prompt:
        raise InvalidAgentResponse("an input request needs a text that says what is wanted")
    if request_id is None:
        request_id = uuid.uuid4().hex
    elif not is_name(request_id):
        raise InvalidAgentResponse(f"the id of an input request has 1 to {MAX_ID} printable characters")
    put_request(message, InputRequest(request_id, prompt, sensitive))
    return message


def asked_before(history: Sequence[pb.Message]) -> InputRequest | None:
    """The input request in the message before the last one of a history."""
    return request_in(history[-2]) if len(history) > 1 else None
