"""Which pages may call: none, unless the operator lists their origins (spec: DOOR-04, CONF-77)."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web
from multidict import CIMultiDict

EXPOSED = "A2A-Extensions, ETag, Retry-After, WWW-Authenticate"
_MAX_AGE = "600"


class Cors:
    """Marks answers for the pages of some origins."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        self.on = bool(self._origins)

    def allows(self, origin: str | None) -> bool:
        return origin is not None and ("*" in self._origins or origin.lower() in self._origins)

    def mark(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Say in an answer's headers that the asking page may read it; those of a stream have left already."""
        if not response.prepared:
            self.mark_headers(request, response.headers)

    def mark_headers(self, request: web.BaseRequest, fields: CIMultiDict[str]) -> None:
        if not self.on:
            return
        if self.allows(origin := request.headers.get("Origin")):
            fields.setdefault("Access-Control-Allow-Origin", origin or "")
            fields["Access-Control-Expose-Headers"] = EXPOSED
        fields.add("Vary", "Origin")

    def preflight(self, request: web.BaseRequest, verbs: Iterable[str]) -> web.Response:
        """Answer OPTIONS: what the path serves, and to pages that may call how they may."""
        fields = CIMultiDict({"Allow": ", ".join(verbs)})
        if self.on and self.allows(request.headers.get("Origin")):
            fields["Access-Control-Allow-Methods"] = ", ".join(verbs)
            if asked := request.headers.get("Access-Control-Request-Headers"):
                fields["Access-Control-Allow-Headers"] = asked
            fields["Access-Control-Max-Age"] = _MAX_AGE
        self.mark_headers(request, fields)
        return web.Response(status=204, headers=fields)
