"""REST of 0.3: under /v1, in two spellings of JSON, answered in the one that was used (LRES, CONF-27, CONF-50)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import hdrs, web
from google.protobuf.message_factory import GetMessageClass

from a2a_gateway import rest
from a2a_gateway.calls import Calls, Query, Told, query_of, versions_asked
from a2a_gateway.http import frames
from a2a_gateway.http.replies import HeaderPairs, Reply
from a2a_gateway.older.v0_3.answers import RPCS, Ask, Speech, Speeches, schemes_of, without_tenant
from a2a_gateway.older.v0_3.requests import OldRequest, OldSpelling, request_of
from a2a_gateway.requests.headers import accepted_types, stream_type
from a2a_gateway.routing.annotations import Route
from a2a_gateway.routing.table import Table
from a2a_gateway.routing.template import parse
from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.names import NDJSON

_SERVICE: Final = v03.DESCRIPTOR.services_by_name["A2AService"]
_CREATE: Final = _SERVICE.methods_by_name["CreateTaskPushNotificationConfig"]

PREFIX: Final = "/v1/"

MORE: Final = (
    # 0.3.0's own annotation misspells the path that its table has right.
    Route("POST", parse("/v1/{parent=task/*/pushNotificationConfigs}"), "config", "", _CREATE),
    # Of the table that compares the transports: no RPC of 0.3 lists tasks.
    Route("GET", parse("/v1/tasks"), "", "", RPCS["ListTasks"]),
)
"""The verb POST of `…:subscribe` is the third: an alias that all versions share."""


@dataclass(frozen=True, slots=True, eq=False)
class OldRest:
    """Serves every route of the table, in any spelling."""

    speeches: Mapping[OldSpelling, Speeches]
    default: OldSpelling
    """The spelling of answers to requests that have none themselves."""
    table: Table

    async def __call__(self, request: web.BaseRequest, query: str, path: str, tenant: str = "") -> web.StreamResponse:
        """Serve a call; what is wrong with it is raised, and `refusal` says it."""
        match, calls = self.table.match(request.method, path), self._calls
        parameters = without_tenant(query_of(query), tenant)
        calls.profile.check(versions_asked(request, parameters))
        accepted = accepted_types(request.headers)
        body = await rest.body_of(request, match.route, calls)
        wanted = request_of(match, path, parameters, body, calls.options.max_depth)
        streams = wanted.rpc.server_streaming
        kind = (stream_type if streams else calls.profile.unary)(accepted)
        speeches = self.speeches[wanted.spelling or self.default]
        message = _message(speeches.plain, wanted, tenant)
        speech = speeches.of(request, message, wanted.value)
        beside = schemes_of(wanted.rpc.name, wanted.value)
        ask = Ask(request, parameters, wanted.rpc, message, beside, wanted.path)
        if streams:
            return await speech.stream(ask, frames.LINES if kind == NDJSON else frames.REST)
        told = await speech.answer(ask)
        return Reply(told.json, kind, [*told.headers, *_next_page(told, parameters)])

    def refusal(self, request: web.BaseRequest, error: Exception) -> Reply:
        return rest.refusal(self._calls.profile, request, error)

    @property
    def _calls(self) -> Calls:
        """What does not depend on the spelling."""
        return self.speeches[self.default].plain.calls


def _message(speech: Speech, wanted: OldRequest, tenant: str) -> Any:  # noqa: ANN401 - a request of any type
    message: Any = speech.calls.profile.codec.decode(wanted.value, GetMessageClass(wanted.rpc.input_type))
    if tenant:
        message.tenant = tenant
    return message


def _next_page(told: Told, query: Query) -> HeaderPairs:
    """The array of tasks has no place for a token (LRES-08)."""
    if not isinstance(told.message, pb.ListTasksResponse) or not told.message.next_page_token:
        return ()
    kept = [(name, value) for name, value in query if name not in {"pageToken", "page_token"}]
    return ((hdrs.LINK, f'<?{urlencode([*kept, ("pageToken", told.message.next_page_token)])}>; rel="next"'),)


def routes() -> Table:
    """The annotations of 0.3's proto, and three lines that only its prose has."""
    return Table.of([_SERVICE], more=MORE)
