"""A client of the JSON-RPC binding with the shape of a gRPC stub: the method's name is the RPC's."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import aiohttp
from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_proto import a2a_pb2 as pb
from tests.support import door_errors
from tests.support.door_calls import Headers, StreamCall, UnaryCall, perform
from tests.support.door_events import events, loads
from tests.support.door_rest import assert_streams, deadline

Metadata = Sequence[tuple[str, str]]

_FIRST_ID = 1_000_000_000
_OWN_STATUS = {200, 401, 403, 413, 429, 503}
_TOO_LARGE = 413  # what was not read has no id


class JsonRpcStub:
    """Has a method for every RPC. Requests bear ids of different types, and answers must repeat them."""

    def __init__(self, session: aiohttp.ClientSession, url: str, service: ServiceDescriptor) -> None:
        self._session = session
        self._url = url
        self._numbers = itertools.count()
        for method in service.methods:
            setattr(self, method.name, partial(self._call, method))

    def _call(
        self, method: MethodDescriptor, request: Message, metadata: Metadata | None = None, timeout: float | None = None
    ) -> Any:
        request_id = self._next_id()
        call = {"jsonrpc": "2.0", "id": request_id, "method": method.name, "params": json_format.MessageToDict(request)}
        headers = [*(metadata or ()), *deadline(timeout)]
        if method.server_streaming:
            ask = self._ask(call, [*headers, ("Accept", "text/event-stream")])
            return StreamCall(ask, partial(_items, request_id))
        return UnaryCall(self._unary(self._ask(call, headers), request_id, GetMessageClass(method.output_type)))

    def _next_id(self) -> str | int:
        """Now a number, now a string, all of one length: tests compare the lengths of answers."""
        number = next(self._numbers)
        return _FIRST_ID + number if number % 2 else f"q-{number:06}"

    async def _ask(self, call: Any, headers: Metadata) -> aiohttp.ClientResponse:
        return await self._session.post(self._url, json=call, headers=headers)

    async def _unary(self, ask: Any, request_id: object, kind: type[Message]) -> tuple[Message, Headers]:
        response, body = await perform(ask)
        return json_format.ParseDict(_result(response, body, request_id), kind()), response.headers


def _result(response: aiohttp.ClientResponse, body: bytes, request_id: object) -> Any:
    assert response.headers["Content-Type"] == "application/json", response.headers
    assert response.status in _OWN_STATUS
    answer = _told(loads(body), None if response.status == _TOO_LARGE else request_id)
    if "error" in answer:
        raise door_errors.of_jsonrpc(answer["error"], list(response.headers.items()))
    assert response.status == 200
    return answer["result"]


def _told(answer: Any, request_id: object) -> Any:
    """A response object of JSON-RPC 2.0, to this very request (JRPC-04, JRPC-05)."""
    assert set(answer) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}), answer
    assert answer["jsonrpc"] == "2.0"
    assert (type(answer["id"]), answer["id"]) == (type(request_id), request_id)
    return answer


async def _items(request_id: object, response: aiohttp.ClientResponse) -> AsyncIterator[pb.StreamResponse]:
    if response.content_type != "text/event-stream":
        result = _result(response, await response.read(), request_id)
        raise AssertionError(f"a stream was answered with {result}")
    assert_streams(response)
    found = events(response.content.iter_any())
    async for event in found:
        answer = _told(event.data, request_id)
        if "error" in answer:
            assert event.name == "error"
            assert [more async for more in found] == []
            raise door_errors.of_jsonrpc(answer["error"], list(response.headers.items()))
        assert event.name == ""
        yield json_format.ParseDict(answer["result"], pb.StreamResponse())
