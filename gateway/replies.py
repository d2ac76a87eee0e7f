"""Whole answers: a body, its type, and the headers that every answer has."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web
from multidict import CIMultiDict

SERVER = "a2a-server"

Fields = Sequence[tuple[str, str]]


def reply(body: bytes, content_type: str, fields: Fields = (), *, status: int = 200) -> web.Response:
    """Make an answer. Nothing on its way may keep it: what it says is for its caller, and soon out of date."""
    headers = CIMultiDict([("Content-Type", content_type), ("Server", SERVER), *fields])
    headers.setdefault("Cache-Control", "no-store")
    return web.Response(body=body, headers=headers, status=status)
