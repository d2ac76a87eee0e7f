"""REST of the draft (spec: DRFT-01 to DRFT-04, CONF-38)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web
from google.protobuf.empty_pb2 import Empty

from a2a_gateway import rest
from a2a_gateway.calls import query_of, versions_asked
from a2a_gateway.http import frames
from a2a_gateway.http.replies import Reply
from a2a_gateway.older.draft.requests import DISCOVERY, request_of
from a2a_gateway.older.v0_3.answers import Ask, Speech
from a2a_gateway.requests.headers import accepted_types, stream_type
from a2a_gateway.routing.table import Table
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.names import NDJSON


@dataclass(frozen=True, slots=True, eq=False)
class DraftRest:
    """Serves every route of the table."""

    speech: Speech
    table: Table

    async def __call__(self, request: web.BaseRequest, path: str, query: str) -> web.StreamResponse:
        """Serve a call; what is wrong with it is raised, and `refusal` says it."""
        match, parameters, calls = self.table.match(request.method, path), query_of(query), self.speech.calls
        method, profile, options = match.route.method, calls.profile, calls.options
        profile.check(versions_asked(request, parameters))
        public, streams = method.containing_service is DISCOVERY, method.server_streaming
        kind = (stream_type if streams else profile.unary)(None if public else accepted_types(request.headers))
        body = await rest.body_of(request, match.route, options)
        wanted = request_of(match, parameters, body, profile.codec, options.max_depth)
        ask = Ask(request, parameters, method, *wanted)
        if streams:
            return await self.speech.stream(ask, frames.LINES if kind == NDJSON else frames.REST)
        told = await self.speech.answer(ask)
        if public:
            return calls.cards.answer(request, told.json, told.headers)
        done = isinstance(told.message, Empty)
        return Reply(told.json, kind, told.headers, status=HTTPStatus.NO_CONTENT if done else HTTPStatus.OK)

    def refusal(self, request: web.BaseRequest, error: Exception) -> Reply:
        return rest.refusal(self.speech.calls.profile, request, error)

    def verbs(self, path: str) -> Sequence[str]:
        return self.table.verbs(path)

    def is_public(self, path: str) -> bool:
        """Whether any page may read what is there (CONF-77)."""
        try:
            return self.table.match("GET", path).route.method.containing_service is DISCOVERY
        except (LookupError, A2AError):
            return False
