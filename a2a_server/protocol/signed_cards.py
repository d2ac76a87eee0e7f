"""Makes the bytes that the signatures of an agent card cover (spec: SIGN-02, -03, -06).

According to the specification these are the JSON of 1.0 without `signatures`, in the form of RFC 8785: required members
and those that were set. The official SDKs also leave out empty members, even required ones. So a card has a signature
for each of these forms, and every client finds one that is valid.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final, Protocol

import orjson

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.json_v1 import V1

SIGNATURES: Final = "signatures"
_LARGEST_PLAIN: Final = 21
_SMALLEST_PLAIN: Final = -6
_OLD_DEFAULTS: Final = {"protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}


class CardSigner(Protocol):
    """Signs cards. Equal cards get equal signatures, on every replica that has the same keys."""

    def signed(self, card: pb.AgentCard, base: str) -> pb.AgentCard:
        """Return a card of 1.0 with signatures; they name the key set below `base`, if there is one."""
        ...

    def other_forms(
        self, signatures: Iterable[pb.AgentCardSignature], payloads: Sequence[bytes]
    ) -> list[dict[str, str]]:
        """Sign other forms of a card: once with each key, and the header, of those signatures that are its own."""
        ...


def canonical(value: object) -> str:
    """Write a JSON value by RFC 8785. Numbers are doubles, as ECMAScript reads them."""
    match value:
        case None | bool():
            return orjson.dumps(value).decode()
        case str():
            return _text(value)
        case int() | float():
            return _number(float(value))
        case Mapping():
            members = sorted(value.items(), key=lambda member: member[0].encode("utf-16-be"))
            return "{" + ",".join(f"{_text(name)}:{canonical(inner)}" for name, inner in members) + "}"
        case list():
            return "[" + ",".join(map(canonical, value)) + "]"
    raise ValueError(f"{type(value).__name__} is not JSON")


def _text(value: str) -> str:
    return orjson.dumps(value).decode()  # it escapes what must be escaped, and nothing else


def _number(value: float) -> str:
    """Write a number as ECMAScript does (Number::toString): Python finds the same digits, and places them otherwise."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is not JSON")
    if value == 0:
        return "0"
    _, found, exponent = Decimal(repr(abs(value))).normalize().as_tuple()
    digits, point = "".join(map(str, found)), len(found) + int(exponent)
    if len(digits) <= point <= _LARGEST_PLAIN:
        text = digits.ljust(point, "0")
    elif 0 < point <= _LARGEST_PLAIN:
        text = f"{digits[:point]}.{digits[point:]}"
    elif _SMALLEST_PLAIN < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        text = f"{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{point - 1:+d}"
    return f"-{text}" if value < 0 else text


def canonical_bytes(members: Mapping[str, object]) -> bytes:
    """Return the canonical JSON of a card in any form."""
    return canonical({name: value for name, value in members.items() if name != SIGNATURES}).encode()


def to_the_spec(card: pb.AgentCard) -> bytes:
    """Return the bytes of a card of 1.0, as the specification says."""
    return canonical_bytes(orjson.loads(V1.encode(card)))


def to_sdk(card: pb.AgentCard) -> bytes:
    """Return the bytes of a card of 1.0 as the official SDKs of 1.0 make them: without empty members."""
    kept = _filled(orjson.loads(V1.encode(card)))
    return canonical_bytes(kept if isinstance(kept, Mapping) else {})


def to_old_sdk(members: Mapping[str, object]) -> bytes:
    """Return the bytes of a card of 0.3 as its SDK makes them: in ASCII, without defaults and empty members."""
    kept = {name: value for name, value in members.items() if value != _OLD_DEFAULTS.get(name) and name != SIGNATURES}
    if isinstance(schemes := kept.get("securitySchemes"), Mapping):
        kept["securitySchemes"] = {name: _without_type(scheme) for name, scheme in schemes.items()}
    return json.dumps(_filled(kept) or {}, separators=(",", ":"), sort_keys=True).encode()


def _without_type(scheme: object) -> object:
    return {name: it for name, it in scheme.items() if name != "type"} if isinstance(scheme, Mapping) else scheme


def _filled(value: object) -> object:
    """Leave out empty texts, lists and objects, and what is empty without them; None if nothing is left."""
    match value:
        case Mapping():
            members = {name: kept for name, inner in value.items() if (kept := _filled(inner)) is not None}
            return members or None
        case list():
            return [kept for inner in value if (kept := _filled(inner)) is not None] or None
    return None if value == "" else value


def readings(card: pb.AgentCard) -> list[bytes]:
    """Return all byte strings to sign for a card of 1.0. The one of the specification comes first."""
    return [*dict.fromkeys((to_the_spec(card), to_sdk(card)))]
