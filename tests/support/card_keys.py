"""Keys that sign cards, and what a client does who verifies (spec: SIGN-02 to -06), by a library and RFC 8785."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from joserfc import jws
from joserfc.errors import BadSignatureError, SecurityWarning
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey
from joserfc.util import urlsafe_b64decode, urlsafe_b64encode

from a2a_proto import a2a_pb2 as pb
from tests.support.house import signed_cards

EC = ECKey.generate_key("P-256")
OTHER = ECKey.generate_key("P-256")
RSA = RSAKey.generate_key(2048)
ED = OKPKey.generate_key("Ed25519")
ALGORITHMS = ["ES256", "RS256", "EdDSA"]
TOKEN = "sha256:" + "0" * 64


def pem(key: ECKey | RSAKey | OKPKey, *, private: bool = True) -> str:
    return key.as_pem(private=private).decode()


def header_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(urlsafe_b64decode(entry["protected"].encode()))
    return found


def fits(entry: Mapping[str, Any], payload: bytes, keys: Mapping[str, Any]) -> bool:
    """Whether a signature is valid over this payload, with the key of a set that it names."""
    text = f"{entry['protected']}.{urlsafe_b64encode(payload).decode()}.{entry['signature']}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)
        try:
            jws.deserialize_compact(text, KeySet.import_key_set(dict(keys)), ALGORITHMS)  # type: ignore[arg-type]
        except BadSignatureError:
            return False
    return True


def as_served(card: Mapping[str, Any]) -> bytes:
    """SIGN-02, of the JSON as it came."""
    return signed_cards.canonical({name: value for name, value in card.items() if name != "signatures"}).encode()


def valid(card: Mapping[str, Any], keys: Mapping[str, Any], payload: bytes | None = None) -> Sequence[dict[str, Any]]:
    """The signatures that are valid over a card as it was served, or over another reading of it."""
    payload = as_served(card) if payload is None else payload
    return [entry for entry in card.get("signatures", ()) if fits(entry, payload, keys)]


def members(card: pb.AgentCard) -> dict[str, Any]:
    """A card that came over gRPC."""
    return {"signatures": [MessageToDict(each) for each in card.signatures]}


def letter(card: pb.AgentCard) -> bytes:
    bare = pb.AgentCard()
    bare.CopyFrom(card)
    del bare.signatures[:]
    return signed_cards.to_the_spec(bare)


def kids(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    return (header_of(entry)["kid"] for entry in entries)
