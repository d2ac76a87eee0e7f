"""Signed cards, as operators and clients meet them: the real commands (spec: SIGN-01, SIGN-06, CLI-68)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.processes import command, serving
from tests.support.card_keys import EC, ED, RSA, pem

CARD, JWKS = "/.well-known/agent-card.json", "/.well-known/jwks.json"


@pytest.mark.req("SIGN-01", "SIGN-06", "CLI-68")
def test_our_own_card_is_verified(tmp_path: Path) -> None:
    keys = {"A2A_CARD__SIGNING_KEYS": json.dumps([pem(EC), pem(RSA), pem(ED)]), "A2A_STORE": "memory:"}
    with serving(cwd=tmp_path, **keys) as server:
        for more in ((), ("--a2a-version", "0.3"), ("--a2a-version", "none")):
            done = command("card", "verify", server.http, *more, cwd=tmp_path)
            assert (done.returncode, done.stderr) == (0, ""), done.stdout
            assert done.stdout.splitlines()[-1].endswith(": Demo: verified")
        assert command("card", "get", server.http, cwd=tmp_path).stdout.endswith("\nSignatures: verified\n")
        done = command("card", "verify", f"{server.http}{CARD}", "--json", cwd=tmp_path)
        report = json.loads(done.stdout)
        assert (done.returncode, report["verified"], report["name"]) == (0, True, "Demo")
        assert [each["algorithm"] for each in report["signatures"]][:3] == ["ES256", "RS256", "EdDSA"]
        assert {each["valid"] for each in report["signatures"]} == {True}
        assert {each["key_set"] for each in report["signatures"]} == {f"{server.http}{JWKS}"}


@pytest.mark.req("CLI-68")
def test_a_card_without_signatures_is_not_verified(tmp_path: Path) -> None:
    with serving("--store", "memory:", cwd=tmp_path) as server:
        done = command("card", "verify", server.http, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, f"{server.http}{CARD}: Demo: not signed\n")


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ([pem(EC, private=False)], "card.signing_keys must hold a private key: it signs"),
        ([pem(EC), pem(EC)], "card.signing_keys[1] has the kid"),
        ([pem(EC), "nonsense"], "card.signing_keys[1] must be an EC key on P-256, an RSA key of at least 2048 bits"),
        (['{"kty": "oct", "k": "AAAA"}'], "card.signing_keys[0] must be an EC key on P-256"),
        (["file:absent.pem"], "the file 'absent.pem' cannot be read"),
    ],
)
def test_keys_that_cannot_sign_stop_the_start(keys: list[str], fault: str, tmp_path: Path) -> None:
    variables = {"A2A_CARD__SIGNING_KEYS": json.dumps(keys), "A2A_GRPC": "127.0.0.1:0", "A2A_HTTP": "127.0.0.1:0"}
    done = command("serve", "--store", "memory:", cwd=tmp_path, **variables)
    assert done.returncode == 2, done.stderr
    assert fault in done.stderr
    assert "PRIVATE" not in done.stderr
