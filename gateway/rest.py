"""The REST binding: bind → call → write (spec: REST, QPAR, MEDI, ERRS-02)."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from a2a_server.errors import A2AError, Reason
from gateway import accept, body, frames
from gateway.binding import bind
from gateway.calls import Calls, query_of
from gateway.errors import explain
from gateway.replies import Answering, Reply
from gateway.routes import Match, Table, Unknown, WrongVerb

DISCOVERY = "a2a_server.discovery.v1.Discovery"


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """Serves every route of the table."""

    calls: Calls
    table: Table

    async def __call__(self, request: web.BaseRequest, path: str, query: str) -> Answering:
        try:
            return await self._serve(request, self.table.match(request.method, path), query)
        except Exception as error:  # noqa: BLE001 - every error has a shape
            return self.refusal(request, error)

    async def _serve(self, request: web.BaseRequest, match: Match, text: str) -> Answering:
        wanted = request.headers.get("Accept")
        method = match.route.method
        kind = accept.stream(wanted) if method.server_streaming else accept.unary(wanted)
        raw = await body.read(request, self.calls.options) if request.can_read_body else b""
        if raw:
            accept.must_be_json(request.headers.get("Content-Type"))
        query = query_of(text)
        message = bind(match, query, raw, self.calls.codec)
        if method.server_streaming:
            form = frames.LINES if kind == accept.NDJSON else frames.REST
            return await self.calls.stream(request, query, method, message, frames=form)
        told = await self.calls.unary(request, query, method, message)
        if method.containing_service.full_name == DISCOVERY:
            return self.calls.cards.answer(request, told.json, told.headers)
        return Reply(told.json, kind, told.headers)

    def refusal(self, request: web.BaseRequest, error: Exception) -> Reply:
        failure = explain(_as_a2a(error), self.calls.codes)
        allow = [("Allow", ", ".join(error.allow))] if isinstance(error, WrongVerb) else []
        kind = accept.of_error(request.headers.get("Accept"))
        return Reply(failure.rest(), kind, [*failure.headers, *allow], status=failure.http)


def _as_a2a(error: Exception) -> Exception:
    """Say what matching found in the words of the catalogue."""
    if isinstance(error, Unknown):
        return A2AError(Reason.PATH_NOT_FOUND, str(error))
    if isinstance(error, WrongVerb):
        return A2AError(Reason.METHOD_NOT_ALLOWED, str(error))
    return error
