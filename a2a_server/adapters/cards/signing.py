"""Signs agent cards with ES256, RS256 or EdDSA, by the kind of key (spec: SIGN-01, SIGN-04, SIGN-05)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.util import urlsafe_b64decode, urlsafe_b64encode

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.names import JWKS_PATH
from a2a_server.protocol.signed_cards import readings

SETTING: Final = "card.signing_keys"
_KINDS: Final[dict[str, type[ECKey | RSAKey | OKPKey]]] = {"EC": ECKey, "RSA": RSAKey, "OKP": OKPKey}
_LEAST_BITS: Final = 2048
_HALF: Final = 32
_PUBLIC: Final = ("kty", "crv", "x", "y", "n", "e")


@dataclass(frozen=True, slots=True)
class CardKey:
    """A key, and what signatures made with it say about it."""

    key: ECKey | RSAKey | OKPKey
    kid: str
    algorithm: str

    def protected(self, base: str) -> str:
        """The protected header. A client finds the key set below the URL where it found the card."""
        header = {"alg": self.algorithm, "kid": self.kid, "typ": "JOSE"}
        return _encoded(orjson.dumps(header | ({"jku": base.rstrip("/") + JWKS_PATH} if base else {})))

    def sign(self, protected: str, payload: bytes) -> str:
        return _encoded(_signature(self.key.private_key, f"{protected}.{_encoded(payload)}".encode()))


def card_keys(texts: Sequence[str]) -> tuple[CardKey, ...]:
    """Read keys as PEM or JWK. Private ones sign. Of others only the public part is published."""
    keys = tuple(_key_of(text, f"{SETTING}[{number}]") for number, text in enumerate(texts))
    if keys and not any(key.key.is_private for key in keys):
        raise ValueError(f"{SETTING} must hold a private key: it signs")
    names = [key.kid for key in keys]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise ValueError(f"{SETTING}[{number}] has the kid {name}, as a key before it")
    return keys


def _key_of(text: str, setting: str) -> CardKey:
    try:
        key = _imported(text)
        algorithm = _algorithm(key)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):  # three libraries raise these
        algorithm = ""
    if not algorithm:
        kinds = f"an EC key on P-256, an RSA key of at least {_LEAST_BITS} bits, or an Ed25519 key"
        raise ValueError(f"{setting} must be {kinds}, as PEM or JWK") from None
    return CardKey(key, key.kid or key.thumbprint(), algorithm)


def _imported(text: str) -> ECKey | RSAKey | OKPKey:
    if text.lstrip().startswith("{"):
        members = json.loads(text)
        return _KINDS[members["kty"]].import_key(members)
    pem = text.encode()
    found = load_pem_private_key(pem, None) if b"PRIVATE" in pem else load_pem_public_key(pem)
    kinds = {"EC": ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey, "RSA": rsa.RSAPrivateKey | rsa.RSAPublicKey}
    kind = next((name for name, classes in kinds.items() if isinstance(found, classes)), "OKP")
    return _KINDS[kind].import_key(pem)


def _algorithm(key: ECKey | RSAKey | OKPKey) -> str:
    """The algorithm that goes with a key; empty if there is none."""
    match key.public_key:
        case ec.EllipticCurvePublicKey(curve=ec.SECP256R1()):
            return "ES256"
        case rsa.RSAPublicKey(key_size=bits) if bits >= _LEAST_BITS:
            return "RS256"
        case ed25519.Ed25519PublicKey():
            return "EdDSA"
    return ""


def _signature(key: object, data: bytes) -> bytes:
    """The same for the same data: all replicas serve the same card, under the same `ETag` (RFC 6979)."""
    match key:
        case ec.EllipticCurvePrivateKey():
            der = key.sign(data, ec.ECDSA(SHA256(), deterministic_signing=True))
            return b"".join(number.to_bytes(_HALF, "big") for number in decode_dss_signature(der))
        case rsa.RSAPrivateKey():
            return key.sign(data, padding.PKCS1v15(), SHA256())
        case ed25519.Ed25519PrivateKey():
            return key.sign(data)
    raise TypeError(type(key).__name__)


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode()


def card_jwks(keys: Iterable[CardKey]) -> list[dict[str, str]]:
    """The public parts, for the key set at `/.well-known/jwks.json`."""
    return [_published(key) for key in keys]


def _published(key: CardKey) -> dict[str, str]:
    found = key.key.as_dict(private=False)
    public = {name: str(found[name]) for name in _PUBLIC if name in found}
    return public | {"kid": key.kid, "use": "sig", "alg": key.algorithm}


class JwsSigner:
    """Signs with every private key, so that clients who know only the old one or only the new one can verify."""

    def __init__(self, keys: Sequence[CardKey]) -> None:
        self._keys = {key.kid: key for key in keys if key.key.is_private}

    def signed(self, card: pb.AgentCard, base: str) -> pb.AgentCard:
        found = pb.AgentCard()
        found.CopyFrom(card)
        del found.signatures[:]
        found.signatures.extend(each for each in card.signatures if self._key(each.protected) is None)
        for payload in readings(found):
            for key in self._keys.values():
                protected = key.protected(base)
                found.signatures.add(protected=protected, signature=key.sign(protected, payload))
        return found

    def other_forms(
        self, signatures: Iterable[pb.AgentCardSignature], payloads: Sequence[bytes]
    ) -> list[dict[str, str]]:
        known = [(text, self._key(text)) for text in dict.fromkeys(each.protected for each in signatures)]
        return [
            {"protected": protected, "signature": key.sign(protected, payload)}
            for payload in payloads
            for protected, key in known
            if key is not None
        ]

    def _key(self, protected: str) -> CardKey | None:
        """The key of ours that a protected header names."""
        try:
            header = orjson.loads(urlsafe_b64decode(protected.encode()))
            return self._keys.get(header["kid"])
        except (ValueError, TypeError, KeyError):
            return None
