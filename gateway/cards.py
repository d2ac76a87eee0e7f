"""The agent card as this gateway shows it: with its own doors, to be kept for a while (CARD-03, CACH, DOOR-05)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from email.utils import formatdate, parsedate_to_datetime

from aiohttp import web

from gateway import accept
from gateway.cors import ANYBODY
from gateway.replies import Reply
from generated import a2a_pb2 as pb

BINDINGS = ("HTTP+JSON", "JSONRPC")
VERSION = "1.0"

_MOST_REMEMBERED = 256


class Cards:
    """Completes cards, and answers for the public one."""

    def __init__(self, *, base: str, max_age: int, others: bool = True) -> None:
        self.base = base
        """The URL of the HTTP door when no proxy says better."""
        self._max_age = max_age
        self._others = others
        self._since: dict[str, int] = {}

    def with_doors(self, card: pb.AgentCard, base: str) -> pb.AgentCard:
        """Put this gateway's doors where the card has HTTP doors, or behind its others (CARD-03, CARD-04)."""
        declared = card.supported_interfaces
        tenants = dict.fromkeys(door.tenant for door in declared) or {"": None}
        doors = [door for tenant in tenants for door in doors_at(base or self.base, tenant)]
        kept = [door for door in declared if self._others and not _is_http(door)]
        listed = [index for index, door in enumerate(declared) if _is_http(door)]
        at = min(listed[0], len(kept)) if listed else len(kept)
        doors = [*kept[:at], *doors, *kept[at:]]
        if doors == list(declared):
            return card
        shown = pb.AgentCard()
        shown.CopyFrom(card)
        del shown.supported_interfaces[:]
        del shown.signatures[:]  # of a card that told of other doors (SIGN-06)
        shown.supported_interfaces.extend(doors)
        return shown

    def answer(self, request: web.BaseRequest, json: bytes, extra: Sequence[tuple[str, str]]) -> Reply:
        """Answer for the public card: anybody may read it, from any page, and keep it for a while."""
        tag = f'"{hashlib.sha256(json).hexdigest()[:32]}"'
        since = self._known_since(tag)
        fields = [
            *extra,
            ("ETag", tag),
            ("Cache-Control", f"public, max-age={self._max_age}"),
            ("Last-Modified", formatdate(since, usegmt=True)),
            ("Vary", "A2A-Version"),
            *ANYBODY,
        ]
        known = _is_known(request, tag, since)
        return Reply(b"" if known else json, accept.JSON, fields, status=304 if known else 200)

    def _known_since(self, tag: str) -> int:
        """When this very card was first told; nobody else knows when it was made."""
        if tag not in self._since:
            if len(self._since) >= _MOST_REMEMBERED:
                self._since.clear()
            self._since[tag] = int(time.time())
        return self._since[tag]


def doors_at(base: str, tenant: str = "") -> list[pb.AgentInterface]:
    base = base.rstrip("/")
    return [
        pb.AgentInterface(url=base, protocol_binding="HTTP+JSON", protocol_version=VERSION, tenant=tenant),
        pb.AgentInterface(url=base + "/", protocol_binding="JSONRPC", protocol_version=VERSION, tenant=tenant),
    ]


def _is_http(door: pb.AgentInterface) -> bool:
    return door.protocol_binding in BINDINGS


def _is_known(request: web.BaseRequest, tag: str, since: int) -> bool:
    """Whether the client has this very card; tags compare weakly, and rule out the date (RFC 9110, 13.1.2, 13.1.3)."""
    if lines := request.headers.getall("If-None-Match", ()):
        tags = [text.strip().removeprefix("W/") for text in ",".join(lines).split(",")]
        return tag in tags or tags == ["*"]
    try:
        return parsedate_to_datetime(request.headers.get("If-Modified-Since", "")).timestamp() >= since
    except ValueError:
        return False
