"""Fetching small documents from servers that the operator names, such as identity providers (spec: SSRF-04)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class FetchError(Exception):
    """There is no document; the message says why, for the operator's log."""


class Fetcher(Protocol):
    """Fetches documents of bounded size in bounded time, without redirects, and only from where the operator allows."""

    async def fetch(
        self, url: str, *, form: Mapping[str, str] | None = None, json: bytes = b"", credentials: str = ""
    ) -> bytes:
        """Return what a GET is answered with, or the POST of a form or of JSON. Raises `FetchError`."""
        ...

    async def close(self) -> None: ...
