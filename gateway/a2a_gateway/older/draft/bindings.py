"""REST and JSON-RPC of the draft: requests of 1.0 in names of its own (DRFT-01 to DRFT-04, -06; CONF-05, -31, -38).

1. REST's path and query are in the names of 1.0, the body in the draft's own. All that is said twice must be the same
   (TENA-03). JSON-RPC has the RPCs of 1.0, two of them under their older names.
2. `answers` makes the call.
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
from a2a_gateway.older.v0_3.answers import CREATE, Ask, Speech, schemes_of
from a2a_gateway.older.v0_3.requests import check_new_id, parsed
from a2a_gateway.requests import binding
from a2a_gateway.requests.binding import merge
from a2a_gateway.requests.headers import accepted_types, stream_type
from a2a_gateway.routing.table import Match, Table
from a2a_proto import a2a_pb2, discovery_pb2
from a2a_server.protocol.codec import Codec, JsonText
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.names import NDJSON
from a2a_server.protocol.spellings import snake
from a2a_server.protocol.v0_3.configs import JsonObject
from a2a_server.protocol.v0_3.words import Words, config_renames, renamed

A2A: Final = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
DISCOVERY: Final = discovery_pb2.DESCRIPTOR.services_by_name["Discovery"]

CONFIG: Final[Words] = partial(renamed, rules=config_renames("", task_id="name", id="push_notification_config.id"))
"""What the fields of a config are called, by itself."""
_INNER_CONFIG: Final[Words] = partial(
    renamed, rules=config_renames("config.", task_id="parent", id="config.push_notification_config.id")
)
"""The same where it stands in a member of the request."""

_ID: Final = "configId"
_IN_QUERY: Final[Mapping[str, str]] = MappingProxyType({_ID: "id", "config_id": "id", "tenant": "tenant"})
"""What the query may say beside a body, and the members of 1.0 that this is."""
_AFTER: Final = "lastUpdatedAfter"
_AFTERS: Final = frozenset({_AFTER, "last_updated_after"})


def request_of(match: Match, query: Query, body: JsonText, codec: Codec, max_depth: int) -> tuple[Any, JsonObject]:
    """Return a request of 1.0, and the body as JSON; raise one `A2AError` that names what is wrong with it."""
    if not match.route.body:
        return _of_url(match, query, codec), {}
    name, kind = match.route.method.name, GetMessageClass(match.route.method.input_type)
    known = [(_IN_QUERY[name], text) for name, text in query if name in _IN_QUERY]
    said = _said(match, known, {"id": _ID})
    if name == CREATE:
        check_new_id(said.get("id"), _ID)
    url: Any = V1.decode(said, kind)
    value: Any = parsed(body, max_depth) if body else {}
    message = codec.decode(value, kind)
    if faults := [*merge(message, url)]:  # a member of the body that the URL contradicts is named as in the body
        called = (lambda field: json_path(CONFIG(snake(field)))) if name == CREATE else str
        refuse([Violation(called(fault.field), fault.description) for fault in faults])
    return message, value


def words_of(rpc: str, value: JsonObject) -> Words | None:
    """What the fields of a request are called, where that depends on its JSON, be that a body or `params`."""
    return _INNER_CONFIG if rpc == CREATE and value.get("config") else None


def _of_url(match: Match, query: Query, codec: Codec) -> Message:
    said = _said(match, query)
    if times := [text for name, text in query if name in _AFTERS and match.route.method.name == "ListTasks"]:
        if len(times) > 1:
            refuse([Violation(_AFTER, f"is given {len(times)} times and takes one value")])
        said[_AFTER] = times[0]
    return codec.decode(said, GetMessageClass(match.route.method.input_type))


def _said(match: Match, query: Query, names: Mapping[str, str] = MappingProxyType({})) -> dict[str, object]:
    """What the URL says; `names` are those that the query has for members."""
    faults: list[Violation] = []
    said = binding.url_values(match, query, faults)
    if faults:
        refuse([Violation(names.get(fault.field, fault.field), fault.description) for fault in faults])
    return said


# -- REST


@dataclass(frozen=True, slots=True, eq=False)
class DraftRest:
    """Serves every route of the table."""

    speech: Speech
    table: Table

    async def __call__(self, request: web.BaseRequest, query: str, path: str) -> web.StreamResponse:
        """Serve a call; what is wrong with it is raised, and `refusal` says it."""
        match, parameters, calls = self.table.match(request.method, path), query_of(query), self.speech.calls
        method, profile = match.route.method, calls.profile
        profile.check(versions_asked(request, parameters))
        public, streams = method.containing_service is DISCOVERY, method.server_streaming
        kind = (stream_type if streams else profile.unary)(None if public else accepted_types(request.headers))
        body = await rest.body_of(request, match.route, calls)
        message, value = request_of(match, parameters, body, profile.codec, calls.options.max_depth)
        ask = Ask(request, parameters, method, message, schemes_of(method.name, value), words_of(method.name, value))
        if streams:
            return await self.speech.stream(ask, frames.LINES if kind == NDJSON else frames.REST)
        told = await self.speech.answer(ask)
        if public:
            assert isinstance(told.message, a2a_pb2.AgentCard)  # noqa: S101 - all that can be discovered
            return calls.cards.answer(request, told.message, told.json, told.headers)
        done = isinstance(told.message, Empty)
        return Reply(told.json, kind, told.headers, status=HTTPStatus.NO_CONTENT if done else HTTPStatus.OK)

    def refusal(self, request: web.BaseRequest, error: Exception) -> Reply:
        return rest.refusal(self.speech.calls.profile, request, error)


# -- JSON-RPC

_NAMES: Final = {
    "CreateTaskPushNotificationConfig": "SetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs": "ListTaskPushNotificationConfig",
}
METHODS: Final[Mapping[str, MethodDescriptor]] = MappingProxyType(
    {_NAMES.get(method.name, method.name): method for method in A2A.methods}
)


@dataclass(frozen=True, slots=True, eq=False)
class DraftJsonRpc:
    """Serves the methods of the draft."""

    speech: Speech

    async def __call__(self, request: web.BaseRequest, query: str) -> web.StreamResponse:
        return await jsonrpc.answer(request, self.speech.calls, partial(self._serve, request, query))

    def refusal(self, error: Exception, request_id: bytes) -> Reply:
        return jsonrpc.refusal(self.speech.calls.profile, error, request_id)

    async def _serve(self, request: web.BaseRequest, query: str, envelope: Envelope) -> web.StreamResponse:
        method = METHODS.get(envelope.method)
        if method is None:
            jsonrpc.unknown_method(envelope.method, "is none of those of the draft:", METHODS)
        profile, parameters = self.speech.calls.profile, query_of(query)
        profile.check(versions_asked(request, parameters))
        rpc, value = method.name, envelope.params
        message: Any = profile.codec.decode(value, GetMessageClass(method.input_type))
        envelope.check_id()
        ask = Ask(request, parameters, method, message, schemes_of(rpc, value), words_of(rpc, value))
        if method.server_streaming:
            return await self.speech.stream(ask, frames_of(request, envelope.request_id))
        return jsonrpc.result(envelope.request_id, await self.speech.answer(ask))
