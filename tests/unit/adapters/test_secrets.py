"""Keys and secrets: sealed at rest, signed with, and never shown (spec: PAID-05, PAID-06, SECR-03, SSRF-06)."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from a2a_server.adapters.sealing import Sealing, sealing_keys
from a2a_server.adapters.webhook import Signer, jwks, signing_keys
from a2a_server.ports.clock import Clock
from a2a_server.ports.push import Unsealable
from tests.support.receivers import BODY, hook, notice, receiver, sending

OLD_SEAL, NEW_SEAL = bytes(range(32)), bytes(range(1, 33))
looks = st.sampled_from(["", "sealed:1:", "plain:1:", "plain:1:sealed:1:", "sealed:1:0a1b2c3d:"])


@pytest.mark.req("PAID-06")
@given(looks, st.text(max_size=40), st.sampled_from([(), (OLD_SEAL,), (NEW_SEAL, OLD_SEAL)]))
def test_what_is_sealed_opens(look: str, text: str, keys: tuple[bytes, ...]) -> None:
    sealing = Sealing(keys)
    assert sealing.open(sealing.seal(look + text, "here"), "here") == look + text


@pytest.mark.req("PAID-06", "SECR-03")
def test_a_sealed_text_shows_nothing() -> None:
    sealing = Sealing([OLD_SEAL])
    sealed = sealing.seal("s3cr3t", "here")
    assert sealed.startswith("sealed:1:")
    assert "s3cr3t" not in sealed
    assert sealed != sealing.seal("s3cr3t", "here")  # so that equal secrets are not seen to be equal
    assert OLD_SEAL.hex() not in repr(vars(sealing))


@pytest.mark.req("PAID-06")
def test_the_first_key_seals_and_all_open() -> None:
    old = Sealing([OLD_SEAL]).seal("s3cr3t", "here")
    both = Sealing([NEW_SEAL, OLD_SEAL])
    assert both.open(old, "here") == "s3cr3t"
    new = both.seal("s3cr3t", "here")
    assert Sealing([NEW_SEAL]).open(new, "here") == "s3cr3t"
    with pytest.raises(Unsealable):
        Sealing([OLD_SEAL]).open(new, "here")


@pytest.mark.req("PAID-06")
def test_what_was_stored_before_there_were_keys_is_read() -> None:
    assert Sealing([OLD_SEAL]).open("s3cr3t", "here") == "s3cr3t"
    assert Sealing([OLD_SEAL]).open("", "here") == Sealing([OLD_SEAL]).seal("", "here") == ""
    assert Sealing([OLD_SEAL]).open(Sealing().seal("sealed:1:x", "here"), "here") == "sealed:1:x"


@pytest.mark.req("PAID-06")
@pytest.mark.parametrize("keys", [(), (NEW_SEAL,)])
def test_a_missing_key_is_named_with_its_setting(keys: tuple[bytes, ...]) -> None:
    sealed = Sealing([OLD_SEAL]).seal("s3cr3t", "here")
    with pytest.raises(Unsealable) as caught:
        Sealing(keys).open(sealed, "here")
    assert str(caught.value) == (
        f"push.secret_keys lacks the key '{sealed.split(':')[2]}', which a stored secret is sealed with"
    )


@pytest.mark.req("PAID-06")
def test_a_secret_opens_nowhere_else_and_not_if_it_was_touched() -> None:
    sealing = Sealing([OLD_SEAL])
    sealed = sealing.seal("s3cr3t", "ann/t/c/token")
    touched = sealed[:-4] + ("AAAA" if sealed[-4:] != "AAAA" else "BBBB")
    for text, place in (
        (sealed, "bob/t/c/token"),
        (touched, "ann/t/c/token"),
        (sealed[:-4], "ann/t/c/token"),
        (sealed[:-1], "ann/t/c/token"),
        (sealed[:30], "ann/t/c/token"),
    ):
        with pytest.raises(Unsealable, match="damaged or in the wrong place") as caught:
            sealing.open(text, place)
        assert "s3cr3t" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_keys_are_read_in_both_alphabets() -> None:
    key = bytes([0xFB, 0xFF] * 16)
    assert sealing_keys([b64encode(key).decode() + "\n", urlsafe_b64encode(key).decode()]) == (key, key)


@pytest.mark.parametrize("text", ["", "short", b64encode(bytes(31)).decode(), "é" * 44, "!" * 44, OLD_SEAL.hex()])
def test_what_is_no_sealing_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"push\.secret_keys\[1\] must be 32 bytes in base64") as caught:
        sealing_keys([b64encode(OLD_SEAL).decode(), text])
    assert not text or text not in str(caught.value)


GUIDE = Path(__file__).parents[3] / "docs/webhooks.md"
NOW = 1_800_000_000
OLD, NEW = ECKey.generate_key("P-256"), ECKey.generate_key("P-256")


class Still(Clock):
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
def test_what_is_no_signing_key_is_refused_without_showing_it(text: str) -> None:
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


@pytest.mark.req("SECR-03")
def test_no_repr_shows_a_secret() -> None:
    made = hook("https://hook.example/?key=hunter2", token="hunter2", scheme="Bearer", credentials="hunter2")
    assert "hunter2" not in f"{made!r} {made}"
    said = notice(made, body=b"hunter2")
    assert "hunter2" not in f"{said!r} {said}"
    assert "number=1, delivery_id='d-1', attempt=1" in repr(said)


@pytest.mark.req("SECR-03")
async def test_no_log_shows_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    """Not even at the most talkative level, of all libraries together."""
    secrets = {"token": "hunter2", "scheme": "Bearer", "credentials": "hunter3"}
    caplog.set_level(logging.DEBUG)
    with structlog.testing.capture_logs() as logs:
        async with receiver() as client, sending() as sender:
            assert (await sender.send(notice(hook(f"{client.url}?key=hunter4", **secrets)))).delivered
            await sender.send(notice(hook("http://127.0.0.1:1/?key=hunter4", **secrets)))
            await sender.send(notice(hook("https://10.0.0.1/?key=hunter4", **secrets)))
            await sender.send(notice(hook("https://127.0.0.1:" + str(client.port) + "/?key=hunter4", **secrets)))
            await sender.challenge(hook(f"{client.url}?key=hunter4", **secrets), "ann")
        assert "hunter" not in repr((logs, vars(sender)))
    ours = [record for record in caplog.records if not record.name.startswith("aiohttp.access")]
    assert "hunter" not in repr([record.getMessage() for record in ours])
