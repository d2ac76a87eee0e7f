"""The JSON-RPC 2.0 binding: `method` is the RPC's name, `params` is its request (spec: JRPC, CONF-51, CONF-52)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn, Protocol

import orjson
from aiohttp import hdrs, web
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_gateway.calls import Calls, Query, UnaryResult, query_of, read_json
from a2a_gateway.http.frames import Frames, jsonrpc_frames, jsonrpc_lines
from a2a_gateway.http.replies import Reply
from a2a_gateway.profiles import Profile
from a2a_gateway.requests.media_types import accepted_types, must_be_json, stream_type
from a2a_gateway.upstream import nothing
from a2a_server.protocol.codec import NotJson, loads
from a2a_server.protocol.errors import A2AError, Reason, Violation
from a2a_server.protocol.names import A2A_JSON, JSON, NDJSON

_HTTP_LEVEL = frozenset({401, 403, 408, 413, 417, 421, 429, 431, 503})
"""Errors of the HTTP exchange keep their HTTP status; all others are sent with 200."""

NULL = b"null"
"""The id of the answer if the request has no readable id."""
_LONGEST_NAME = 100
_LONGEST_ID = 1024  # every event of a stream repeats it
_EXACT = 2**53
"""Larger numbers with a point or an exponent may lose digits when they are read."""


class Envelope(NamedTuple):
    """A well-formed request object."""

    request_id: bytes
    """The id as JSON; empty if there is none."""
    method: str
    params: Any
    """Not checked yet."""

    def check_id(self) -> None:
        """Refuse a request without an id. This comes after the checks of method and params (CONF-51)."""
        if not self.request_id:
            wrong(Reason.INVALID_REQUEST, "id", "is required; notifications are not served")


class JsonRpcMethod(NamedTuple):
    """An RPC that is called by its name."""

    rpc: MethodDescriptor
    request: type[Message]


class OlderMethods(Protocol):
    """Serves the methods of an older version at the same URL."""

    def belongs_to(self, request: web.BaseRequest, query: str, value: object) -> bool:
        """Whether a request belongs to the older version. `value` is its body; None if that could not be read."""
        ...

    async def serve(self, request: web.BaseRequest, envelope: Envelope, query: Query) -> web.StreamResponse: ...

    def refusal(self, error: Exception, request_id: bytes) -> Reply: ...


@dataclass(frozen=True, slots=True, eq=False)
class JsonRpc:
    """Serves the methods of some services at one URL."""

    calls: Calls
    methods: Mapping[str, JsonRpcMethod]
    older: OlderMethods | None = None

    @classmethod
    def of(cls, calls: Calls, services: Iterable[ServiceDescriptor], older: OlderMethods | None = None) -> JsonRpc:
        rpcs = [rpc for service in services for rpc in service.methods]
        calls = replace(calls, door="jsonrpc")
        return cls(calls, {rpc.name: JsonRpcMethod(rpc, GetMessageClass(rpc.input_type)) for rpc in rpcs}, older)

    async def __call__(self, request: web.BaseRequest, query: str) -> web.StreamResponse:
        request_id, value = NULL, None
        try:
            value = await read(request, self.calls)
            request_id = id_of(value)
            return await self._serve(request, envelope_of(value, request_id), query)
        except Exception as error:  # noqa: BLE001 - every error has a shape
            return self._refusal(request, error, query, value, request_id)

    def refusal(self, request: web.BaseRequest, error: Exception) -> Reply:
        """Return the answer for an error that occurred before the body was read."""
        return self._refusal(request, error, request.rel_url.raw_query_string, None, NULL)

    def _refusal(
        self, request: web.BaseRequest, error: Exception, query: str, value: object, request_id: bytes
    ) -> Reply:
        if self.older is not None and self.older.belongs_to(request, query, value):
            return self.older.refusal(error, request_id)
        return refusal(self.calls.profile, error, request_id)

    async def _serve(self, request: web.BaseRequest, envelope: Envelope, query: str) -> web.StreamResponse:
        parameters, method = query_of(query), self.methods.get(envelope.method)
        if method is None:
            if self.older is not None and self.older.belongs_to(request, query, {"method": envelope.method}):  # CONF-52
                return await self.older.serve(request, envelope, parameters)
            is_old = "/" in envelope.method  # CONF-52
            what = "is a name of A2A 0.3, which is not served here; 1.0 has" if is_old else "is none of"
            unknown_method(envelope.method, what, self.methods)
        rpc = method.rpc
        message = self.calls.profile.codec.decode(envelope.params, method.request)
        envelope.check_id()
        rest = nothing() if rpc.client_streaming else None
        if rpc.server_streaming:
            form = frames_of(request, envelope.request_id)
            return await self.calls.stream(request, parameters, rpc, message, frames=form, rest=rest)
        told = await self.calls.unary(request, parameters, rpc, message, rest=rest)
        return result(envelope.request_id, told)


async def answer(
    request: web.BaseRequest, calls: Calls, serve: Callable[[Envelope], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer a request at a URL that serves one version. Errors that `serve` raises become answers."""
    request_id = NULL
    try:
        value = await read(request, calls)
        request_id = id_of(value)
        return await serve(envelope_of(value, request_id))
    except Exception as error:  # noqa: BLE001 - every error has a shape
        return refusal(calls.profile, error, request_id)


async def read(request: web.BaseRequest, calls: Calls) -> object:
    must_be_json(request.headers.get(hdrs.CONTENT_TYPE), (JSON, A2A_JSON))
    body = await read_json(request, calls)
    try:
        return loads(body, max_depth=calls.options.max_depth)
    except NotJson as error:
        wrong(Reason.PARSE_ERROR, "", error.what)


def frames_of(request: web.BaseRequest, request_id: bytes) -> Frames:
    lines = stream_type(accepted_types(request.headers)) == NDJSON
    return jsonrpc_lines(request_id) if lines else jsonrpc_frames(request_id)


def result(request_id: bytes, told: UnaryResult) -> Reply:
    return Reply(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, told.json), JSON, told.headers)


def refusal(profile: Profile, error: Exception, request_id: bytes) -> Reply:
    failure = profile.explain(error)
    text = b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (request_id or NULL, orjson.dumps(failure.jsonrpc_error()))
    http = failure.http if failure.http in _HTTP_LEVEL else 200
    return Reply(text, JSON, failure.headers, status=http)


def wrong(reason: Reason, field: str, description: str) -> NoReturn:
    violations = [Violation(field, description)] if field else []
    raise A2AError(reason, f"{field}: {description}" if field else description, violations=violations)


def unknown_method(name: str, what: str, known: Iterable[str]) -> NoReturn:
    wrong(Reason.METHOD_NOT_FOUND, "method", f'"{name[:_LONGEST_NAME]}" {what} {", ".join(known)}')


def id_of(value: object) -> bytes:
    """Return the request's id as JSON, for the response (JRPC-04); empty if there is none."""
    if isinstance(value, list):
        wrong(Reason.INVALID_REQUEST, "", "batches are not served; send one request object at a time")
    if not isinstance(value, dict):
        wrong(Reason.INVALID_REQUEST, "", "must be one request object")
    if "id" not in value:
        return b""
    found = value["id"]
    if type(found) is int:  # the usual case; at most 64 bits, because larger ones are read as floats
        return str(found).encode()
    if isinstance(found, bool) or not (found is None or isinstance(found, str | int | float)):
        wrong(Reason.INVALID_REQUEST, "id", "must be a string, a number or null")
    if isinstance(found, str) and len(found) > _LONGEST_ID:
        wrong(Reason.INVALID_REQUEST, "id", f"must have at most {_LONGEST_ID} characters, got {len(found)}")
    if isinstance(found, float) and not -_EXACT < found < _EXACT:
        wrong(Reason.INVALID_REQUEST, "id", "must be a string, a whole number of at most 64 bits, or one below 2^53")
    return bytes(memoryview(orjson.dumps(found)))  # a copy, because streams keep it, and orjson's result takes 4 KiB


def envelope_of(value: object, request_id: bytes) -> Envelope:
    """Check a request object against JSON-RPC 2.0."""
    assert isinstance(value, dict)  # noqa: S101 - id_of has checked it
    if value.get("jsonrpc") != "2.0":
        wrong(Reason.INVALID_REQUEST, "jsonrpc", 'must be "2.0"')
    method = value.get("method")
    if not isinstance(method, str):
        wrong(Reason.INVALID_REQUEST, "method", "must be a string, such as SendMessage")
    params = value.get("params")
    if params is None:  # in ProtoJSON null means the same as a missing member (JSON-03)
        params = {}
    if not isinstance(params, dict):
        wrong(Reason.INVALID_PARAMS, "params", "must be an object: parameters go by name")
    return Envelope(request_id, method, params)
