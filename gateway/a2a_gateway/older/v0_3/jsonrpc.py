"""JSON-RPC of 0.3: ten methods on the URL of 1.0, told apart by the slash in their names (LRPC, LOLD-03, CONF-52)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from aiohttp import web
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_gateway import jsonrpc
from a2a_gateway.calls import NOTHING, Beside, Query, query_of, versions_asked
from a2a_gateway.http.replies import Reply
from a2a_gateway.jsonrpc import Envelope, envelope_of, frames_of, id_of, wrong
from a2a_gateway.older.v0_3.answers import RPCS, Ask, Speeches, schemes_of_config, schemes_of_send, without_tenant
from a2a_gateway.requests.headers import accepted_types
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import JSON, SSE

_CONFIG: Final = "tasks/pushNotificationConfig"
_CARD: Final = "agent/getAuthenticatedExtendedCard"
_LONGEST_NAME: Final = 100


class Method(NamedTuple):
    """A method, as an RPC of 1.0."""

    rpc: MethodDescriptor
    request: type[Message]
    beside: Callable[[Any], Beside]
    """What its params say that the RPC's request has no room for."""


def _method(name: str, beside: Callable[[Any], Beside] = lambda _: NOTHING) -> Method:
    rpc = RPCS[name]
    return Method(rpc, GetMessageClass(rpc.input_type), beside)


METHODS: Final[Mapping[str, Method]] = MappingProxyType(
    {
        "message/send": _method("SendMessage", schemes_of_send),
        "message/stream": _method("SendStreamingMessage", schemes_of_send),
        "tasks/get": _method("GetTask"),
        "tasks/cancel": _method("CancelTask"),
        "tasks/resubscribe": _method("SubscribeToTask"),
        f"{_CONFIG}/set": _method("CreateTaskPushNotificationConfig", schemes_of_config),
        f"{_CONFIG}/get": _method("GetTaskPushNotificationConfig"),
        f"{_CONFIG}/list": _method("ListTaskPushNotificationConfigs"),
        f"{_CONFIG}/delete": _method("DeleteTaskPushNotificationConfig"),
        _CARD: _method("GetExtendedAgentCard"),
    }
)
ALIASES: Final = MappingProxyType({"agent/authenticatedExtendedCard": METHODS[_CARD]})
"""Names that 0.3 has for the same in its prose (LOLD-03)."""

_KNOWN: Final = MappingProxyType({**METHODS, **ALIASES})


@dataclass(frozen=True, slots=True, eq=False)
class OldJsonRpc:
    """Serves the methods of 0.3."""

    speeches: Speeches

    async def __call__(self, request: web.BaseRequest, query: str, tenant: str = "") -> web.StreamResponse:
        """Serve a request at a URL where nothing but 0.3 is spoken."""
        request_id = jsonrpc.NULL
        try:
            value = await jsonrpc.read(request, self.speeches.plain.calls.options)
            request_id = id_of(value)
            return await self.serve(request, envelope_of(value, request_id), query_of(query), tenant)
        except Exception as error:  # noqa: BLE001 - every error has a shape
            return self.refusal(error, request_id)

    def means(self, request: web.BaseRequest, query: str, value: object) -> bool:
        """By the method's name; where that is nobody's, or cannot be read, by the version that the client says."""
        name = value.get("method") if isinstance(value, dict) else None
        if isinstance(name, str) and ("/" in name or name in RPCS):
            return "/" in name
        try:
            asked = versions_asked(request, query_of(query))
        except A2AError:  # which says that the query is none
            return False
        return any(said.strip().startswith("0.3") for said in asked)

    async def serve(
        self, request: web.BaseRequest, envelope: Envelope, query: Query, tenant: str = ""
    ) -> web.StreamResponse:
        method = _KNOWN.get(envelope.method)
        if method is None:
            name = envelope.method[:_LONGEST_NAME]
            wrong(Reason.METHOD_NOT_FOUND, "method", f'"{name}" is none of those of A2A 0.3: {", ".join(METHODS)}')
        try:
            return await self._call(method, request, envelope, query, tenant)
        except Exception as error:
            if method.rpc.server_streaming and _reads_streams_alone(request):
                return _framed(self.refusal(error, envelope.request_id))
            raise

    async def _call(
        self, method: Method, request: web.BaseRequest, envelope: Envelope, query: Query, tenant: str
    ) -> web.StreamResponse:
        profile = self.speeches.plain.calls.profile
        if asked := versions_asked(request, query):
            profile.check(asked)
        if query:
            without_tenant(query, tenant)
        message: Any = profile.codec.decode(envelope.params, method.request)
        if tenant:
            message.tenant = tenant
        speech = self.speeches.of(request, message, envelope.params)
        ask = Ask(request, query, method.rpc, message, method.beside(envelope.params))
        if method.rpc.server_streaming:
            return await speech.stream(ask, frames_of(request, envelope.request_id))
        told = await speech.answer(ask)
        return jsonrpc.result(envelope.request_id, told)

    def refusal(self, error: Exception, request_id: bytes) -> Reply:
        return jsonrpc.refusal(self.speeches.plain.calls.profile, error, request_id)


def _reads_streams_alone(request: web.BaseRequest) -> bool:
    """As all official clients of 0.3, which make nothing of JSON here. Some say that they take anything, besides."""
    asked = accepted_types(request.headers) or ""
    return SSE in asked and JSON not in asked


def _framed(reply: Reply) -> Reply:
    """The same as the one frame of a stream."""
    if reply.status != HTTPStatus.OK:  # which they do look at
        return reply
    assert isinstance(reply.body, bytes)  # noqa: S101 - as replies are made
    reply.body, reply.content_type = b"data: %b\n\n" % reply.body, SSE
    return reply
