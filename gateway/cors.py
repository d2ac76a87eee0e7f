"""Which pages may call: none, unless the operator lists their origins (spec: DOOR-04, CONF-77)."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from gateway.replies import Answering, Fields, Reply

EXPOSED = "A2A-Extensions, ETag, Retry-After, WWW-Authenticate"
ALLOW = "Access-Control-Allow-Origin"
_MAX_AGE = "600"


class Cors:
    """Marks answers for the pages of some origins."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        self.on = bool(self._origins)

    def allows(self, origin: str | None) -> bool:
        return origin is not None and ("*" in self._origins or origin.lower() in self._origins)

    def mark(self, request: web.BaseRequest, reply: Answering) -> None:
        """Say in an answer's headers that the asking page may read it, unless everybody may anyway."""
        if self.on and isinstance(reply, Reply):  # a stream has marked itself
            public = any(name == ALLOW for name, _ in reply.fields)
            reply.fields = [*reply.fields, *(() if public else self.fields(request))]

    def fields(self, request: web.BaseRequest) -> Fields:
        """The headers that let the asking page read an answer."""
        if not self.on:
            return ()
        origin = request.headers.get("Origin")
        if not self.allows(origin):
            return (("Vary", "Origin"),)
        return ((ALLOW, origin or ""), ("Access-Control-Expose-Headers", EXPOSED), ("Vary", "Origin"))

    def preflight(self, request: web.BaseRequest, verbs: Iterable[str]) -> Reply:
        """Answer OPTIONS: what the path serves, and to pages that may call how they may."""
        fields = [("Allow", ", ".join(verbs))]
        if self.on and self.allows(request.headers.get("Origin")):
            fields.append(("Access-Control-Allow-Methods", ", ".join(verbs)))
            if asked := request.headers.get("Access-Control-Request-Headers"):
                fields.append(("Access-Control-Allow-Headers", asked))
            fields.append(("Access-Control-Max-Age", _MAX_AGE))
        return Reply(b"", "", [*fields, *self.fields(request)], status=204)
