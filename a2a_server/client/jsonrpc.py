"""The JSON-RPC binding: the method is the RPC's name, `params` its request (spec: JRPC; 0.3: LRPC)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Protocol

import orjson
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_server.client.binding import CallTerms, NumberedEvent
from a2a_server.client.failures import invalid_answer, of_http, of_jsonrpc
from a2a_server.client.http import HttpAnswer, HttpCaller, HttpRequest, json_of, tolerant_json
from a2a_server.protocol.codec import Codec
from a2a_server.protocol.errors import A2AError

_NOTHING: Final = "google.protobuf.Empty"


class JsonRpcForm(Protocol):
    """How a version writes calls and their results."""

    def name(self, method: MethodDescriptor) -> str: ...

    def params(self, method: MethodDescriptor, request: Message) -> bytes:
        """Return the JSON text; empty if the method has no parameters."""
        ...

    def result(self, method: MethodDescriptor, value: object) -> Message:
        """Read a result, or an item of a stream. Raises `A2AError` if it is not well-formed."""
        ...


@dataclass(frozen=True, slots=True)
class CurrentForm:
    """1.0, where nothing has a name of its own."""

    codec: Codec

    def name(self, method: MethodDescriptor) -> str:
        return method.name

    def params(self, method: MethodDescriptor, request: Message) -> bytes:
        return self.codec.encode(request)

    def result(self, method: MethodDescriptor, value: object) -> Message:
        kind: type[Message] = GetMessageClass(method.output_type)
        return self.codec.decode({} if value is None else value, kind)


@dataclass(frozen=True, slots=True, eq=False)
class JsonRpcBinding:
    """Calls one interface over JSON-RPC."""

    url: str
    caller: HttpCaller
    form: JsonRpcForm
    _ids: count[int] = field(default_factory=lambda: count(1))

    async def call(self, method: MethodDescriptor, request: Message, terms: CallTerms) -> Message:
        return self._answer(method, await self.caller.answer(self._request(method, request), terms))

    async def stream(
        self, method: MethodDescriptor, request: Message, terms: CallTerms
    ) -> AsyncGenerator[NumberedEvent, None]:
        async for event in self.caller.events(self._request(method, request), terms):
            if isinstance(event, HttpAnswer):
                yield NumberedEvent(0, self._answer(method, event))
            else:
                yield NumberedEvent(event.number, self._result(method, json_of(event.data)))

    async def close(self) -> None:
        self.caller.close()

    def _request(self, method: MethodDescriptor, request: Message) -> HttpRequest:
        envelope: dict[str, Any] = {"jsonrpc": "2.0", "id": next(self._ids), "method": self.form.name(method)}
        if params := self.form.params(method, request):
            envelope["params"] = orjson.Fragment(params)
        return HttpRequest("POST", self.url, (), orjson.dumps(envelope))

    def _answer(self, method: MethodDescriptor, answer: HttpAnswer) -> Message:
        value = json_of(answer.body) if answer.is_ok else tolerant_json(answer.body)
        if not answer.is_ok and not (isinstance(value, dict) and "jsonrpc" in value and value.get("error")):
            raise of_http(answer.status, value, sent=self.caller.sends_credentials)
        return self._result(method, value)

    def _result(self, method: MethodDescriptor, value: object) -> Message:
        if not isinstance(value, dict) or "jsonrpc" not in value:
            raise invalid_answer("The agent's answer is not a response of JSON-RPC 2.0.")
        if value.get("error") is not None:
            raise of_jsonrpc(value["error"], sent=self.caller.sends_credentials)
        if "result" not in value and method.output_type.full_name != _NOTHING:  # the SDK of 0.3 leaves out null
            raise invalid_answer("The agent's answer has neither a result nor an error.")
        try:
            return self.form.result(method, value.get("result"))
        except A2AError as error:
            raise invalid_answer(f"The agent's result of {method.name} is not well-formed. {error}") from None
