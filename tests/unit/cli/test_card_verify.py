"""`a2ad card verify`, before servers that are honest, careless or hostile (spec: SIGN-04, SIGN-06, CLI-68)."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from joserfc.util import urlsafe_b64encode

from a2a_proto import a2a_pb2 as pb
from a2a_server.serve.parts import card_signer_of
from a2a_server.settings import Settings
from tests.support.card_keys import EC, OTHER, header_of, pem
from tests.support.house import V1, a2ad

CARD, JWKS = "/.well-known/agent-card.json", "/.well-known/jwks.json"


@contextmanager
def site(pages: dict[str, Any]) -> Iterator[str]:
    """Somebody's web server."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            if callable(page):
                page(self)
                return
            self.send_response(200 if page is not None else 404)
            self.end_headers()
            self.wfile.write(page or b"")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def key_set(*keys: Any, **more: Any) -> bytes:
    return json.dumps(
        {"keys": [{**key.as_dict(private=False), "kid": key.thumbprint(), **more} for key in keys]}
    ).encode()


def signed(base: str, *keys: Any, **changed: Any) -> bytes:
    card = pb.AgentCard(name="Theirs", description="", version="1")
    card.supported_interfaces.add(url="https://agents.example", protocol_binding="JSONRPC", protocol_version="1.0")
    signer = card_signer_of(Settings(card={"signing_keys": [pem(key) for key in keys or (EC,)]}))
    assert signer is not None
    return json.dumps({**json.loads(V1.encode(signer.signed(card, base))), **changed}).encode()


def resigned(base: str, protected: str = "", **header: Any) -> bytes:
    """A card whose first signature has another protected header, with members that are None left out."""
    card = json.loads(signed(base))
    (entry, *_) = card["signatures"]
    told = {name: value for name, value in {**header_of(entry), **header}.items() if value is not None}
    entry["protected"] = protected or urlsafe_b64encode(json.dumps(told).encode()).decode()
    return json.dumps({**card, "signatures": [entry]}).encode()


@contextmanager
def told(make: Callable[[str], dict[str, Any]]) -> Iterator[str]:
    """A site whose pages know its URL."""
    pages: dict[str, Any] = {}
    with site(pages) as base:
        pages.update(make(base))
        yield base


BAD: Mapping[str, tuple[Callable[[str], bytes], str]] = {
    "changed": (lambda base: signed(base, description="Pays more."), "the card was changed"),
    "another key": (lambda base: signed(base, OTHER), f"has no key {OTHER.thumbprint()}"),
    "another origin": (lambda _: signed("https://evil.example"), "is not of the card's origin"),
    "another port": (lambda _: signed("http://127.0.0.1:1"), "is not of the card's origin"),
    "no key set": (lambda base: resigned(base, jku=None), "names no key set (jku)"),
    "a key set that is no URL": (lambda base: resigned(base, jku=7), "is not of the card's origin"),
    "no key": (lambda base: resigned(base, kid=None), "names no key (kid)"),
    "no algorithm": (lambda base: resigned(base, alg=None), "the algorithm None is not accepted"),
    "none": (lambda base: resigned(base, alg="none"), "the algorithm none is not accepted"),
    "a shared secret": (lambda base: resigned(base, alg="HS256"), "the algorithm HS256 is not accepted"),
    "an algorithm of other keys": (lambda base: resigned(base, alg="RS256"), "it cannot be checked"),
    "critical members": (lambda base: resigned(base, crit=["x"], x=1), "critical members (crit)"),
    "padded": (lambda base: resigned(base, protected="e30="), "is padded"),
    "no header": (lambda base: resigned(base, protected="?"), "is not base64url"),
    "a list as header": (
        lambda base: signed(base, signatures=[{"protected": "W10", "signature": "AA"}]),
        "no JSON object",
    ),
    "no members": (lambda base: signed(base, signatures=["x"]), "has no members protected and signature"),
}


def verified(*arguments: str) -> Result:
    return CliRunner().invoke(a2ad, ["card", "verify", *arguments])


@pytest.mark.req("SIGN-04", "SIGN-05", "CLI-68")
@pytest.mark.parametrize("fault", BAD)
def test_what_is_wrong_with_a_signature_is_said(fault: str) -> None:
    make, why = BAD[fault]
    with told(lambda base: {CARD: make(base), JWKS: key_set(EC)}) as base:
        done = verified(base)
        assert done.exit_code == 1
        assert why in done.stdout
        assert done.stdout.splitlines()[-1].endswith(": not verified")


@pytest.mark.req("SIGN-04")
@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"revoked": {"revoked_at": 1}}, "its key is revoked"),
        ({"exp": 1_700_000_000}, "its key has expired"),
        ({"use": "enc"}, "its key is meant for something else"),
        ({"alg": "ES384"}, "its key is meant for something else"),
        ({"x": "AA"}, "its key cannot be read"),
        ({"kty": "oct", "k": "AA"}, "its key cannot be read"),
    ],
)
def test_keys_that_may_not_be_used_verify_nothing(members: dict[str, Any], why: str) -> None:
    with told(lambda base: {CARD: signed(base), JWKS: key_set(EC, **members)}) as base:
        done = verified(base)
        assert done.exit_code == 1
        assert why in done.stdout


@pytest.mark.req("SIGN-04")
def test_the_key_set_that_the_user_names_is_believed_instead(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_bytes(key_set(EC))
    with told(
        lambda _: {CARD: signed("https://evil.example"), "/keys": key_set(EC), "/others": key_set(OTHER)}
    ) as base:
        for jwks, code in (
            (str(tmp_path / "mine.json"), 0),
            (f"{base}/keys", 0),
            (f"{base}/others", 1),
            ("absent.json", 1),
        ):
            done = verified(base, "--jwks", jwks)
            assert done.exit_code == code, done.stdout


@pytest.mark.req("SIGN-04")
def test_one_valid_signature_is_enough() -> None:
    with told(lambda base: {CARD: signed(base, OTHER, EC), JWKS: key_set(EC)}) as base:
        done = verified(base)
        assert done.exit_code == 0
        assert ["invalid:" in line for line in done.stdout.splitlines()[:2]] == [True, False]


def _moved(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(302)
    request.send_header("Location", "https://evil.example/card.json")
    request.end_headers()


def _endless(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    try:
        while True:
            request.wfile.write(b" " * 65536)
    except OSError:
        pass


def _slow(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    try:
        for _ in range(300):
            request.wfile.write(b" ")
            time.sleep(0.1)
    except OSError:
        pass


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (None, "answered 404"),
        (_moved, "answered 302, and points to https://evil.example/card.json"),
        (_endless, "has more than 1048576 bytes"),
        (_slow, "did not come within 0.5 seconds"),
        (b"<html>", "is no JSON"),
        (b"[]", "is no JSON object"),
        (b'{"signatures": {}}', "signatures must be a list"),
        (b'{"a": %s, "signatures": [1]}' % (b"[" * 200 + b"]" * 200), "nests deeper"),
        (b'{"a": 1%s, "signatures": [1]}' % (b"0" * 400), "is no JSON"),
        (b'{"signatures": [1], "signatures": []}', "more than once"),
        (b'{"signatures": [%s1]}' % (b"1," * 40), "signatures must be a list of at most 32"),
    ],
)
def test_what_is_no_card_or_does_not_come_is_said(page: Any, why: str) -> None:
    with site({CARD: page} if page else {}) as base:
        done = verified(base, "--timeout", "0.5")
        assert done.exit_code == 1
        assert done.stderr.startswith(f"Error: {base}{CARD}: ")
        assert why in done.stderr


def test_nobody_there_is_said() -> None:
    done = verified("http://127.0.0.1:1")
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: http://127.0.0.1:1{CARD}: ")


@pytest.mark.parametrize("url", ["agents.example", "ftp://a.example", "http://", "http://a:0", "http://[", ""])
def test_what_is_no_url_is_a_wrong_use(url: str) -> None:
    done = verified(url)
    assert done.exit_code == 2
    assert "must be a URL such as https://agents.example" in done.stderr


def test_words_of_others_do_not_move_the_cursor() -> None:
    with told(lambda base: {CARD: signed(base, name="\x1b[2J"), JWKS: key_set(EC)}) as base:
        assert "\x1b" not in verified(base).stdout
