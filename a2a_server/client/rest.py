"""The HTTP+JSON binding: requests are made from the annotations of RPCs, and from nothing else (spec: REST, QPAR)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

import orjson
from google.api import annotations_pb2
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_server.client.binding import CallTerms, NumberedEvent
from a2a_server.client.failures import AgentError, invalid_answer, of_http
from a2a_server.client.http import HttpAnswer, HttpCaller, HttpRequest, SseEvent, json_of, tolerant_json
from a2a_server.protocol.errors import A2AError, Reason

ReadJson = Callable[[object, type[Message]], Message]
WriteJson = Callable[[Message], bytes]

_VARIABLE: Final = re.compile(r"\{(\w+)(?:=([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class RestRoute:
    """One annotation, as a client needs it."""

    verb: str
    template: str
    body: str
    """"" = none, "*" = the whole message, otherwise one field."""
    variables: tuple[str, ...]

    def path(self, values: Mapping[str, str]) -> str:
        def written(found: re.Match[str]) -> str:
            return quote(values[found[1]], safe="/" if "/" in (found[2] or "") else "")

        return _VARIABLE.sub(written, self.template)


@lru_cache(maxsize=256)
def routes_to(method: MethodDescriptor) -> tuple[RestRoute, ...]:
    """Return the routes of a method; those that capture the most come first."""
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    return tuple(sorted(map(_route, (rule, *rule.additional_bindings)), key=lambda it: -len(it.variables)))


def _route(rule: Any) -> RestRoute:  # noqa: ANN401 - google.api is untyped
    verb = rule.WhichOneof("pattern")
    template = getattr(rule, verb)
    return RestRoute(verb.upper(), template, rule.body, tuple(found[1] for found in _VARIABLE.finditer(template)))


@dataclass(frozen=True, slots=True, eq=False)
class RestBinding:
    """Calls one interface over HTTP+JSON, in any version whose service has annotations."""

    url: str
    caller: HttpCaller
    write: WriteJson
    read: ReadJson
    sends_whole: bool = False
    """Whether every body is the whole message, as the official SDK of 0.3 reads it, whatever the annotation says."""

    async def call(self, method: MethodDescriptor, request: Message, terms: CallTerms) -> Message:
        return self._answer(method, await self.caller.answer(self.request_of(method, request), terms))

    async def stream(
        self, method: MethodDescriptor, request: Message, terms: CallTerms
    ) -> AsyncGenerator[NumberedEvent, None]:
        async for event in self.caller.events(self.request_of(method, request), terms):
            if isinstance(event, HttpAnswer):
                yield NumberedEvent(0, self._answer(method, event))
            else:
                yield NumberedEvent(event.number, self._event(method, event))

    async def close(self) -> None:
        self.caller.close()

    def request_of(self, method: MethodDescriptor, request: Message) -> HttpRequest:
        """Divide a message into path, query and body."""
        base, mark, query = self.url.partition("?")
        value: dict[str, Any] = orjson.loads(self.write(request))
        route, path = self._place(method, request)
        body = b""
        if route.body and self.sends_whole:
            return HttpRequest(route.verb, f"{base.rstrip('/')}{path}{mark}{query}", (), orjson.dumps(value))
        for name in route.variables:
            value.pop(method.input_type.fields_by_name[name].json_name, None)
        if route.body == "*":
            body, value = orjson.dumps(value), {}
        elif route.body:
            body = orjson.dumps(value.pop(method.input_type.fields_by_name[route.body].json_name, {}))
        return HttpRequest(route.verb, f"{base.rstrip('/')}{path}{mark}{query}", tuple(_flat(value)), body)

    @staticmethod
    def _place(method: MethodDescriptor, request: Message) -> tuple[RestRoute, str]:
        missing: Iterable[str] = ()
        for route in routes_to(method):
            values = {name: getattr(request, name) for name in route.variables}
            missing = [name for name, value in values.items() if not value]
            if not missing:
                return route, route.path(values)
        raise AgentError(f"{method.name} needs {', '.join(missing)}.", reason=Reason.INVALID_PARAMS)

    def _answer(self, method: MethodDescriptor, answer: HttpAnswer) -> Message:
        if not answer.is_ok:
            raise of_http(answer.status, tolerant_json(answer.body), sent=self.caller.sends_credentials)
        kind = GetMessageClass(method.output_type)
        return Empty() if kind is Empty else self._read(json_of(answer.body), kind)

    def _event(self, method: MethodDescriptor, event: SseEvent) -> Message:
        value = json_of(event.data)
        if event.name == "error" or (isinstance(value, dict) and "error" in value):
            told = value.get("error") if isinstance(value, dict) else None
            code = told.get("code") if isinstance(told, dict) else None
            raise of_http(code if isinstance(code, int) else 500, value, sent=self.caller.sends_credentials)
        return self._read(value, GetMessageClass(method.output_type))

    def _read(self, value: object, kind: type[Message]) -> Message:
        try:
            return self.read(value, kind)
        except A2AError as error:
            raise invalid_answer(f"The agent's answer is not a well-formed {kind.DESCRIPTOR.name}. {error}") from None


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Write members as parameters of a query: lists are repeated, members of messages have dotted names."""
    for name, held in value.items():
        if isinstance(held, dict):
            yield from _flat(held, f"{prefix}{name}.")
        else:
            yield from ((f"{prefix}{name}", _text(one)) for one in (held if isinstance(held, list) else [held]))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
