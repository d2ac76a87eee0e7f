"""The agent card as this gateway shows it: with its own doors, in the client's version, to be kept for a while.

Serves CARD-03, CARD-04, LCRD-02 to LCRD-04, CACH and DOOR-05.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Collection, Iterator, Sequence
from email.utils import formatdate, parsedate_to_datetime
from itertools import chain
from urllib.parse import quote

from aiohttp import web

from a2a_gateway.cards.forms import CARD, Legacy, form_of
from a2a_gateway.http.cors import ANYBODY
from a2a_gateway.http.replies import Reply
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.names import JSON, VERSION_HEADER
from a2a_server.protocol.options import CardForm

__all__ = ["Cards", "Legacy", "doors_at"]

BINDINGS = ("HTTP+JSON", "JSONRPC")
VERSION = "1.0"
OLD_VERSION = "0.3"

_IS_OLD = re.compile(r"0\.3(\.[0-9]+)?").fullmatch

_MOST_REMEMBERED = 256


class Cards:
    """Completes cards, and answers for the public one."""

    def __init__(  # noqa: PLR0913 - all that can be chosen about it
        self,
        *,
        base: str,
        max_age: int,
        others: bool = True,
        form: CardForm = "auto",
        legacy: Legacy | None = None,
        tenants: Collection[str] = (),
        vary: Sequence[str] = (),
    ) -> None:
        self.base = base
        """The URL of the HTTP door when no proxy says better."""
        self.legacy = legacy
        """Writes the forms of 0.3, if it is served."""
        self._max_age = max_age
        self._others = others
        self._form = form
        self._tenants = tenants
        """Those whom 0.3 finds under a path of their own."""
        self._vary = ", ".join((VERSION_HEADER, *vary))
        """The headers that a card depends on: by its form, and by the URLs of its doors."""
        self._since: dict[str, int] = {}

    def with_doors(self, card: pb.AgentCard, base: str) -> pb.AgentCard:
        """Put this gateway's doors where the card has HTTP doors: those of 1.0, and behind them those of 0.3."""
        declared = card.supported_interfaces
        new, old = [door for door in declared if not is_old(door)], [door for door in declared if is_old(door)]
        tenants, base = tenants_of(card), base or self.base
        doors = [
            *self._placed([door for tenant in tenants for door in doors_at(base, tenant)], new, otherwise=len(new)),
            # In front of all but HTTP: clients of 0.2 take the main one's URL for JSON-RPC's.
            *self._placed([door for tenant in tenants for door in self._old_doors(base, tenant)], old, otherwise=0),
        ]
        if doors == list(declared):
            return card
        shown = pb.AgentCard()
        shown.CopyFrom(card)
        del shown.supported_interfaces[:]
        del shown.signatures[:]  # of a card that told of other doors (SIGN-06)
        shown.supported_interfaces.extend(doors)
        return shown

    def _old_doors(self, base: str, tenant: str) -> Sequence[pb.AgentInterface]:
        """The doors of 0.3, whose clients can say a tenant in the URL only (CONF-50)."""
        if self.legacy is None or (tenant and tenant not in self._tenants):
            return ()
        return old_doors_at(base, tenant)

    def _placed(
        self, ours: Sequence[pb.AgentInterface], declared: Sequence[pb.AgentInterface], *, otherwise: int
    ) -> Iterator[pb.AgentInterface]:
        kept = [door for door in declared if self._others and not _is_http(door)]
        listed = [index for index, door in enumerate(declared) if _is_http(door)]
        at = min(listed[0] if listed else otherwise, len(kept))
        return chain(kept[:at], ours, kept[at:])

    def written(self, card: pb.AgentCard, asked: Sequence[str]) -> bytes:
        """JSON of a card with doors, in the form for a client that asks for these versions (CONF-42)."""
        legacy = self.legacy if any(map(is_old, card.supported_interfaces)) else None
        form = form_of(asked, unasked=self._form, legacy=legacy is not None)
        if legacy is None or form == "1.0":
            return CARD.encode_kept(card)
        return legacy.both(card) if form == "both" else legacy.card_0_3(card)

    def answer(self, request: web.BaseRequest, json: bytes, extra: Sequence[tuple[str, str]]) -> Reply:
        """Answer for the public card: anybody may read it, from any page, and keep it for a while."""
        tag = f'"{hashlib.sha256(json).hexdigest()[:32]}"'
        since = self._known_since(tag)
        fields = [
            *extra,
            ("ETag", tag),
            ("Cache-Control", f"public, max-age={self._max_age}"),
            ("Last-Modified", formatdate(since, usegmt=True)),
            ("Vary", self._vary),
            *ANYBODY,
        ]
        known = _is_known(request, tag, since)
        return Reply(b"" if known else json, JSON, fields, status=304 if known else 200)

    def _known_since(self, tag: str) -> int:
        """When this very card was first told; nobody else knows when it was made."""
        if tag not in self._since:
            if len(self._since) >= _MOST_REMEMBERED:
                self._since.clear()
            self._since[tag] = int(time.time())
        return self._since[tag]


def tenants_of(card: pb.AgentCard) -> Collection[str]:
    """Whom the card is for; 0.3 says it in URLs only, which may mean anything."""
    return dict.fromkeys(door.tenant for door in card.supported_interfaces if not is_old(door)) or ("",)


def doors_at(base: str, tenant: str = "") -> list[pb.AgentInterface]:
    base = base.rstrip("/")
    return [
        pb.AgentInterface(url=base, protocol_binding="HTTP+JSON", protocol_version=VERSION, tenant=tenant),
        pb.AgentInterface(url=base + "/", protocol_binding="JSONRPC", protocol_version=VERSION, tenant=tenant),
    ]


def old_doors_at(base: str, tenant: str = "") -> list[pb.AgentInterface]:
    """JSON-RPC first, as all that 0.2 knew (CONF-48); the slash keeps the two URLs apart (LCRD-04)."""
    base = f"{base.rstrip('/')}/{quote(tenant, safe='')}".rstrip("/")
    return [
        pb.AgentInterface(url=base + "/", protocol_binding="JSONRPC", protocol_version=OLD_VERSION),
        pb.AgentInterface(url=base, protocol_binding="HTTP+JSON", protocol_version=OLD_VERSION),
    ]


def is_old(door: pb.AgentInterface) -> bool:
    """Whether 0.3 is spoken there; the patch plays no part (VERS-04)."""
    return _IS_OLD(door.protocol_version) is not None


def _is_http(door: pb.AgentInterface) -> bool:
    return door.protocol_binding in BINDINGS


def _is_known(request: web.BaseRequest, tag: str, since: int) -> bool:
    """Whether the client has this very card; tags compare weakly, and rule out the date (RFC 9110, 13.1.2, 13.1.3)."""
    if lines := request.headers.getall("If-None-Match", ()):
        tags = [text.strip().removeprefix("W/") for text in ",".join(lines).split(",")]
        return tag in tags or tags == ["*"]
    try:
        return parsedate_to_datetime(request.headers.get("If-Modified-Since", "")).timestamp() >= since
    except (ValueError, OverflowError):
        return False
