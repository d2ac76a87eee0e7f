"""CORS: which web pages may call. By default none may; the operator lists their origins (spec: DOOR-04, CONF-77).

Credentials mode is never allowed. A page sends its user's credentials in a header; cookies and other credentials that a
browser adds by itself are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from a2a_gateway.http.replies import HeaderPairs, NextHandler, Reply, set_headers

ALLOW = "Access-Control-Allow-Origin"
_EXPOSE = ("Access-Control-Expose-Headers", "*")
_BY_ORIGIN = ("Vary", "Origin")
_MAX_AGE = "600"

ANYBODY: HeaderPairs = ((ALLOW, "*"), _EXPOSE)
"""The headers that let every page read an answer."""


class Cors:
    """Adds the CORS headers for the configured origins."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        self.on = bool(self._origins)

    def allows(self, origin: str) -> bool:
        """Whether pages of an origin may call."""
        return "*" in self._origins or origin.lower() in self._origins

    @web.middleware
    async def middleware(self, request: web.Request, handler: NextHandler) -> web.StreamResponse:
        """Add the headers to every answer, including streams."""
        answer = await handler(request)
        self.mark(request, answer)
        return answer

    def mark(self, request: web.BaseRequest, answer: web.StreamResponse) -> None:
        """Add the headers to an answer, unless it already allows every page."""
        if ALLOW not in answer.headers:
            set_headers(answer, self.fields(request))

    def fields(self, request: web.BaseRequest) -> HeaderPairs:
        """Return the headers that let the calling page read an answer."""
        if not self.on:
            return ()
        if "*" in self._origins:
            return ANYBODY
        origin = request.headers.get("Origin", "")
        return ((ALLOW, origin), _EXPOSE, _BY_ORIGIN) if self.allows(origin) else (_BY_ORIGIN,)

    def preflight(self, request: web.BaseRequest, verbs: Iterable[str], *, public: bool = False) -> Reply:
        """Answer OPTIONS with the methods of a path, and with CORS headers if the page may call."""
        fields = [("Allow", ", ".join(verbs)), *(ANYBODY if public else self.fields(request))]
        if any(name == ALLOW for name, _ in fields):
            fields.append(("Access-Control-Allow-Methods", ", ".join(verbs)))
            if asked := request.headers.get("Access-Control-Request-Headers"):
                fields.append(("Access-Control-Allow-Headers", asked))
            fields.append(("Access-Control-Max-Age", _MAX_AGE))
        return Reply(b"", "", fields, status=204)
