"""The REST binding: binds the request, makes the call, writes the answer (spec: REST, QPAR, MEDI, ERRS-02)."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import hdrs, web

from a2a_gateway.body_lines import read_messages
from a2a_gateway.calls import Calls, Query, query_of, read_body, read_json, versions_asked
from a2a_gateway.http import frames
from a2a_gateway.http.replies import Reply
from a2a_gateway.profiles import Profile
from a2a_gateway.requests.binding import bind, content_of
from a2a_gateway.requests.media_types import accepted_types, must_be_json, stream_type
from a2a_gateway.routing.annotations import Route, is_public
from a2a_gateway.routing.table import Match, Table, UnknownPath, WrongVerb
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
        if method.client_streaming:
            return await self._live(request, match, parameters, kind)
        raw = await body_of(request, route, self.calls)
        message = bind(match, parameters, raw, profile.codec, max_depth=self.calls.options.max_depth)
        if method.server_streaming:
            form = frames.LINES if kind == NDJSON else frames.REST
            return await self.calls.stream(request, parameters, method, message, frames=form)
        told = await self.calls.unary(request, parameters, method, message)
        if public:
            assert isinstance(told.message, pb.AgentCard)  # noqa: S101 - the only public answer
            json = self.calls.cards.written(told.message, versions_asked(request, parameters))
            return self.calls.cards.answer(request, told.message, json, told.headers)
        json = content_of(route, told.message, profile.codec) if route.response_body else told.json
        return Reply(json, kind, told.headers)

    async def _live(self, request: web.BaseRequest, match: Match, query: Query, kind: str) -> web.StreamResponse:
        """Serve a call whose client streams. The answer may begin while messages still arrive (DOOR-14)."""
        route, calls = match.route, self.calls
        rest = await read_messages(request, match, query, calls)
        first = await anext(rest)
        if route.method.server_streaming:
            form = frames.LINES if kind == NDJSON else frames.REST
            return await calls.stream(request, query, route.method, first, frames=form, rest=rest)
        told = await calls.unary(request, query, route.method, first, rest=rest)
        json = content_of(route, told.message, calls.profile.codec) if route.response_body else told.json
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
    if isinstance(error, (UnknownPath, WrongVerb)):
        error = A2AError(Reason.METHOD_NOT_ALLOWED if allow else Reason.PATH_NOT_FOUND, str(error))
    failure = profile.explain(error)
    kind = profile.refusal(accepted_types(request.headers))
    return Reply(failure.rest(), kind, [*failure.headers, *allow], status=failure.http)
