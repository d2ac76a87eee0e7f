"""REST of 0.3 under /v1. It answers in the spelling of JSON that the request uses (spec: LRES, CONF-27, CONF-50)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import hdrs, web
from google.protobuf.message_factory import GetMessageClass

from a2a_gateway import rest
from a2a_gateway.calls import Calls, Query, UnaryResult, query_of, versions_asked
from a2a_gateway.http import frames
from a2a_gateway.http.replies import HeaderPairs, Reply
from a2a_gateway.older.v0_3.answers import RPCS, OldCall, OldCalls, OldCallsPair, schemes_of, without_tenant
from a2a_gateway.older.v0_3.requests import OldRequest, OldSpelling, request_of
from a2a_gateway.requests.media_types import accepted_types, stream_type
from a2a_gateway.routing.annotations import Route
from a2a_gateway.routing.table import Table
from a2a_gateway.routing.template import parse
from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.names import NDJSON

_SERVICE: Final = v03.DESCRIPTOR.services_by_name["A2AService"]
_CREATE: Final = _SERVICE.methods_by_name["CreateTaskPushNotificationConfig"]

PREFIX: Final = "/v1/"

UNANNOTATED: Final = (
    # The annotation in 0.3.0 misspells this path; the specification's table has it right.
    Route("POST", parse("/v1/{parent=task/*/pushNotificationConfigs}"), "config", "", _CREATE),
    # From the table that compares the transports. 0.3 has no RPC that lists tasks.
    Route("GET", parse("/v1/tasks"), "", "", RPCS["ListTasks"]),
)
"""Routes that only the text of 0.3 has. The POST of `…:subscribe` is not here: it is an alias in all versions."""


@dataclass(frozen=True, slots=True, eq=False)
class OldRest:
    """Serves the REST routes of 0.3, in both spellings."""

    by_spelling: Mapping[OldSpelling, OldCallsPair]
    default: OldSpelling
    """The spelling of the answer if the request has none."""
    table: Table

    async def __call__(self, request: web.BaseRequest, query: str, path: str, tenant: str = "") -> web.StreamResponse:
        """Serve a call. Errors are raised; `refusal` turns them into answers."""
        match, calls = self.table.match(request.method, path), self._calls
        parameters = without_tenant(query_of(query), tenant)
        calls.profile.check(versions_asked(request, parameters))
        accepted = accepted_types(request.headers)
        body = await rest.body_of(request, match.route, calls)
        wanted = request_of(match, path, parameters, body, calls.options.max_depth)
        streams = wanted.rpc.server_streaming
        kind = (stream_type if streams else calls.profile.unary)(accepted)
        pair = self.by_spelling[wanted.spelling or self.default]
        message = _message(pair.plain, wanted, tenant)
        old_calls = pair.of(request, message, wanted.value)
        extra_metadata = schemes_of(wanted.rpc.name, wanted.value)
        call = OldCall(request, parameters, wanted.rpc, message, extra_metadata, wanted.path)
        if streams:
            return await old_calls.stream(call, frames.LINES if kind == NDJSON else frames.REST)
        told = await old_calls.answer(call)
        return Reply(told.json, kind, [*told.headers, *_next_page(told, parameters)])

    def refusal(self, request: web.BaseRequest, error: Exception) -> Reply:
        return rest.refusal(self._calls.profile, request, error)

    @property
    def _calls(self) -> Calls:
        """The calls of the default spelling, for all that does not depend on the spelling."""
        return self.by_spelling[self.default].plain.calls


def _message(old_calls: OldCalls, wanted: OldRequest, tenant: str) -> Any:  # noqa: ANN401 - a request of any type
    message: Any = old_calls.calls.profile.codec.decode(wanted.value, GetMessageClass(wanted.rpc.input_type))
    if tenant:
        message.tenant = tenant
    return message


def _next_page(told: UnaryResult, query: Query) -> HeaderPairs:
    """Return a link to the next page, because an array of tasks has no member for a token (LRES-08)."""
    if not isinstance(told.message, pb.ListTasksResponse) or not told.message.next_page_token:
        return ()
    kept = [(name, value) for name, value in query if name not in {"pageToken", "page_token"}]
    return ((hdrs.LINK, f'<?{urlencode([*kept, ("pageToken", told.message.next_page_token)])}>; rel="next"'),)


def routes() -> Table:
    """Return the routes of 0.3's proto, and those that only its text has."""
    return Table.of([_SERVICE], more=UNANNOTATED)
