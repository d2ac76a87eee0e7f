"""The agent card as this gateway shows it: with its own doors, to be kept for a while (CARD-03, CACH, DOOR-05)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from email.utils import formatdate

from aiohttp import web

from gateway import accept
from gateway.replies import Reply
from generated import a2a_pb2 as pb

BINDINGS = ("HTTP+JSON", "JSONRPC")
VERSION = "1.0"


class Cards:
    """Completes cards, and answers for the public one."""

    def __init__(self, *, base: str, max_age: int, others: bool = True) -> None:
        self.base = base
        """The URL of the HTTP door when no proxy says better."""
        self._max_age = max_age
        self._others = others
        self._since = formatdate(usegmt=True)

    def with_doors(self, card: pb.AgentCard, base: str) -> pb.AgentCard:
        """Put this gateway's doors where the card has HTTP doors, or behind its others (CARD-03, CARD-04)."""
        doors = doors_at(base or self.base)
        kept = [door for door in card.supported_interfaces if self._others and not _is_http(door)]
        listed = [index for index, door in enumerate(card.supported_interfaces) if _is_http(door)]
        at = min(listed[0], len(kept)) if listed else len(kept)
        shown = pb.AgentCard()
        shown.CopyFrom(card)
        del shown.supported_interfaces[:]
        shown.supported_interfaces.extend([*kept[:at], *doors, *kept[at:]])
        return shown

    def answer(self, request: web.BaseRequest, json: bytes, extra: Sequence[tuple[str, str]]) -> Reply:
        """Answer for the public card: anybody may read it, from any page, and keep it for a while."""
        tag = f'"{hashlib.sha256(json).hexdigest()[:32]}"'
        fields = [
            *extra,
            ("ETag", tag),
            ("Cache-Control", f"public, max-age={self._max_age}"),
            ("Last-Modified", self._since),
            ("Access-Control-Allow-Origin", "*"),
            ("Vary", "A2A-Version"),
        ]
        known = _known(request.headers.get("If-None-Match"), tag)
        return Reply(b"" if known else json, accept.JSON, fields, status=304 if known else 200)


def doors_at(base: str) -> list[pb.AgentInterface]:
    base = base.rstrip("/")
    return [
        pb.AgentInterface(url=base, protocol_binding="HTTP+JSON", protocol_version=VERSION),
        pb.AgentInterface(url=base + "/", protocol_binding="JSONRPC", protocol_version=VERSION),
    ]


def _is_http(door: pb.AgentInterface) -> bool:
    return door.protocol_binding in BINDINGS


def _known(if_none_match: str | None, tag: str) -> bool:
    """Whether the client has this very card; tags compare weakly (RFC 9110, 13.1.2)."""
    if if_none_match is None:
        return False
    tags = [text.strip().removeprefix("W/") for text in if_none_match.split(",")]
    return tag in tags or tags == ["*"]
