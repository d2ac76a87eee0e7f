"""Signatures of webhooks: a JWT that binds sender, receiver, task, time and body (spec: SSRF-06, PAID-05)."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from a2a_server.ports.clock import Clock
from a2a_server.ports.push import Notice

SETTING = "push.signing_keys"
ALGORITHM = "ES256"
_CURVE = "P-256"
LIFETIME = 300
"""Seconds that a signature is valid: longer than any attempt, and with room for clocks that differ."""


def signing_keys(texts: Sequence[str]) -> tuple[ECKey, ...]:
    """Read keys as PEM or JWK. The first signs and must be private. Of the others the public part is enough."""
    keys = tuple(_key_of(text, f"{SETTING}[{number}]") for number, text in enumerate(texts))
    if keys and not keys[0].is_private:
        raise ValueError(f"{SETTING}[0] must be a private key: it signs")
    return keys


def _key_of(text: str, setting: str) -> ECKey:
    try:
        key = ECKey.import_key(json.loads(text) if text.lstrip().startswith("{") else text)
        fits = key.curve_name == _CURVE
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):  # three libraries raise these
        fits = False
    if not fits:
        raise ValueError(f"{setting} must be an EC key on the curve P-256, as PEM or JWK") from None
    return key


def jwks(keys: Sequence[ECKey]) -> dict[str, list[dict[str, str]]]:
    """The public parts of all keys, as they are published at `/.well-known/jwks.json`."""
    return {"keys": [_published(key) for key in keys]}


def _published(key: ECKey) -> dict[str, str]:
    public = key.as_dict(private=False)
    return {name: str(public[name]) for name in ("kty", "crv", "x", "y")} | {
        "kid": key.thumbprint(),
        "use": "sig",
        "alg": ALGORITHM,
    }


class Signer:
    """Signs with the first key. The others are published too: the next key, or one that was used before."""

    def __init__(self, keys: Sequence[ECKey], issuer: str, clock: Clock) -> None:
        self._key = keys[0]
        self._header = {"alg": ALGORITHM, "kid": keys[0].thumbprint()}
        self._issuer = issuer
        self._clock = clock

    def __call__(self, notice: Notice) -> str:
        """Sign one attempt. `jti` is new each time, so that a receiver can refuse replays and still accept retries."""
        now = self._clock.now_ms() // 1000
        claims = {
            "iss": self._issuer,
            "aud": notice.hook.config.url,
            "iat": now,
            "exp": now + LIFETIME,
            "jti": secrets.token_hex(16),
            "taskId": notice.task_id,
            "eventNumber": notice.number,
            "deliveryId": notice.delivery_id,
            "bodySha256": hashlib.sha256(notice.body).hexdigest(),
        }
        return jwt.encode(self._header, claims, self._key, algorithms=[ALGORITHM])
