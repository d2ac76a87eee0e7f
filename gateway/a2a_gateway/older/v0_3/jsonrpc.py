"""JSON-RPC of 0.3: ten methods at the URL of 1.0, recognised by the slash in their names (LRPC, LOLD-03, CONF-52)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from aiohttp import web
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from a2a_gateway import jsonrpc
from a2a_gateway.calls import Query, query_of, versions_asked
from a2a_gateway.http.replies import Reply
from a2a_gateway.jsonrpc import Envelope, frames_of
from a2a_gateway.older.v0_3.answers import RPCS, OldCall, OldCallsPair, schemes_of, without_tenant
from a2a_gateway.requests.media_types import accepted_types
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.names import JSON, SSE

_CONFIG: Final = "tasks/pushNotificationConfig"
_CARD: Final = "agent/getAuthenticatedExtendedCard"


METHODS: Final[Mapping[str, MethodDescriptor]] = MappingProxyType(
    {
        "message/send": RPCS["SendMessage"],
        "message/stream": RPCS["SendStreamingMessage"],
        "tasks/get": RPCS["GetTask"],
        "tasks/cancel": RPCS["CancelTask"],
        "tasks/resubscribe": RPCS["SubscribeToTask"],
        f"{_CONFIG}/set": RPCS["CreateTaskPushNotificationConfig"],
        f"{_CONFIG}/get": RPCS["GetTaskPushNotificationConfig"],
        f"{_CONFIG}/list": RPCS["ListTaskPushNotificationConfigs"],
        f"{_CONFIG}/delete": RPCS["DeleteTaskPushNotificationConfig"],
        _CARD: RPCS["GetExtendedAgentCard"],
    }
)
"""The RPC of 1.0 for each method."""
ALIASES: Final = MappingProxyType({"agent/authenticatedExtendedCard": METHODS[_CARD]})
"""Other names that the text of 0.3 uses for these methods (LOLD-03)."""

_KNOWN: Final = MappingProxyType({**METHODS, **ALIASES})


@dataclass(frozen=True, slots=True, eq=False)
class OldJsonRpc:
    """Serves the methods of 0.3."""

    pair: OldCallsPair

    async def __call__(self, request: web.BaseRequest, query: str, tenant: str = "") -> web.StreamResponse:
        """Serve a request at a URL that only serves 0.3."""

        async def serve(envelope: Envelope) -> web.StreamResponse:
            return await self.serve(request, envelope, query_of(query), tenant)

        return await jsonrpc.answer(request, self.pair.plain.calls, serve)

    def belongs_to(self, request: web.BaseRequest, query: str, value: object) -> bool:
        """Decide by the method's name, or by the client's version if the name is unknown or cannot be read."""
        name = value.get("method") if isinstance(value, dict) else None
        if isinstance(name, str) and ("/" in name or name in RPCS):
            return "/" in name
        try:
            asked = versions_asked(request, query_of(query))
        except A2AError:  # the query cannot be read
            return False
        return any(said.strip().startswith("0.3") for said in asked)

    async def serve(
        self, request: web.BaseRequest, envelope: Envelope, query: Query, tenant: str = ""
    ) -> web.StreamResponse:
        method = _KNOWN.get(envelope.method)
        if method is None:
            jsonrpc.unknown_method(envelope.method, "is none of those of A2A 0.3:", METHODS)
        try:
            return await self._call(method, request, envelope, query, tenant)
        except Exception as error:
            if method.server_streaming and _reads_only_streams(request):
                return _as_event(self.refusal(error, envelope.request_id))
            raise

    async def _call(
        self, method: MethodDescriptor, request: web.BaseRequest, envelope: Envelope, query: Query, tenant: str
    ) -> web.StreamResponse:
        profile = self.pair.plain.calls.profile
        if asked := versions_asked(request, query):
            profile.check(asked)
        if query:
            without_tenant(query, tenant)
        message: Any = profile.codec.decode(envelope.params, GetMessageClass(method.input_type))
        envelope.check_id()
        if tenant:
            message.tenant = tenant
        old_calls = self.pair.of(request, message, envelope.params)
        call = OldCall(request, query, method, message, schemes_of(method.name, envelope.params))
        if method.server_streaming:
            return await old_calls.stream(call, frames_of(request, envelope.request_id))
        return jsonrpc.result(envelope.request_id, await old_calls.answer(call))

    def refusal(self, error: Exception, request_id: bytes) -> Reply:
        return jsonrpc.refusal(self.pair.plain.calls.profile, error, request_id)


def _reads_only_streams(request: web.BaseRequest) -> bool:
    """Whether the client reads an error only as an event, like all official clients of 0.3. Some also accept */*."""
    asked = accepted_types(request.headers) or ""
    return SSE in asked and JSON not in asked


def _as_event(reply: Reply) -> Reply:
    """Turn an answer into a stream with one event."""
    if reply.status != HTTPStatus.OK:  # these clients do read the status
        return reply
    assert isinstance(reply.body, bytes)  # noqa: S101 - every Reply is made with bytes
    reply.body, reply.content_type = b"data: %b\n\n" % reply.body, SSE
    return reply
