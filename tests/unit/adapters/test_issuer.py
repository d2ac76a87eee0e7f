"""Which keys of an issuer are used, and for what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from a2a_server.adapters.auth.issuer import MOST_KEYS, keys_of, metadata_urls
from a2a_server.ports.fetching import FetchError
from tests.support.issuers import made

GOOD = made("ES256", "good").as_dict(private=False)
RSA = made("RS256").as_dict(private=False)


def published(*members: Any) -> bytes:
    return json.dumps({"keys": [*members]}).encode()


def short_key() -> dict[str, Any]:
    with pytest.warns(SecurityWarning):
        return dict(RSAKey.generate_key(1024).as_dict(private=False))


@pytest.mark.req("GATE-01")
@pytest.mark.parametrize(
    "member",
    [
        None,
        "key",
        [],
        {},
        {"kty": "EC"},
        {"kty": ["EC"]},
        {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA"},
        OctKey.generate_key(256).as_dict(),
        {**GOOD, "use": "enc"},
        {**GOOD, "key_ops": ["sign"]},
        {**GOOD, "key_ops": 5},
        {**GOOD, "x": 5},
        {**GOOD, "x": "AA"},
        {**GOOD, "crv": "P-1"},
        {**RSA, "n": "!"},
        {**RSA, "e": None},
        {"kty": "OKP", "crv": "X25519", "x": "A" * 44},
        OKPKey.generate_key("X25519").as_dict(private=False),
        {**RSA, "n": "A" * 200_000},
    ],
)
def test_members_that_are_no_keys_for_signatures_are_left_out(member: object) -> None:
    assert [key.kid for key in keys_of(published(member, GOOD))] == ["good"]
    with pytest.raises(FetchError, match="no keys to verify"):
        keys_of(published(member))


def test_short_keys_are_left_out() -> None:
    with pytest.raises(FetchError):
        keys_of(published(short_key()))


@pytest.mark.parametrize("document", [b"", b"[]", b"null", b"{", b"\xff", b"{}", b'{"keys":{}}', b"[" * 100_000])
def test_what_is_no_set_of_keys_is_refused(document: bytes) -> None:
    with pytest.raises(FetchError):
        keys_of(document)


def test_only_so_many_keys_are_read() -> None:
    assert len(keys_of(published(*[GOOD] * (MOST_KEYS + 50)))) == MOST_KEYS


def test_private_parts_are_not_read() -> None:
    key = ECKey.generate_key("P-256")
    (found,) = keys_of(published(key.as_dict(private=True)))
    assert not found.jwk.is_private
    assert found.thumbprint == key.thumbprint()


@pytest.mark.parametrize(
    ("member", "kid", "algorithm", "fits"),
    [
        ({}, "good", "ES256", True),
        ({}, None, "ES256", True),
        ({}, "other", "ES256", False),
        ({"kid": None}, "other", "ES256", True),
        ({"kid": {"a": 1}}, "other", "ES256", False),
        ({"alg": "ES256"}, "good", "ES256", True),
        ({"alg": "ES256"}, "good", "ES384", False),
        ({"alg": ["ES256"]}, "good", "ES256", False),
    ],
)
def test_a_key_is_for_those_tokens_that_name_it(
    member: dict[str, Any], kid: str | None, algorithm: str, *, fits: bool
) -> None:
    (key,) = keys_of(published({**GOOD, **member}))
    assert key.fits(kid, algorithm) is fits


@pytest.mark.parametrize(
    ("issuer", "connect", "oauth"),
    [
        ("https://id.example", "https://id.example/.well-known/{c}", "https://id.example/.well-known/{o}"),
        ("https://id.example/", "https://id.example/.well-known/{c}", "https://id.example/.well-known/{o}"),
        ("https://id.example/a/b", "https://id.example/a/b/.well-known/{c}", "https://id.example/.well-known/{o}/a/b"),
    ],
)
def test_where_metadata_is(issuer: str, connect: str, oauth: str) -> None:
    names = {"c": "openid-configuration", "o": "oauth-authorization-server"}
    assert metadata_urls(issuer) == (connect.format(**names), oauth.format(**names))
