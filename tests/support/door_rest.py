"""A client of the REST binding with the shape of a gRPC stub, made from the annotations alone.

It reads them in its own way and shares nothing with `gateway`: a route that is wrong there is wrong here at most once.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from google.api import annotations_pb2
from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from yarl import URL

from a2a_proto import a2a_pb2 as pb
from tests.support import door_errors
from tests.support.door_calls import Headers, StreamCall, UnaryCall, perform
from tests.support.door_events import events, loads

_VARIABLE = re.compile(r"\{(\w+)(?:=\*)?\}")
_TYPES = {"application/a2a+json", "application/json"}

Metadata = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Asked:
    """A call as an HTTP request."""

    verb: str
    path: str
    query: str
    body: Mapping[str, Any] | None


def asked(method: MethodDescriptor, request: Message) -> Asked:
    """Choose the binding whose path carries the most of what is set, and put the rest where it says."""
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    members = json_format.MessageToDict(request, preserving_proto_field_name=True)
    fitting = [one for one in (rule, *rule.additional_bindings) if "{tenant}" not in _path(one) or "tenant" in members]
    chosen = max(fitting, key=lambda one: len(_VARIABLE.findall(_path(one))))
    in_path = _VARIABLE.findall(_path(chosen))
    path = _VARIABLE.sub(lambda match: quote(str(members.get(match[1], "")), safe=""), _path(chosen))
    rest = json_format.MessageToDict(request)
    for name in in_path:
        rest.pop(request.DESCRIPTOR.fields_by_name[name].json_name, None)
    verb = str(chosen.WhichOneof("pattern")).upper()
    if chosen.body:
        assert chosen.body == "*"
        return Asked(verb, path, "", rest)
    return Asked(verb, path, urlencode({name: _text(value) for name, value in rest.items()}), None)


def _path(rule: Any) -> str:
    return str(getattr(rule, rule.WhichOneof("pattern")))


def _text(value: object) -> str:
    assert isinstance(value, str | int | bool), f"{value!r} has no place in a query"
    return str(value).lower() if isinstance(value, bool) else str(value)


class RestStub:
    """Has a method for every RPC."""

    def __init__(self, session: aiohttp.ClientSession, base: str, service: ServiceDescriptor) -> None:
        self._session = session
        self._base = base
        for method in service.methods:
            setattr(self, method.name, partial(self._call, method))

    def _call(
        self, method: MethodDescriptor, request: Message, metadata: Metadata | None = None, timeout: float | None = None
    ) -> Any:
        ask = self._ask(asked(method, request), [*(metadata or ()), *deadline(timeout)], method.server_streaming)
        if method.server_streaming:
            return StreamCall(ask, _items)
        return UnaryCall(self._unary(ask, GetMessageClass(method.output_type)))

    async def _ask(self, call: Asked, metadata: Metadata, streams: bool) -> aiohttp.ClientResponse:  # noqa: FBT001
        headers = [*metadata, *([("Accept", "text/event-stream")] if streams else [])]
        address = f"{self._base}{call.path}" + (f"?{call.query}" if call.query else "")
        return await self._session.request(call.verb, URL(address, encoded=True), json=call.body, headers=headers)

    async def _unary(self, ask: Any, kind: type[Message]) -> tuple[Message, Headers]:
        response, body = await perform(ask)
        assert response.content_type in _TYPES, response.headers
        if response.status != 200:
            raise refused(response, body)
        return json_format.ParseDict(loads(body), kind()), response.headers


async def _items(response: aiohttp.ClientResponse) -> AsyncIterator[pb.StreamResponse]:
    if response.status != 200:
        assert response.content_type in _TYPES, response.headers
        raise refused(response, await response.read())
    assert_streams(response)
    found = events(response.content.iter_any())
    async for event in found:
        if event.name == "error":
            assert [more async for more in found] == []
            raise door_errors.of_rest(event.data, None, list(response.headers.items()))
        assert event.name == ""
        yield json_format.ParseDict(event.data, pb.StreamResponse())


def refused(response: aiohttp.ClientResponse, body: bytes) -> Exception:
    return door_errors.of_rest(loads(body), response.status, list(response.headers.items()))


def assert_streams(response: aiohttp.ClientResponse) -> None:
    """What every stream's head says (MEDI-04, SSEV-04)."""
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/event-stream"
    assert response.headers["Cache-Control"] == "no-cache"


def deadline(seconds: float | None) -> Metadata:
    """As gRPC writes it; what has passed already is now."""
    return [] if seconds is None else [("Grpc-Timeout", f"{max(round(seconds * 1000), 0)}m")]
