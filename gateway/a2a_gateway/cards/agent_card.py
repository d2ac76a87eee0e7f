"""The agent card as this gateway shows it: with its own URLs, in the client's version, and cacheable.

Serves CARD-03, CARD-04, LCRD-01 to LCRD-04, VERS-02, -06, -08, CACH, DOOR-05, CONF-42 and CONF-68.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from itertools import chain
from typing import Any, Final, Literal
from urllib.parse import quote

import orjson
from aiohttp import hdrs, web

from a2a_gateway.http.cors import ANYBODY
from a2a_gateway.http.replies import HeaderPairs, Reply
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import Codec, Dialect, Memo
from a2a_server.protocol.errors import major_minor, version_not_supported
from a2a_server.protocol.names import CURRENT, JSON, LEGACY, VERSION_HEADER
from a2a_server.protocol.options import LEGACY_DEFAULT, CardForm, LegacyOptions
from a2a_server.protocol.v0_3 import cards as old_cards

CardMembers = Mapping[str, Any]
"""A card as a JSON object."""

_MEMO_BYTES: Final = 2**20

CARD: Final = Codec(Dialect(ordered=True), memo_bytes=_MEMO_BYTES)
"""Writes cards of 1.0. All replicas write the same bytes, which `ETag` and caches rely on."""


class Legacy:
    """Writes cards for clients of 0.3; refuses those without an interface of 0.3 with VERSION_NOT_SUPPORTED."""

    def __init__(self, options: LegacyOptions = LEGACY_DEFAULT) -> None:
        self.options = options
        self.card_0_3 = CardWriter(self._in_schema)
        """JSON by the schema of 0.3."""
        self.card_0_3_both = CardWriter(self._for_all_of_0_3)
        """The same, with the security schemes in ProtoJSON too: some clients that use ProtoJSON read cards that way."""
        self.both = CardWriter(self._joined)
        """JSON with the members of both versions."""

    def _for_all_of_0_3(self, card: pb.AgentCard) -> dict[str, Any]:
        written = self._in_proto(card)
        shown: dict[str, Any] = old_cards.in_schema(written)
        if schemes := shown.get("securitySchemes"):
            shown["securitySchemes"] = {name: written["securitySchemes"][name] | schemes[name] for name in schemes}
        return shown

    def _in_schema(self, card: pb.AgentCard) -> dict[str, Any]:
        return old_cards.in_schema(self._in_proto(card))

    def _in_proto(self, card: pb.AgentCard) -> dict[str, Any]:
        written: dict[str, Any] = orjson.loads(old_cards.PROTO.encode(old_cards.downgrade(card, self.options)))
        return written

    def _joined(self, card: pb.AgentCard) -> dict[str, object]:
        new, old = orjson.loads(CARD.encode(card)), self._in_schema(card)
        if schemes := new.get("securitySchemes"):
            # Readers of 1.0 that look at `type` first would otherwise miss what only 1.0 has: PKCE and the device flow.
            old["securitySchemes"] = old_cards.superset(old_cards.schemes(schemes), old["securitySchemes"])
        # A flag that 1.0 leaves out stays out, because it is not covered by the card's signature.
        shown = new["capabilities"].keys() | old_cards.OLD_CAPABILITIES.keys()
        old["capabilities"] = {name: value for name, value in old["capabilities"].items() if name in shown}
        return old_cards.superset(new, old)


class CardWriter:
    """Writes cards, and keeps those that were written recently, but for tenants': see `is_tenants`."""

    def __init__(self, write: Callable[[pb.AgentCard], CardMembers]) -> None:
        self._write = write
        self._memo = Memo(_MEMO_BYTES)

    def __call__(self, card: pb.AgentCard) -> bytes:
        if is_tenants(card):
            return orjson.dumps(self._write(card))
        key = type(card), card.SerializeToString()
        return self._memo.get(key) or self._memo.put(key, orjson.dumps(self._write(card)))


def form_of(asked: Sequence[str], *, unasked: CardForm, legacy: bool) -> Literal["1.0", "0.3", "both"]:
    """Return the form for a client that asks for these versions in headers or parameters, or refuse them."""
    versions = {major_minor(value.strip()) for value in asked} - {""}
    if not versions:
        return ("both" if legacy else "1.0") if unasked == "auto" else unasked
    if versions == {"1.0"}:
        return "1.0"
    if versions == {"0.3"} and legacy:
        return "0.3"
    offered = ("1.0", "0.3") if legacy else ("1.0",)
    text = f'This card is told in the form of A2A {" or ".join(offered)}; the request asks for "{{requested}}".'
    raise version_not_supported(text, asked, ",".join(offered))


BINDINGS = ("HTTP+JSON", "JSONRPC")

_MOST_REMEMBERED = 256


@dataclass(slots=True, kw_only=True, eq=False)
class Cards:
    """Completes cards with this gateway's URLs, and answers requests for the public card."""

    base: str
    """The URL of the HTTP door, unless a trusted proxy reports another."""
    max_age: int
    others: bool = True
    """Whether cards keep interfaces that are not HTTP's."""
    form: CardForm = "auto"
    legacy: Legacy | None = None
    """Writes the forms of 0.3; None if 0.3 is not served."""
    tenants: bool = False
    """Whether tenants have a path of their own for 0.3."""
    vary: Sequence[str] = ()
    """The request headers that a card's URLs depend on."""
    _since: dict[str, int] = field(default_factory=dict, init=False)

    def with_doors(self, card: pb.AgentCard, base: str) -> pb.AgentCard:
        """Put this gateway's interfaces where the card has HTTP interfaces: those of 1.0 first, then those of 0.3."""
        declared = card.supported_interfaces
        new, old = [door for door in declared if not is_old(door)], [door for door in declared if is_old(door)]
        tenants, base = tenants_of(card), base or self.base
        doors = [
            *self._placed([door for tenant in tenants for door in doors_at(base, tenant)], new, otherwise=len(new)),
            # Before other bindings: clients of 0.2 use the first URL for JSON-RPC.
            *self._placed([door for tenant in tenants for door in self._old_doors(base, tenant)], old, otherwise=0),
        ]
        if doors == list(declared):
            return card
        shown = pb.AgentCard()
        shown.CopyFrom(card)
        del shown.supported_interfaces[:]
        del shown.signatures[:]  # they do not cover the new interfaces (SIGN-06)
        shown.supported_interfaces.extend(doors)
        return shown

    def _old_doors(self, base: str, tenant: str) -> Sequence[pb.AgentInterface]:
        """Return the interfaces of 0.3, whose clients can give a tenant only in the URL (CONF-50)."""
        if self.legacy is None or (tenant and not self.tenants):
            return ()
        return old_doors_at(base, tenant)

    def _placed(
        self, ours: Sequence[pb.AgentInterface], declared: Sequence[pb.AgentInterface], *, otherwise: int
    ) -> Iterator[pb.AgentInterface]:
        kept = [door for door in declared if self.others and not _is_http(door)]
        listed = [index for index, door in enumerate(declared) if _is_http(door)]
        at = min(listed[0] if listed else otherwise, len(kept))
        return chain(kept[:at], ours, kept[at:])

    def written(self, card: pb.AgentCard, asked: Sequence[str]) -> bytes:
        """Return a completed card as JSON, in the form for a client that asks for these versions (CONF-42)."""
        legacy = self.legacy if any(map(is_old, card.supported_interfaces)) else None
        form = form_of(asked, unasked=self.form, legacy=legacy is not None)
        if legacy is None or form == "1.0":
            return CARD.encode(card) if is_tenants(card) else CARD.encode_kept(card)
        return legacy.both(card) if form == "both" else legacy.card_0_3(card)

    def answer(self, request: web.BaseRequest, card: pb.AgentCard, json: bytes, extra: HeaderPairs) -> Reply:
        """Answer a request for the public card: anyone may read it, from any web page, and cache it."""
        tag = f'"{hashlib.sha256(json).hexdigest()[:32]}"'
        since = None if is_tenants(card) else self._known_since(tag)
        fields = [
            *extra,
            ("ETag", tag),
            (hdrs.CACHE_CONTROL, f"public, max-age={self.max_age}"),
            *([(hdrs.LAST_MODIFIED, formatdate(since, usegmt=True))] if since is not None else ()),
            (hdrs.VARY, ", ".join((VERSION_HEADER, *self.vary))),
            *ANYBODY,
        ]
        known = _is_known(request, tag, since)
        return Reply(b"" if known else json, JSON, fields, status=304 if known else 200)

    def _known_since(self, tag: str) -> int:
        """Return when this card was first sent, as its modification time."""
        if tag not in self._since:
            if len(self._since) >= _MOST_REMEMBERED:
                self._since.clear()
            self._since[tag] = int(time.time())
        return self._since[tag]


def tenants_of(card: pb.AgentCard) -> Collection[str]:
    """Return the tenants of a card. Interfaces of 0.3 do not count: their tenants are hidden in the URLs."""
    return dict.fromkeys(door.tenant for door in card.supported_interfaces if not is_old(door)) or ("",)


def is_tenants(card: pb.AgentCard) -> bool:
    """Whether a card is for those who name a tenant.

    Nothing is kept of it: its date, or a faster answer, would tell strangers that somebody has asked for it (TENA-04).
    """
    return any(door.tenant for door in card.supported_interfaces)


def doors_at(base: str, tenant: str = "") -> list[pb.AgentInterface]:
    base = base.rstrip("/")
    return [
        pb.AgentInterface(url=base, protocol_binding="HTTP+JSON", protocol_version=CURRENT, tenant=tenant),
        pb.AgentInterface(url=base + "/", protocol_binding="JSONRPC", protocol_version=CURRENT, tenant=tenant),
    ]


def old_doors_at(base: str, tenant: str = "") -> list[pb.AgentInterface]:
    """JSON-RPC comes first, the only binding of 0.2 (CONF-48); the slash makes the two URLs differ (LCRD-04)."""
    base = f"{base.rstrip('/')}/{quote(tenant, safe='')}".rstrip("/")
    return [
        pb.AgentInterface(url=base + "/", protocol_binding="JSONRPC", protocol_version=LEGACY),
        pb.AgentInterface(url=base, protocol_binding="HTTP+JSON", protocol_version=LEGACY),
    ]


def is_old(door: pb.AgentInterface) -> bool:
    """Whether an interface speaks 0.3; the patch number does not matter (VERS-04)."""
    return major_minor(door.protocol_version) == LEGACY


def _is_http(door: pb.AgentInterface) -> bool:
    return door.protocol_binding in BINDINGS


def _is_known(request: web.BaseRequest, tag: str, since: int | None) -> bool:
    """Whether the client has this card. Tags compare weakly and outrank the date (RFC 9110, 13.1.2 and 13.1.3)."""
    if lines := request.headers.getall(hdrs.IF_NONE_MATCH, ()):
        tags = [text.strip().removeprefix("W/") for text in ",".join(lines).split(",")]
        return tag in tags or tags == ["*"]
    try:
        asked = parsedate_to_datetime(request.headers.get(hdrs.IF_MODIFIED_SINCE, "")).timestamp()
    except (ValueError, OverflowError):
        return False
    return since is not None and asked >= since
