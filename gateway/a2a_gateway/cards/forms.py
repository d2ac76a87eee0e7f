"""Which form of a card a client reads, and how each is written (spec: LCRD-01, VERS-02, -06, -08; CONF-42, CONF-68)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import orjson
from google.protobuf.message import Message

from a2a_gateway.profiles import major_minor
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import Codec, Dialect
from a2a_server.protocol.codec.codec import Memo
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import CardForm
from a2a_server.protocol.v0_3 import cards as old_cards

Form = Literal["1.0", "0.3", "both"]
Json = Mapping[str, Any]

_LONGEST_SHOWN: Final = 100
_MEMO_BYTES: Final = 2**20

CARD: Final = Codec(Dialect(ordered=True), memo_bytes=_MEMO_BYTES)
"""Writes cards of 1.0, all replicas in the same bytes: caches and `ETag` go by them."""


class Legacy:
    """Writes cards for clients of 0.3. How versions are translated is another package's knowledge, and handed in.

    All refuse a card without an interface that speaks 0.3 (VERSION_NOT_SUPPORTED), as `downgrade` does.
    """

    def __init__(
        self, downgrade: Callable[[pb.AgentCard], Message], superset: Callable[[Json, Json], dict[str, object]]
    ) -> None:
        self._downgrade = downgrade
        self._superset = superset
        self.card_0_3 = Kept(self._in_schema)
        """JSON as 0.3's schema has it."""
        self.card_0_3_both = Kept(self._for_all_of_0_3)
        """The same with security schemes as ProtoJSON has them, too: of clients with ProtoJSON, some read cards so."""
        self.both = Kept(self._joined)
        """JSON with the members of both versions."""

    def _for_all_of_0_3(self, card: pb.AgentCard) -> dict[str, Any]:
        written = orjson.loads(old_cards.PROTO.encode(self._downgrade(card)))
        shown: dict[str, Any] = old_cards.in_schema(written)
        if schemes := shown.get("securitySchemes"):
            shown["securitySchemes"] = {name: written["securitySchemes"][name] | schemes[name] for name in schemes}
        return shown

    def _in_schema(self, card: pb.AgentCard) -> dict[str, Any]:
        return old_cards.in_schema(orjson.loads(old_cards.PROTO.encode(self._downgrade(card))))

    def _joined(self, card: pb.AgentCard) -> dict[str, object]:
        new, old = orjson.loads(CARD.encode(card)), self._in_schema(card)
        if schemes := new.get("securitySchemes"):
            # Readers of 1.0 that look at `type` first would else lose what only 1.0 says: PKCE, and the device flow.
            old["securitySchemes"] = self._superset(old_cards.schemes(schemes), old["securitySchemes"])
        # A flag that 1.0 leaves out stays out, as whoever has signed the card has not seen it.
        shown = new["capabilities"].keys() | old_cards.OLD_CAPABILITIES.keys()
        old["capabilities"] = {name: value for name, value in old["capabilities"].items() if name in shown}
        return self._superset(new, old)


class Kept:
    """Writes cards, and keeps what was written lately."""

    def __init__(self, write: Callable[[pb.AgentCard], Json]) -> None:
        self._write = write
        self._memo = Memo(_MEMO_BYTES)

    def __call__(self, card: pb.AgentCard) -> bytes:
        key = type(card), card.SerializeToString()
        if (text := self._memo.get(key)) is None:
            text = bytes(memoryview(orjson.dumps(self._write(card))))  # orjson's own takes 4 KiB, however short it is
            self._memo.put(key, text)
        return text


def form_of(asked: Sequence[str], *, unasked: CardForm, legacy: bool) -> Form:
    """The form for a client that asks for these versions, in headers and parameters; VERSION_NOT_SUPPORTED."""
    versions = {major_minor(value.strip()) for value in asked} - {""}
    if not versions:
        return ("both" if legacy else "1.0") if unasked == "auto" else unasked
    if versions == {"1.0"}:
        return "1.0"
    if versions == {"0.3"} and legacy:
        return "0.3"
    requested = ",".join(dict.fromkeys(asked))[:_LONGEST_SHOWN]
    offered = ("1.0", "0.3") if legacy else ("1.0",)
    raise A2AError(
        Reason.VERSION_NOT_SUPPORTED,
        f'This card is told in the form of A2A {" or ".join(offered)}; the request asks for "{requested}".',
        metadata={"requestedVersion": requested, "supportedVersions": ",".join(offered)},
    )
