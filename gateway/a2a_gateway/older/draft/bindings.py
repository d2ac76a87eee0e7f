"""REST and JSON-RPC of the draft (spec: DRFT-01 to DRFT-04, -06; CONF-05, -31, -38).

In REST the path and the query use the field names of 1.0, and the body those of the draft. A field that occurs twice
must have the same value (TENA-03). JSON-RPC has the RPCs of 1.0, two of them under older names. `v0_3/answers.py` makes
the calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from aiohttp import web
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_gateway import jsonrpc, rest
from a2a_gateway.calls import Query, query_of, versions_asked
from a2a_gateway.errors import json_path
from a2a_gateway.http import frames
from a2a_gateway.http.replies import Reply
from a2a_gateway.jsonrpc import Envelope, frames_of
from a2a_gateway.older.v0_3.answers import CREATE, OldCall, OldCalls, schemes_of
from a2a_gateway.older.v0_3.requests import check_new_id, parsed
from a2a_gateway.requests import binding
from a2a_gateway.requests.binding import merge
from a2a_gateway.requests.media_types import accepted_types, stream_type
from a2a_gateway.routing.table import Match, Table
from a2a_proto import a2a_pb2, discovery_pb2
from a2a_server.protocol.codec import Codec, JsonText
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.names import NDJSON
from a2a_server.protocol.spellings import snake
from a2a_server.protocol.v0_3.configs import JsonObject
from a2a_server.protocol.v0_3.error_words import Words, config_renames, renamed

A2A: Final = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
DISCOVERY: Final = discovery_pb2.DESCRIPTOR.services_by_name["Discovery"]

CONFIG: Final[Words] = partial(renamed, rules=config_renames("", task_id="name", id="push_notification_config.id"))
"""Renames the fields of a push config that is the whole request."""
_INNER_CONFIG: Final[Words] = partial(
    renamed, rules=config_renames("config.", task_id="parent", id="config.push_notification_config.id")
)
"""Renames the fields of a push config that is in the member `config` of the request."""

_ID: Final = "configId"
_IN_QUERY: Final[Mapping[str, str]] = MappingProxyType({_ID: "id", "config_id": "id", "tenant": "tenant"})
"""The fields that a query may give in addition to a body, with their names in 1.0."""
_AFTER: Final = "lastUpdatedAfter"
_AFTERS: Final = frozenset({_AFTER, "last_updated_after"})


def request_of(match: Match, query: Query, body: JsonText, codec: Codec, max_depth: int) -> tuple[Any, JsonObject]:
    """Return a request of 1.0, and the body as JSON; raise one `A2AError` that names all faults."""
    if not match.route.body:
        return _of_url(match, query, codec), {}
    name, kind = match.route.method.name, GetMessageClass(match.route.method.input_type)
    known = [(_IN_QUERY[name], text) for name, text in query if name in _IN_QUERY]
    said = _url_values(match, known, {"id": _ID})
    if name == CREATE:
        check_new_id(said.get("id"), _ID)
    url: Any = V1.decode(said, kind)
    value: Any = parsed(body, max_depth) if body else {}
    message = codec.decode(value, kind)
    if faults := [*merge(message, url)]:  # the body differs from the URL; fields are named as in the body
        called = (lambda field: json_path(CONFIG(snake(field)))) if name == CREATE else str
        refuse([Violation(called(fault.field), fault.description) for fault in faults])
    return message, value


def field_names_of(rpc: str, value: JsonObject) -> Words | None:
    """Return how fields of a request are renamed, if that depends on its JSON (a body or `params`)."""
    return _INNER_CONFIG if rpc == CREATE and value.get("config") else None


def _of_url(match: Match, query: Query, codec: Codec) -> Message:
    said = _url_values(match, query)
    if times := [text for name, text in query if name in _AFTERS and match.route.method.name == "ListTasks"]:
        if len(times) > 1:
            refuse([Violation(_AFTER, f"is given {len(times)} times and takes one value")])
        said[_AFTER] = times[0]
    return codec.decode(said, GetMessageClass(match.route.method.input_type))


def _url_values(match: Match, query: Query, names: Mapping[str, str] = MappingProxyType({})) -> dict[str, object]:
    """Return the fields of the URL as JSON; `names` are the query's names for members, for error messages."""
    faults: list[Violation] = []
    said = binding.url_values(match, query, faults)
    if faults:
        refuse([Violation(names.get(fault.field, fault.field), fault.description) for fault in faults])
    return said


# -- REST


@dataclass(frozen=True, slots=True, eq=False)
class DraftRest:
    """Serves the REST routes of the draft."""

    old_calls: OldCalls
    table: Table

    async def __call__(self, request: web.BaseRequest, query: str, path: str) -> web.StreamResponse:
        """Serve a call. Errors are raised; `refusal` turns them into answers."""
        match, parameters, calls = self.table.match(request.method, path), query_of(query), self.old_calls.calls
        method, profile = match.route.method, calls.profile
        profile.check(versions_asked(request, parameters))
        public, streams = method.containing_service is DISCOVERY, method.server_streaming
        kind = (stream_type if streams else profile.unary)(None if public else accepted_types(request.headers))
        body = await rest.body_of(request, match.route, calls)
        message, value = request_of(match, parameters, body, profile.codec, calls.options.max_depth)
        call = OldCall(
            request, parameters, method, message, schemes_of(method.name, value), field_names_of(method.name, value)
        )
        if streams:
            return await self.old_calls.stream(call, frames.LINES if kind == NDJSON else frames.REST)
        told = await self.old_calls.answer(call)
        if public:
            assert isinstance(told.message, a2a_pb2.AgentCard)  # noqa: S101 - the only public answer
            return calls.cards.answer(request, told.message, told.json, told.headers)
        done = isinstance(told.message, Empty)
        return Reply(told.json, kind, told.headers, status=HTTPStatus.NO_CONTENT if done else HTTPStatus.OK)

    def refusal(self, request: web.BaseRequest, error: Exception) -> Reply:
        return rest.refusal(self.old_calls.calls.profile, request, error)


# -- JSON-RPC

_NAMES: Final = {
    "CreateTaskPushNotificationConfig": "SetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs": "ListTaskPushNotificationConfig",
}
METHODS: Final[Mapping[str, MethodDescriptor]] = MappingProxyType(
    {_NAMES.get(method.name, method.name): method for method in A2A.methods if not method.client_streaming}
)


@dataclass(frozen=True, slots=True, eq=False)
class DraftJsonRpc:
    """Serves the JSON-RPC methods of the draft."""

    old_calls: OldCalls

    async def __call__(self, request: web.BaseRequest, query: str) -> web.StreamResponse:
        return await jsonrpc.answer(request, self.old_calls.calls, partial(self._serve, request, query))

    def refusal(self, error: Exception, request_id: bytes) -> Reply:
        return jsonrpc.refusal(self.old_calls.calls.profile, error, request_id)

    async def _serve(self, request: web.BaseRequest, query: str, envelope: Envelope) -> web.StreamResponse:
        method = METHODS.get(envelope.method)
        if method is None:
            jsonrpc.unknown_method(envelope.method, "is none of those of the draft:", METHODS)
        profile, parameters = self.old_calls.calls.profile, query_of(query)
        profile.check(versions_asked(request, parameters))
        rpc, value = method.name, envelope.params
        message: Any = profile.codec.decode(value, GetMessageClass(method.input_type))
        envelope.check_id()
        call = OldCall(request, parameters, method, message, schemes_of(rpc, value), field_names_of(rpc, value))
        if method.server_streaming:
            return await self.old_calls.stream(call, frames_of(request, envelope.request_id))
        return jsonrpc.result(envelope.request_id, await self.old_calls.answer(call))
