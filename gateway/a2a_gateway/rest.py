"""The REST binding: bind → call → write (spec: REST, QPAR, MEDI, ERRS-02)."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import hdrs, web

from a2a_gateway.calls import Calls, query_of, read_body, read_json, versions_asked
from a2a_gateway.http import frames
from a2a_gateway.http.replies import Reply
from a2a_gateway.profiles import Profile
from a2a_gateway.requests.binding import bind, content_of
from a2a_gateway.requests.headers import accepted_types, must_be_json, stream_type
from a2a_gateway.routing.annotations import Route, is_public
from a2a_gateway.routing.table import Table, Unknown, WrongVerb
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import JsonText
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import NDJSON


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """Serves every route of the table."""

    calls: Calls
    table: Table

    async def __call__(self, request: web.BaseRequest, query: str, path: str) -> web.StreamResponse:
        """Serve a call. Errors are raised; `refusal` turns them into answers."""
        route, _ = match = self.table.match(request.method, path)
        method, accepted = route.method, accepted_types(request.headers)
        public = is_public(method)
        profile = self.calls.profile
        kind = (stream_type if method.server_streaming else profile.unary)(None if public else accepted)
        parameters = query_of(query)
        raw = await body_of(request, route, self.calls)
        message = bind(match, parameters, raw, profile.codec, max_depth=self.calls.options.max_depth)
        if method.server_streaming:
            form = frames.LINES if kind == NDJSON else frames.REST
            return await self.calls.stream(request, parameters, method, message, frames=form)
        told = await self.calls.unary(request, parameters, method, message)
        if public:
            assert isinstance(told.message, pb.AgentCard)  # noqa: S101 - all that can be discovered
            json = self.calls.cards.written(told.message, versions_asked(request, parameters))
            return self.calls.cards.answer(request, told.message, json, told.headers)
        json = content_of(route, told.message, profile.codec) if route.response_body else told.json
        return Reply(json, kind, told.headers)

    def refusal(self, request: web.BaseRequest, error: Exception) -> Reply:
        return refusal(self.calls.profile, request, error)


async def body_of(request: web.BaseRequest, route: Route, calls: Calls) -> JsonText:
    if not request.can_read_body:
        return b""
    if not route.body:  # it will be ignored, whatever it is
        return await read_body(request, calls, public=is_public(route.method))
    must_be_json(request.headers.get(hdrs.CONTENT_TYPE))
    return await read_json(request, calls)


def refusal(profile: Profile, request: web.BaseRequest, error: Exception) -> Reply:
    allow = [(hdrs.ALLOW, ", ".join(error.allow))] if isinstance(error, WrongVerb) else []
    if isinstance(error, (Unknown, WrongVerb)):  # those of the routing table
        error = A2AError(Reason.METHOD_NOT_ALLOWED if allow else Reason.PATH_NOT_FOUND, str(error))
    failure = profile.explain(error)
    kind = profile.refusal(accepted_types(request.headers))
    return Reply(failure.rest(), kind, [*failure.headers, *allow], status=failure.http)
