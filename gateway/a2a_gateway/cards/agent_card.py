"""The agent card as this gateway serves it: with its own URLs, in the client's version, and cacheable.

Serves CARD-03, CARD-04, LCRD-01 to LCRD-04, VERS-02, -06, -08, CACH, DOOR-05, -15, CONF-42, -49, -68 and -84.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from functools import partial
from itertools import chain
from typing import Any, Final, Literal, cast

import orjson
from aiohttp import hdrs, web
from google.rpc import code_pb2

from a2a_gateway.cards.interfaces import (
    doors_at,
    draft_doors_at,
    is_http,
    is_old,
    names_tenant,
    old_doors_at,
    tenants_of,
)
from a2a_gateway.errors import failure_of
from a2a_gateway.http.cors import ANYBODY
from a2a_gateway.http.replies import HeaderPairs, Reply
from a2a_gateway.upstream import CallContext, Upstream
from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2
from a2a_server.protocol.card_doors import CardOptions
from a2a_server.protocol.codec import Codec, Dialect, Memo
from a2a_server.protocol.errors import A2AError, StatusError, major_minor, version_not_supported
from a2a_server.protocol.names import JSON, VERSION_HEADER
from a2a_server.protocol.options import LEGACY_DEFAULT, CardForm, LegacyOptions
from a2a_server.protocol.signed_cards import SIGNATURES, CardSigner, canonical_bytes, to_old_sdk
from a2a_server.protocol.v0_3 import cards as old_cards

CardMembers = Mapping[str, Any]
"""A card as a JSON object."""

WriteCard = Callable[[pb.AgentCard], CardMembers]

_MEMO_BYTES: Final = 2**20

CARD: Final = Codec(Dialect(ordered=True), memo_bytes=_MEMO_BYTES)
"""Writes cards of 1.0. All replicas write the same bytes, as `ETag` and caches need."""


class LegacyCards:
    """Writes cards for clients of 0.3. A card without an interface of 0.3 is refused with VERSION_NOT_SUPPORTED."""

    def __init__(self, options: LegacyOptions = LEGACY_DEFAULT, signer: CardSigner | None = None) -> None:
        self.options = options
        self._signer = signer
        self.card_0_3 = CardWriter(partial(self._signed, self._in_schema))
        """JSON in the schema of 0.3."""
        self.card_0_3_both = CardWriter(partial(self._signed, self._in_schema_and_proto))
        """The same, with the security schemes in ProtoJSON too: some clients that use ProtoJSON read cards that way."""
        self.both = CardWriter(partial(self._signed, self._joined))
        """JSON with the members of both versions."""

    def _signed(self, write: WriteCard, card: pb.AgentCard) -> CardMembers:
        members = write(card)
        if self._signer is None or not card.signatures:
            return members
        old = self._in_schema(card)
        old["capabilities"] = {name: it for name, it in old["capabilities"].items() if name in members["capabilities"]}
        return sign_other_form(self._signer, members, card, [to_old_sdk(old)])

    def _in_schema_and_proto(self, card: pb.AgentCard) -> dict[str, Any]:
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
            # Readers of 1.0 that look at `type` first would otherwise miss PKCE and the device flow, which 0.3 lacks.
            old["securitySchemes"] = old_cards.superset(old_cards.schemes(schemes), old["securitySchemes"])
        # A flag that 1.0 omits stays omitted, because the card's signature does not cover it.
        shown = new["capabilities"].keys() | old_cards.OLD_CAPABILITIES.keys()
        old["capabilities"] = {name: value for name, value in old["capabilities"].items() if name in shown}
        return old_cards.superset(new, old)


def sign_other_form(
    signer: CardSigner | None, members: CardMembers, card: pb.AgentCard, also: Iterable[bytes] = ()
) -> CardMembers:
    """Sign the JSON of a form other than 1.0's: as it is, and as some readers parse it.

    It keeps the signatures of 1.0, which are valid for readers that only know the members of 1.0.
    """
    if signer is None or not (made := signer.other_forms(card.signatures, [canonical_bytes(members), *also])):
        return members
    return {**members, SIGNATURES: [*members.get(SIGNATURES, ()), *made]}


class CardWriter:
    """Writes cards, and remembers the JSON of recent ones, except for cards of tenants (see `names_tenant`)."""

    def __init__(self, write: WriteCard) -> None:
        self._write = write
        self._memo = Memo(_MEMO_BYTES)

    def __call__(self, card: pb.AgentCard) -> bytes:
        if names_tenant(card):
            return orjson.dumps(self._write(card))
        key = type(card), card.SerializeToString()
        return self._memo.get(key) or self._memo.put(key, orjson.dumps(self._write(card)))


def form_of(asked: Sequence[str], *, default: CardForm, legacy: bool) -> Literal["1.0", "0.3", "both"]:
    """Return the form for a client that asks for these versions; raise an error if none fits."""
    versions = {major_minor(value.strip()) for value in asked} - {""}
    if not versions:
        return ("both" if legacy else "1.0") if default == "auto" else default
    if versions == {"1.0"}:
        return "1.0"
    if versions == {"0.3"} and legacy:
        return "0.3"
    offered = ("1.0", "0.3") if legacy else ("1.0",)
    text = f'This card is available for A2A {" or ".join(offered)}; the request asks for "{{requested}}".'
    raise version_not_supported(text, asked, ",".join(offered))


_MOST_REMEMBERED = 256


@dataclass(slots=True, kw_only=True, eq=False)
class Cards:
    """Completes cards with this gateway's URLs, and answers requests for the public card."""

    base: str
    """The gateway's URL, unless a trusted proxy reports another."""
    max_age: int
    doors: CardOptions = field(default_factory=CardOptions)
    """Which interfaces cards have, and in which order."""
    keep_others: bool = True
    """Whether cards keep the upstream's interfaces that are not HTTP."""
    draft: str | None = None
    """The path of the draft; None if it is not served."""
    form: CardForm = "auto"
    legacy: LegacyCards | None = None
    """Writes the forms of 0.3; None if 0.3 is not served."""
    tenants: bool = False
    """Whether tenants have a path of their own for 0.3."""
    vary: Sequence[str] = ()
    """The request headers that a card's URLs depend on."""
    signer: CardSigner | None = None
    """Signs cards with this gateway's URLs. Without it a card keeps the signatures that still hold (SIGN-06)."""
    _signed: Memo = field(default_factory=partial(Memo, _MEMO_BYTES), init=False)
    _first_sent_at: dict[str, int] = field(default_factory=dict, init=False)

    def with_doors(self, card: pb.AgentCard, base: str, tenant: str = "") -> pb.AgentCard:
        """Replace the card's HTTP interfaces by this gateway's: first those of 1.0, then those of 0.3 and the draft."""
        declared, base, tenants = card.supported_interfaces, base or self.base, tenants_of(card, tenant)
        new, old = [door for door in declared if not is_old(door)], [door for door in declared if is_old(door)]
        # Clients of 0.3 can give a tenant only in the URL (CONF-50).
        old_tenants = [name for name in tenants if self.tenants or not name] if self.legacy is not None else ()
        doors = [
            *self._insert_ours(_for_tenants(doors_at, base, tenants), new, otherwise=len(new)),
            # Before the other bindings of 0.3, because clients of 0.2 use the first URL for JSON-RPC.
            *self._insert_ours(_for_tenants(old_doors_at, base, old_tenants), old, otherwise=0),
            *_for_tenants(self._draft_doors, base, tenants),
        ]
        return self._with_signatures(_with_interfaces(card, self.doors.listed(doors)), base)

    def draft_card(self, card: pb.AgentCard, base: str, tenant: str) -> pb.AgentCard:
        """Return the card for clients of the draft. It has only interfaces of the draft."""
        base = base or self.base
        doors = _for_tenants(self._draft_doors, base, tenants_of(card, tenant))
        return self._with_signatures(_with_interfaces(card, self.doors.listed(doors)), base)

    def _with_signatures(self, card: pb.AgentCard, base: str) -> pb.AgentCard:
        if self.signer is None:
            return card
        if names_tenant(card):
            return self.signer.signed(card, base)
        key = pb.AgentCard, f"{base} ".encode() + card.SerializeToString(deterministic=True)
        kept = self._signed.get(key)
        if kept is None:
            kept = self._signed.put(key, self.signer.signed(card, base).SerializeToString())
        return pb.AgentCard.FromString(kept)

    def _draft_doors(self, base: str, tenant: str) -> Sequence[pb.AgentInterface]:
        return draft_doors_at(base, self.draft, tenant) if self.draft is not None else ()

    def _insert_ours(
        self, ours: Sequence[pb.AgentInterface], declared: Sequence[pb.AgentInterface], *, otherwise: int
    ) -> Iterator[pb.AgentInterface]:
        kept = [door for door in declared if self.keep_others and not is_http(door)]
        listed = [index for index, door in enumerate(declared) if is_http(door)]
        at = min(listed[0] if listed else otherwise, len(kept))
        return chain(kept[:at], ours, kept[at:])

    def written(self, card: pb.AgentCard, asked: Sequence[str]) -> bytes:
        """Return a completed card as JSON, in the form for a client that asks for these versions (CONF-42)."""
        legacy = self.legacy if any(map(is_old, card.supported_interfaces)) else None
        form = form_of(asked, default=self.form, legacy=legacy is not None)
        if legacy is None or form == "1.0":
            return self.encoded(card, CARD)
        return legacy.both(card) if form == "both" else legacy.card_0_3(card)

    def encoded(self, card: pb.AgentCard, codec: Codec) -> bytes:
        """Return a completed card as JSON of 1.0."""
        return codec.encode(card) if names_tenant(card) else codec.encode_kept(card)

    def answer(self, request: web.BaseRequest, card: pb.AgentCard, json: bytes, extra: HeaderPairs) -> Reply:
        """Answer a request for the public card. Anyone may read it, from any web page, and cache it."""
        tag = f'"{hashlib.sha256(json).hexdigest()[:32]}"'
        since = None if names_tenant(card) else self._first_sent(tag)
        fields = [
            *extra,
            ("ETag", tag),
            (hdrs.CACHE_CONTROL, f"public, max-age={self.max_age}"),
            *([(hdrs.LAST_MODIFIED, formatdate(since, usegmt=True))] if since is not None else ()),
            (hdrs.VARY, ", ".join((VERSION_HEADER, *self.vary))),
            *ANYBODY,
        ]
        known = _client_has(request, tag, since)
        return Reply(b"" if known else json, JSON, fields, status=304 if known else 200)

    def _first_sent(self, tag: str) -> int:
        """Return when this card was first sent, as its modification time."""
        if tag not in self._first_sent_at:
            if len(self._first_sent_at) >= _MOST_REMEMBERED:
                self._first_sent_at.clear()
            self._first_sent_at[tag] = int(time.time())
        return self._first_sent_at[tag]


def _for_tenants(
    at: Callable[[str, str], Sequence[pb.AgentInterface]], base: str, tenants: Iterable[str]
) -> Sequence[pb.AgentInterface]:
    return [door for tenant in tenants for door in at(base, tenant)]


def _with_interfaces(card: pb.AgentCard, doors: Sequence[pb.AgentInterface]) -> pb.AgentCard:
    """Return a card with these interfaces."""
    if doors == list(card.supported_interfaces):
        return card
    shown = pb.AgentCard()
    shown.CopyFrom(card)
    del shown.supported_interfaces[:]
    del shown.signatures[:]  # they do not cover the new interfaces (SIGN-06)
    shown.supported_interfaces.extend(doors)
    return shown


def _client_has(request: web.BaseRequest, tag: str, since: int | None) -> bool:
    """Whether the client has this card already. Tags compare weakly and outrank the date (RFC 9110, 13.1.2, 13.1.3)."""
    if lines := request.headers.getall(hdrs.IF_NONE_MATCH, ()):
        tags = [text.strip().removeprefix("W/") for text in ",".join(lines).split(",")]
        return tag in tags or tags == ["*"]
    try:
        asked = parsedate_to_datetime(request.headers.get(hdrs.IF_MODIFIED_SINCE, "")).timestamp()
    except (ValueError, OverflowError):
        return False
    return since is not None and asked >= since


_CARD_REFUSED = frozenset(
    (
        *(code_pb2.UNIMPLEMENTED, code_pb2.NOT_FOUND, code_pb2.FAILED_PRECONDITION),
        *(code_pb2.UNAUTHENTICATED, code_pb2.PERMISSION_DENIED),
    )
)
"""The errors of servers that serve no card over gRPC, or not to a gateway. Other errors may be temporary."""
_GET_CARD = discovery_pb2.DESCRIPTOR.services_by_name["Discovery"].methods_by_name["GetAgentCard"]


async def public_card(upstream: Upstream) -> pb.AgentCard | None:
    """Get the public card without credentials; None if the upstream does not serve one."""
    try:
        answer = await upstream.unary(_GET_CARD, discovery_pb2.GetAgentCardRequest(), CallContext({}))
    except (A2AError, StatusError) as error:
        if failure_of(error).code not in _CARD_REFUSED:
            raise
        return None
    return cast("pb.AgentCard", answer.message)
