"""Moves an API key from the query or a cookie to the metadata (spec: AUTN-04, SECR-03).

The server reads keys only from this metadata. So a header that would become the same metadata is removed: the card says
that keys are somewhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote_plus

from aiohttp import hdrs, web

from a2a_server.protocol.options import KeyPlace


@dataclass(frozen=True, slots=True)
class QueryOrCookieKey:
    """Reads keys from a parameter of the query, or from a cookie."""

    place: KeyPlace

    def move_to_metadata(self, request: web.BaseRequest, metadata: dict[str, tuple[str, ...]]) -> None:
        """Put the request's keys into the metadata. A value that cannot be a key becomes empty, and never matches."""
        metadata.pop(self.place.metadata, None)
        found = self._in_query(request) if self.place.location == "query" else self._in_cookies(request)
        if keys := tuple(key if key.isascii() and key.isprintable() else "" for key in found):
            metadata[self.place.metadata] = keys

    def without_key(self, query: str) -> str:
        """Return the query without the key, for everything else that reads it."""
        if self.place.location != "query" or not query:
            return query
        return "&".join(item for item in query.split("&") if not self._is_key(item))

    def _in_query(self, request: web.BaseRequest) -> Iterator[str]:
        for item in request.raw_path.partition("?")[2].split("&"):
            if self._is_key(item):
                yield unquote_plus(item.partition("=")[2])

    def _is_key(self, item: str) -> bool:
        return unquote_plus(item.partition("=")[0]) == self.place.name

    def _in_cookies(self, request: web.BaseRequest) -> Iterator[str]:
        for line in request.headers.getall(hdrs.COOKIE, ()):
            for item in line.split(";"):
                name, _, value = item.partition("=")
                if name.strip() == self.place.name:
                    yield value.strip().removeprefix('"').removesuffix('"')
