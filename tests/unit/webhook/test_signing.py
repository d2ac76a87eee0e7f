"""Signatures that receivers can check, with keys that can be changed (spec: SSRF-06, PAID-05)."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from a2a_server.adapters.webhook import Signer, jwks, signing_keys
from tests.support.receivers import BODY, hook, notice, receiver, sending

GUIDE = Path(__file__).parents[3] / "docs/webhooks.md"
NOW = 1_800_000_000
OLD, NEW = ECKey.generate_key("P-256"), ECKey.generate_key("P-256")


class Still:
    def now_ms(self) -> int:
        return NOW * 1000 + 999


def pem(key: ECKey | OKPKey | RSAKey, *, private: bool = True) -> str:
    return key.as_pem(private=private).decode()


def signer(*keys: ECKey) -> Signer:
    return Signer(signing_keys([pem(key) for key in keys]), "https://agents.example", Still())


def read(token: str, *keys: ECKey) -> jwt.Token:
    published = json.loads(json.dumps(jwks(signing_keys([pem(key) for key in keys]))))
    return jwt.decode(token, KeySet.import_key_set(published), algorithms=["ES256"])


@pytest.mark.req("SSRF-06", "PAID-05")
def test_the_claims() -> None:
    made = notice("https://hook.example/a?b", 7, task_id="t", delivery_id="d")
    token = read(signer(NEW)(made), NEW)
    assert token.header == {"typ": "JWT", "alg": "ES256", "kid": NEW.thumbprint()}
    jti = token.claims.pop("jti")
    assert token.claims == {
        "iss": "https://agents.example",
        "aud": "https://hook.example/a?b",
        "iat": NOW,
        "exp": NOW + 300,
        "taskId": "t",
        "eventNumber": 7,
        "deliveryId": "d",
        "bodySha256": hashlib.sha256(BODY).hexdigest(),
    }
    assert jti != read(signer(NEW)(made), NEW).claims["jti"]  # so that a retry is no replay
    _, _, told = GUIDE.read_text("utf-8").partition("| claim | |\n")
    explained = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", told.partition("\n\n")[0], re.MULTILINE)))
    assert set(explained) == {*token.claims, "jti"}


@pytest.mark.req("PAID-05")
def test_the_first_key_signs_and_all_are_published() -> None:
    token = signer(NEW, OLD)(notice("https://hook.example/"))
    assert read(token, OLD, NEW).header["kid"] == NEW.thumbprint()
    with pytest.raises(InvalidKeyIdError):
        read(token, OLD)


@pytest.mark.req("PAID-05", "SECR-03")
def test_only_the_public_parts_are_published() -> None:
    document = jwks(signing_keys([pem(NEW), pem(OLD, private=False)]))
    assert [set(key) for key in document["keys"]] == [{"kty", "crv", "x", "y", "kid", "use", "alg"}] * 2
    assert document["keys"][1] == {
        **{name: OLD.as_dict(private=False)[name] for name in ("kty", "crv", "x", "y")},
        "kid": OLD.thumbprint(),
        "use": "sig",
        "alg": "ES256",
    }
    assert jwks([]) == {"keys": []}


@pytest.mark.req("PAID-05")
def test_keys_are_read_as_pem_and_as_jwk() -> None:
    keys = signing_keys([json.dumps(NEW.as_dict(private=True)), pem(OLD, private=False)])
    assert [key.thumbprint() for key in keys] == [NEW.thumbprint(), OLD.thumbprint()]


@pytest.mark.req("SECR-03")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "{}",
        "{hunter2",
        '{"kty": "oct", "k": "aHVudGVyMg"}',
        '{"kty": "EC", "crv": "P-256", "x": "hunter2", "y": "hunter2", "d": "hunter2"}',
        "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n",
        pem(ECKey.generate_key("P-384")),
        pem(OKPKey.generate_key("Ed25519")),
        pem(RSAKey.generate_key(2048)),
        NEW.as_pem(private=True, password="hunter2").decode(),
    ],
)
def test_what_is_no_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"^push\.signing_keys\[1\] must be an EC key on the curve P-256") as caught:
        signing_keys([pem(NEW), text])
    assert caught.value.__cause__ is None
    assert "hunter2" not in str(caught.value)


def test_the_first_key_must_be_private() -> None:
    with pytest.raises(ValueError, match=r"push\.signing_keys\[0\] must be a private key: it signs"):
        signing_keys([pem(NEW, private=False)])


@pytest.mark.req("SECR-03")
def test_a_signer_shows_no_key() -> None:
    made = signer(NEW)
    assert str(NEW.as_dict(private=True)["d"]) not in repr(vars(made))


@pytest.mark.req("SSRF-06", "HOOK-03")
@pytest.mark.parametrize(
    ("scheme", "credentials", "authorization", "signature"),
    [
        ("", "", "Bearer {}", None),
        ("bearer", "", "Bearer {}", None),  # the client leaves it to the server what it bears
        ("Bearer", "s3cr3t", "Bearer s3cr3t", "{}"),
        ("Basic", "QTpC", "Basic QTpC", "{}"),
        ("ApiKey", "", "ApiKey", "{}"),
    ],
)
async def test_a_signature_goes_where_there_is_room(
    scheme: str, credentials: str, authorization: str, signature: str | None
) -> None:
    async with receiver() as client, sending(sign=signer(NEW)) as sender:
        assert (await sender.send(notice(hook(client.url, scheme=scheme, credentials=credentials)))).delivered
        headers = client.last.headers
    token = headers.get("X-A2A-Signature") or headers["Authorization"].removeprefix("Bearer ")
    assert read(token, NEW).claims["aud"] == client.url
    assert headers["Authorization"] == authorization.format(token)
    assert headers.get("X-A2A-Signature") == (signature and signature.format(token))
