"""Callers known by signed tokens, the same through every door, and every way to forge one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc.jwk import RSAKey

from a2a_server.ports.authenticator import Caller
from tests.support.callers import EVERYWHERE, KNOWN, House, Told, bearer, house, known_as, trusting
from tests.support.issuers import ALGORITHMS, AUDIENCE, Issuer, issuing, made, part, signed

INVALID = "UNAUTHENTICATED"


def challenge(house: House, door: str, *, presented: bool) -> str:
    base = house.gateway if door.startswith("far-") else house.base
    error = ', error="invalid_token"' if presented else ""
    return f'Bearer realm="a2a", resource_metadata="{base}/.well-known/oauth-protected-resource"{error}'


@pytest.mark.req("AUTN-01", "AUTN-02", "AUTN-05", "GATE-01")
@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
async def test_a_signed_token_opens_every_door(algorithm: str) -> None:
    async with issuing(algorithm) as idp, house(gateway=True, auth={"issuers": [trusting(idp)]}) as here:
        for door in EVERYWHERE:
            assert await here.told(door, bearer(idp.token())) == KNOWN, door
            assert await here.told(door, {}) == Told(INVALID, challenge(here, door, presented=False)), door
            assert await here.told(door, bearer("x.y.z")) == Told(INVALID, challenge(here, door, presented=True)), door
        assert idp.asked["/jwks"] <= 2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_each_algorithm_is_verified(algorithm: str) -> None:
    async with issuing(algorithm) as idp, house(auth={"issuers": [trusting(idp)]}) as here:
        assert await here.told("grpc", bearer(idp.token())) == KNOWN
        whole, _, signature = idp.token().rpartition(".")
        other = "A" if signature[10] != "A" else "B"
        forged = f"{whole}.{signature[:10]}{other}{signature[11:]}"
        assert (await here.told("grpc", bearer(forged))).code == INVALID
        assert (await here.told("grpc", bearer(idp.token(sub="ann")[:-40]))).code == INVALID


def hmac_signed(header: dict[str, Any], claims: object, secret: bytes) -> str:
    text = f"{part(header)}.{part(claims)}"
    return f"{text}.{part(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


def attacks(idp: Issuer) -> Iterator[tuple[str, str]]:
    """Every token that must not be taken, by its name."""
    key, now = idp.keys[0], int(time.time())
    assert isinstance(key, RSAKey)
    head = {"alg": "RS256", "kid": key.kid, "typ": "JWT"}
    claims, mallory = idp.claims(), made("RS256", "mallory")

    def own(**header: Any) -> str:
        return signed({**head, **header}, claims, key)

    yield "alg none", f"{part({**head, 'alg': 'none'})}.{part(claims)}."
    yield "alg none with a signature", f"{part({**head, 'alg': 'none'})}.{part(claims)}.AAAA"
    yield "alg nOnE", f"{part({**head, 'alg': 'nOnE'})}.{part(claims)}.AAAA"
    yield "no alg", f"{part({'kid': key.kid})}.{part(claims)}.AAAA"
    yield "alg no text", f"{part({**head, 'alg': ['RS256']})}.{part(claims)}.AAAA"
    pem = key.public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for name, secret in (("PEM", pem), ("stripped PEM", pem.strip()), ("kid", str(key.kid).encode()), ("", b"")):
        yield f"HS256 with the public key: {name}", hmac_signed({**head, "alg": "HS256"}, claims, secret)
    yield "another key under the same kid", signed(head, claims, mallory)
    yield "an injected kid", signed({**head, "kid": "../../../../dev/null"}, claims, mallory)
    yield "a kid that is SQL", signed({**head, "kid": "x' UNION SELECT 'key"}, claims, mallory)
    yield "a kid that is no text", own(kid={"kid": key.kid})
    yield "an own key in the header", signed({**head, "jwk": mallory.as_dict(private=False)}, claims, mallory)
    yield "an own key by URL", signed({**head, "kid": "m", "jku": f"{idp.url}/mallory"}, claims, mallory)
    yield "an own certificate by URL", signed({**head, "kid": "m", "x5u": f"{idp.url}/mallory"}, claims, mallory)
    yield "another algorithm of the key", signed({**head, "alg": "PS256"}, claims, key).replace("=", "x")[:-1] + "!"
    yield "critical extensions", own(crit=["exp"], exp=now)
    yield "unencoded payload", own(crit=["b64"], b64=False)
    yield "empty crit", own(crit=[])
    yield "a logout token", own(typ="logout+jwt")
    yield "another type", own(typ="secevent+jwt")
    wrong: dict[str, dict[str, Any]] = {
        "another audience": {"aud": "https://other.example"},
        "audiences of others": {"aud": ["https://other.example", f"{AUDIENCE}/"]},
        "no audience": {"aud": None},
        "an audience in an object": {"aud": {AUDIENCE: True}},
        "another issuer": {"iss": "https://issuer.example"},
        "nearly this issuer": {"iss": f"{idp.url}/"},
        "no issuer": {"iss": None},
        "a list of issuers": {"iss": [idp.url]},
        "expired": {"exp": now - 60},
        "no expiry": {"exp": None},
        "an expiry as text": {"exp": str(now + 300)},
        "a true expiry": {"exp": True},
        "an endless expiry": {"exp": 10**400},
        "not yet valid": {"nbf": now + 120},
        "made in the future": {"iat": now + 120},
        "nobody": {"sub": None},
        "an empty owner": {"sub": ""},
        "an owner that is no text": {"sub": 7},
        "an owner of two lines": {"sub": "ann\nbob"},
        "a long owner": {"sub": "a" * 256},
    }
    for name, changed in wrong.items():
        yield name, signed(head, idp.claims(**changed), key)
    twice = part(claims)
    text = base64.urlsafe_b64decode(twice + "==").decode()
    for name, raw in {
        "the audience twice": text.replace('"sub"', '"aud": "https://other.example", "sub"'),
        "the owner twice": text[:-1] + ', "sub": "bob"}',
        "not a number": text[:-1] + ', "nbf": NaN}',
        "a nested JWT": idp.token(),
        "a list": f"[{text}]",
        "deep": text[:-1] + ', "x": ' + "[" * 2000 + "]" * 2000 + "}",
        "no UTF-8": text[:-1] + ', "x": "\udcff"}',
    }.items():
        yield name, signed(head, raw.encode(errors="surrogateescape"), key)
    yield "alg twice", part(b'{"alg":"none","alg":"RS256"}') + f".{part(claims)}.AAAA"
    yield "oversized", signed(head, idp.claims(more="x" * 7000), key)
    yield "encrypted", ".".join([part({"alg": "RSA-OAEP", "enc": "A256GCM"}), "AA", "AA", "AA", "AA"])
    good = own()
    yield "padding", f"{good}="
    yield "blanks", good.replace(".", ". ", 1)
    yield "without its signature", good.rpartition(".")[0]
    yield "another alphabet", good.rpartition(".")[0] + ".+/+/"


DOORS = {
    "alg none": ("rest", "jsonrpc", "grpc"),
    "oversized": ("grpc",),  # HTTP refuses such a header by itself
}


@pytest.mark.req("AUTN-02", "AUTN-03", "GATE-01")
async def test_no_forged_token_is_taken() -> None:
    async with issuing("RS256") as idp, house(auth={"issuers": [trusting(idp, cooldown=0.1)]}) as here:
        taken = {}
        for name, token in attacks(idp):
            assert len(token) < 20_000
            for door in DOORS.get(name, ("rest",)):
                told = await here.told(door, bearer(token))
                if told != Told(INVALID, challenge(here, door, presented=True)):
                    taken[name] = told
        assert not taken
        assert await here.told("rest", bearer(idp.token())) == KNOWN
        assert set(idp.asked) == {"/.well-known/openid-configuration", "/jwks"}  # nobody else was asked


GOOD: list[Callable[[Issuer], str]] = [
    lambda idp: idp.token(aud=["https://other.example", AUDIENCE]),
    lambda idp: idp.token(exp=int(time.time()) - 10),  # within the leeway
    lambda idp: idp.token(exp=time.time() + 60.5, nbf=time.time() + 10, iat=None),
    lambda idp: signed({"alg": "ES256", "kid": idp.keys[0].kid}, idp.claims(), idp.keys[0]),
    lambda idp: signed({"alg": "ES256"}, idp.claims(), idp.keys[0]),  # without a kid all keys are tried
    lambda idp: signed({"alg": "ES256", "typ": "application/AT+JWT"}, idp.claims(), idp.keys[0]),
    lambda idp: signed({"alg": "ES256", "x5c": ["A" * 2000], "jku": "http://10.0.0.1/"}, idp.claims(), idp.keys[0]),
]


async def test_what_good_issuers_may_do_differently() -> None:
    async with issuing() as idp, house(auth={"issuers": [trusting(idp)]}) as here:
        for token in GOOD:
            assert await here.told("grpc", bearer(token(idp))) == KNOWN


def ann(**changed: Any) -> Caller:
    return Caller(**{"owner": "ann", "authenticated": True, "scopes": frozenset({"a2a:*"}), **changed})


@pytest.mark.req("AUTN-03", "GATE-01")
@pytest.mark.parametrize(
    ("chosen", "claims", "caller"),
    [
        ({}, {}, ann()),
        ({}, {"scope": None}, ann(scopes=frozenset())),
        ({}, {"scope": "a b", "scp": ["c"]}, ann(scopes=frozenset("abc"))),
        ({"scopes": ["a2a:read"]}, {}, ann(scopes=frozenset({"a2a:read"}))),
        ({"owner_claim": "email"}, {"email": "ann@x"}, ann(owner="ann@x")),
        ({"owner_claim": "https://x.y/who"}, {"https://x.y/who": "eve"}, ann(owner="eve")),
        ({"owner_prefix": "corp/"}, {}, ann(owner="corp/ann")),
        ({"tenant": "north"}, {}, ann(tenant="north")),
        ({"tenant_claim": "org.id"}, {"org": {"id": "south"}}, ann(tenant="south")),
        ({"tenant_claim": "org.id"}, {"org": "south"}, None),
        ({"extended_card": True}, {}, ann(extended_card=True)),
        (
            {"scope_claims": ["realm_access.roles"]},
            {"realm_access": {"roles": ["reader", 7]}},
            ann(scopes=frozenset({"reader"})),
        ),
        ({"required_claims": {"hd": ["x.example", "y.example"]}}, {"hd": "y.example"}, ann()),
        ({"required_claims": {"email_verified": ["true"]}}, {"email_verified": True}, ann()),
        ({"required_claims": {"hd": ["x.example"]}}, {"hd": "y.example"}, None),
        ({"required_claims": {"hd": ["x.example"]}}, {}, None),
        ({"audience_claim": "client_id"}, {"aud": None, "client_id": AUDIENCE}, ann()),
    ],
)
async def test_claims_say_who_calls(chosen: dict[str, Any], claims: dict[str, Any], caller: Caller | None) -> None:
    async with issuing() as idp:
        token = idp.token(**claims)
        assert await known_as({"issuers": [trusting(idp, **chosen)]}, token, token) == [caller] * 2  # then from memory


@pytest.mark.req("AUTN-03")
async def test_two_issuers_cannot_speak_for_each_others_callers() -> None:
    async with issuing() as one, issuing() as two:
        issuers = [trusting(one, name="one"), trusting(two, name="two")]
        forged = signed({"alg": "ES256", "kid": two.keys[0].kid}, one.claims(), two.keys[0])
        known = await known_as({"issuers": issuers}, one.token(), two.token(), forged)
        assert known == [ann(owner="one:ann"), ann(owner="two:ann"), None]
