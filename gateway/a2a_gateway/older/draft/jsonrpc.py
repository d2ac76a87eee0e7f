"""JSON-RPC of the draft: the RPCs of 1.0, two of them under their older names (spec: DRFT-06, CONF-05, CONF-31)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from aiohttp import web
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from a2a_gateway import jsonrpc
from a2a_gateway.calls import query_of, versions_asked
from a2a_gateway.http.replies import Reply
from a2a_gateway.jsonrpc import Envelope, envelope_of, frames_of, id_of, wrong
from a2a_gateway.older.draft.requests import A2A, of_value
from a2a_gateway.older.v0_3.answers import Ask, Speech
from a2a_server.protocol.errors import Reason
from a2a_server.protocol.names import JSON

_NAMES: Final = {
    "CreateTaskPushNotificationConfig": "SetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs": "ListTaskPushNotificationConfig",
}
METHODS: Final[Mapping[str, MethodDescriptor]] = MappingProxyType(
    {_NAMES.get(method.name, method.name): method for method in A2A.methods}
)
_LONGEST_NAME: Final = 100


@dataclass(frozen=True, slots=True, eq=False)
class DraftJsonRpc:
    """Serves the methods of the draft."""

    speech: Speech

    async def __call__(self, request: web.BaseRequest, query: str) -> web.StreamResponse:
        request_id = jsonrpc.NULL
        try:
            value = await jsonrpc.read(request, self.speech.calls.options)
            request_id = id_of(value)
            return await self._serve(request, envelope_of(value, request_id), query)
        except Exception as error:  # noqa: BLE001 - every error has a shape
            return jsonrpc.refusal(self.speech.calls.profile, error, request_id)

    async def _serve(self, request: web.BaseRequest, envelope: Envelope, query: str) -> web.StreamResponse:
        method = METHODS.get(envelope.method)
        if method is None:
            name = envelope.method[:_LONGEST_NAME]
            wrong(Reason.METHOD_NOT_FOUND, "method", f'"{name}" is none of those of the draft: {", ".join(METHODS)}')
        profile, parameters = self.speech.calls.profile, query_of(query)
        profile.check(versions_asked(request, parameters))
        message: Any = profile.codec.decode(envelope.params, GetMessageClass(method.input_type))
        ask = Ask(request, parameters, method, *of_value(method.name, envelope.params, message))
        if method.server_streaming:
            return await self.speech.stream(ask, frames_of(request, envelope.request_id))
        told = await self.speech.answer(ask)
        text = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (envelope.request_id, told.json)
        return Reply(text, JSON, told.headers)
