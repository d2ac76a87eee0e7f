"""The official SDKs verify our cards, and we verify theirs (spec: SIGN-06)."""

from __future__ import annotations

import asyncio
import importlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import httpx
import jwt
import pytest
from a2a.client import A2ACardResolver
from google.protobuf.json_format import MessageToDict, ParseDict

from a2a_proto import a2a_pb2 as pb
from tests.e2e.processes import serving
from tests.interop.environments import installed, python_0_3
from tests.support.card_keys import EC, ED, RSA, TOKEN, fits, pem

signing: Any = importlib.import_module("a2a.utils.signing")  # its types are of its own protos
CARD, JWKS = "/.well-known/agent-card.json", "/.well-known/jwks.json"
ALGORITHMS = ["ES256", "RS256", "EdDSA"]
KEYS: Mapping[str, Any] = {"ES256": EC, "RS256": RSA, "EdDSA": ED}
THEIRS = {
    "name": "Grüße \U0001f600",
    "description": "",
    "version": "1",
    "supportedInterfaces": [{"url": "https://a.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {
        "streaming": False,
        "extensions": [{"uri": "urn:x", "params": {"": "", "ﬀ": 1e21, "\U0001f600": 0.1, "none": None, "deep": [{}]}}],
    },
    "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
    "securityRequirements": [{"schemes": {"bearer": {}}}],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [],
}
CANONICAL = """
import sys
from a2a.types import AgentCard
from a2a.utils.helpers import canonicalize_agent_card
print(canonicalize_agent_card(AgentCard.model_validate_json(sys.stdin.read())))
"""


@pytest.fixture(params=ALGORITHMS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A server whose readings differ: its scheme asks for no scopes, which the SDKs leave out."""
    with serving(
        cwd=tmp_path,
        A2A_STORE="memory:",
        A2A_CARD__SIGNING_KEYS=json.dumps([pem(KEYS[request.param])]),
        A2A_AUTH__TOKENS=json.dumps([{"owner": "ann", "hash": TOKEN}]),
        A2A_GATEWAY__CARD_MAX_AGE="0",
    ) as server:
        yield server.http


def fetched(url: str, **headers: str) -> Any:
    with urlopen(Request(url, headers=headers)) as answer:  # noqa: S310 - of ours
        return json.load(answer)


@pytest.mark.req("SIGN-06")
@pytest.mark.parametrize("headers", [{}, {"A2A-Version": "1.0"}], ids=["no version", "1.0"])
def test_the_python_sdk_verifies_our_card(url: str, headers: dict[str, str]) -> None:
    keys = {key["kid"]: key for key in fetched(url + JWKS)["keys"]}

    def find(kid: str, jku: str) -> Any:
        assert jku == url + JWKS
        return jwt.PyJWK(keys[kid])

    verify = signing.create_signature_verifier(find, ALGORITHMS)

    async def resolve() -> Any:
        async with httpx.AsyncClient() as client:
            resolver = A2ACardResolver(client, url)
            return await resolver.get_agent_card(http_kwargs={"headers": headers}, signature_verifier=verify)

    card = asyncio.run(resolve())
    card.description = "Not what was signed."
    with pytest.raises(signing.InvalidSignaturesError):
        verify(card)


@pytest.mark.req("SIGN-06")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_we_verify_a_card_that_the_python_sdk_has_signed(algorithm: str, tmp_path: Path) -> None:
    key: Any = KEYS[algorithm]
    header = {"alg": algorithm, "kid": "theirs", "typ": "JOSE", "jku": None}
    sign = signing.create_agent_card_signer(jwt.PyJWK({**key.as_dict(private=True), "alg": algorithm}), header)
    card = MessageToDict(sign(ParseDict(THEIRS, pb.AgentCard())))
    check_theirs(card, {"keys": [{**key.as_dict(private=False), "kid": "theirs"}]}, tmp_path)


def check_theirs(card: Any, jwks: Any, tmp_path: Path) -> None:
    """It is verified as it was signed, and not when it was changed."""
    from tests.unit.cli.test_card_verify import site, verified  # noqa: PLC0415 - a web server of somebody else

    (tmp_path / "keys.json").write_text(json.dumps(jwks))
    with site({CARD: json.dumps(card).encode()}) as base:
        done = verified(base, "--jwks", str(tmp_path / "keys.json"), "--json")
        assert done.exit_code == 0, done.stdout
    card["description"] = "Not what was signed."
    with site({CARD: json.dumps(card).encode()}) as base:
        assert verified(base, "--jwks", str(tmp_path / "keys.json")).exit_code == 1


@pytest.mark.long
@pytest.mark.req("SIGN-06")
def test_the_javascript_sdk_verifies_our_card(url: str) -> None:
    line = [*installed("sdk-js-1.3", "signatures.mjs"), "verify", url]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "verified\n"), done.stderr


@pytest.mark.long
@pytest.mark.req("SIGN-06")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_we_verify_a_card_that_the_javascript_sdk_has_signed(algorithm: str, tmp_path: Path) -> None:
    line = [*installed("sdk-js-1.3", "signatures.mjs"), "sign", algorithm]
    done = subprocess.run(line, input=json.dumps(THEIRS), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    check_theirs(told["card"], told["jwks"], tmp_path)


@pytest.mark.req("SIGN-06")
@pytest.mark.parametrize("headers", [{}, {"A2A-Version": "0.3"}], ids=["no version", "0.3"])
def test_the_python_sdk_of_0_3_reads_what_we_have_signed(url: str, headers: dict[str, str]) -> None:
    """It verifies with PyJWT over these bytes."""
    card, keys = fetched(url + CARD, **headers), fetched(url + JWKS)
    line = [python_0_3("-")[0], "-c", CANONICAL]
    done = subprocess.run(line, input=json.dumps(card), capture_output=True, text=True, timeout=60, check=True)
    assert any(fits(entry, done.stdout.rstrip("\n").encode(), keys) for entry in card["signatures"])
