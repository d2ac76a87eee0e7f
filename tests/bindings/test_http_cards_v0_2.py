"""Where clients of 0.2 look for the cards (spec: LOLD-01, LOLD-02, LCRD-05; CONF-40, CONF-42)."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, get_args
from urllib.parse import urljoin

import pytest
from a2a.compat.v0_3.types import AgentCard as OldCard

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.authenticator import Caller
from a2a_server.serve import relaying
from a2a_server.settings import Settings
from tests.support.http import get, house, once, port_of, post
from tests.support.stage import Stage

WELL_KNOWN = "/.well-known/agent.json"
EXTENDED = "/agent/authenticatedExtendedCard"
CARD = "/.well-known/agent-card.json"
ROOT, ANN = "Authorization: Bearer root-token", "Authorization: Bearer ann-token"


def hashed(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


AUTH = {
    "tokens": [
        {"owner": "ann", "hash": hashed("ann-token")},
        {"owner": "root", "hash": hashed("root-token"), "extended_card": True},
    ]
}

Where = Literal["near", "far"]


def extend(card: pb.AgentCard, caller: Caller) -> pb.AgentCard:
    card.skills.add(id="secret", name="Secret", description=f"For {caller.owner}.", tags=["test"])
    return card


def nothing(card: pb.AgentCard, caller: Caller) -> None:
    """Declares an extended card, and has none."""


@pytest.fixture(params=get_args(Where))
def where(request: pytest.FixtureRequest) -> Where:
    place: Where = request.param
    return place


@asynccontextmanager
async def cards(where: Where, *, extended: Any = extend, auth: Any = AUTH, **settings: Any) -> AsyncIterator[int]:
    """The port of a door with cards."""
    stage = Stage(extended=extended) if extended else Stage()
    async with house(stage.agent, auth=auth, **settings) as server:
        if where == "near":
            yield port_of(server)
            return
        alone = Settings(http="127.0.0.1:0", upstream={"addresses": [str(server.grpc)]}, **settings)
        async with relaying(alone) as address:
            yield address.port


def info(reason: str, number: int, domain: str = "a2a-protocol.org", **metadata: str) -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": domain,
        "metadata": {**metadata, "jsonrpcCode": str(number)},
    }


@pytest.mark.req("LOLD-01")
async def test_the_card_is_where_it_was_in_the_form_of_0_3(where: Where) -> None:
    async with cards(where) as port:
        answer = await once(port, get(WELL_KNOWN, "Origin: https://any.example"))
        wanted = await once(port, get(CARD, "A2A-Version: 0.3"))
        assert (answer.status, answer.body) == (200, wanted.body)
        for name in ("Content-Type", "Cache-Control", "ETag", "Vary", "Access-Control-Allow-Origin"):
            assert answer.headers[name] == wanted.headers[name]
        OldCard.model_validate(answer.json)
        assert (await once(port, get(WELL_KNOWN, "A2A-Version: 0.3.0", "Accept: text/html"))).body == wanted.body
        head = await once(port, get(WELL_KNOWN, verb="HEAD"), head=True)
        assert (head.status, head.headers["Content-Length"]) == (200, str(len(wanted.body)))
        known = f"If-None-Match: {answer.headers['ETag']}"
        assert (await once(port, get(WELL_KNOWN, known))).status == 304


@pytest.mark.req("LOLD-02")
async def test_the_extended_card_is_beside_the_main_url(where: Where) -> None:
    async with cards(where) as port:
        public = (await once(port, get(WELL_KNOWN))).json
        url = urljoin(public["url"] + "/", "../agent/authenticatedExtendedCard")
        answer = await once(port, get(url, ROOT))
    assert public["supportsAuthenticatedExtendedCard"] is True
    assert url == f"http://127.0.0.1:{port}{EXTENDED}"
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.headers["Cache-Control"] == "no-store"
    assert not {"ETag", "Access-Control-Allow-Origin"} & set(answer.headers)
    card = OldCard.model_validate(answer.json)
    assert (card.skills[-1].description, card.url, card.protocol_version) == ("For root.", public["url"], "0.3.0")


@pytest.mark.req("LOLD-02", "CARD-11", "XCARD-01")
async def test_it_needs_credentials(where: Where) -> None:
    async with cards(where) as port:
        answer = await once(port, get(EXTENDED))
        wrong = await once(port, get(EXTENDED, "Authorization: Bearer wrong"))
    metadata = f"http://127.0.0.1:{port}/.well-known/oauth-protected-resource"
    challenge = f'Bearer realm="a2a", resource_metadata="{metadata}"'
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, challenge)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json["error"]["code"] == 401
    assert answer.json["error"]["status"] == "UNAUTHENTICATED"
    assert answer.reason == "UNAUTHENTICATED"
    assert (wrong.status, set(wrong.headers) >= {"WWW-Authenticate"}) == (401, True)


@pytest.mark.req("LOLD-02", "XCARD-03")
async def test_whoever_may_not_read_it_is_told_so(where: Where) -> None:
    async with cards(where) as port:
        answer = await once(port, get(EXTENDED, ANN))
    assert (answer.status, answer.headers["Content-Type"]) == (403, "application/json")
    assert (answer.json["error"]["status"], answer.reason) == ("PERMISSION_DENIED", "PERMISSION_DENIED")
    assert answer.json["error"]["message"] == (
        "GetExtendedAgentCard needs the scope a2a:GetExtendedAgentCard, which these credentials do not have."
    )
    assert b"secret" not in answer.body.lower()


@pytest.mark.req("LOLD-02", "LCRD-05")
@pytest.mark.parametrize(
    ("extended", "message"),
    [(None, "The agent has no card for callers with credentials."), (nothing, "The extended card is not configured.")],
)
async def test_one_that_is_not_there_is_not_found(where: Where, extended: Any, message: str) -> None:
    """Whether the card promises it or not."""
    async with cards(where, extended=extended) as port:
        answer = await once(port, get(EXTENDED, ROOT))
    assert (answer.status, answer.headers["Content-Type"]) == (404, "application/json")
    assert answer.json["error"] == {
        "code": 404,
        "status": "NOT_FOUND",
        "message": message,
        "details": [info("EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007)],
    }


@pytest.mark.req("LOLD-02", "ERRS-07")
async def test_what_breaks_tells_nothing(where: Where) -> None:
    def broken(card: pb.AgentCard, caller: Caller) -> pb.AgentCard:
        raise RuntimeError("postgres://admin:hunter2@db.internal/")

    async with cards(where, extended=broken) as port:
        answer = await once(port, get(EXTENDED, ROOT))
    assert (answer.status, answer.json["error"]["message"]) == (500, "Internal error.")
    assert b"hunter2" not in answer.body


@pytest.mark.req("LOLD-02")
async def test_an_upstream_that_is_away_is_unavailable() -> None:
    alone = Settings(http="127.0.0.1:0", upstream={"addresses": ["127.0.0.1:1"], "attempts": 1})
    async with relaying(alone) as address:
        for path in (EXTENDED, WELL_KNOWN):
            answer = await once(address.port, get(path))
            assert (answer.status, answer.json["error"]["status"]) == (503, "UNAVAILABLE")
            assert answer.headers["Retry-After"] == "1"


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0, text/*"])
async def test_there_is_nothing_but_json(where: Where, accept: str) -> None:
    async with cards(where) as port:
        answer = await once(port, get(EXTENDED, ROOT, f"Accept: {accept}"))
    assert (answer.status, answer.headers["Content-Type"], answer.reason) == (406, "application/json", "NOT_ACCEPTABLE")


@pytest.mark.req("VERS-02", "VERS-08")
@pytest.mark.parametrize("path", [WELL_KNOWN, EXTENDED])
@pytest.mark.parametrize("version", ["1.0", "0.2.5", "x"])
async def test_these_paths_are_of_0_3_whatever_the_header_says(where: Where, path: str, version: str) -> None:
    async with cards(where) as port:
        answers = [
            await once(port, get(path, ROOT, f"A2A-Version: {version}")),
            await once(port, get(f"{path}?A2A-Version={version}", ROOT)),
        ]
    for answer in answers:
        assert (answer.status, answer.headers["Content-Type"]) == (400, "application/json")
        assert answer.json["error"] == {
            "code": 400,
            "status": "UNIMPLEMENTED",
            "message": f'This path is A2A 0.3, but A2A-Version says "{version}"; leave it out, or send 0.3.',
            "details": [info("VERSION_NOT_SUPPORTED", -32009, requestedVersion=version, supportedVersions="0.3")],
        }
        assert ("Access-Control-Allow-Origin" in answer.headers) == (path == WELL_KNOWN)


@pytest.mark.parametrize("path", [WELL_KNOWN, EXTENDED])
async def test_they_can_only_be_read(where: Where, path: str) -> None:
    async with cards(where) as port:
        answer = await once(port, post(path, b"{}"))
        asked = await once(port, get(path, verb="OPTIONS"))
    assert (answer.status, answer.headers["Allow"], answer.reason) == (405, "GET, HEAD, OPTIONS", "METHOD_NOT_ALLOWED")
    assert (asked.status, asked.headers["Allow"]) == (204, "GET, HEAD, OPTIONS")
    for one in (answer, asked):
        assert ("Access-Control-Allow-Origin" in one.headers) == (path == WELL_KNOWN)


async def test_tenants_have_them_too(where: Where) -> None:
    async with cards(where, tenants=["north"]) as port:
        assert (await once(port, get(f"/north{WELL_KNOWN}"))).json["url"] == f"http://127.0.0.1:{port}/north/"
        assert (await once(port, get(f"/north{EXTENDED}", ROOT))).json["skills"][-1]["id"] == "secret"
        refused = await once(port, get(f"/south{EXTENDED}", ROOT))
        assert (refused.status, refused.reason) == (403, "PERMISSION_DENIED")


@pytest.mark.parametrize("path", [WELL_KNOWN, EXTENDED, f"/north{WELL_KNOWN}", f"/north{EXTENDED}"])
async def test_without_0_3_there_is_nothing(where: Where, path: str) -> None:
    async with cards(where, legacy={"enabled": False}) as port:
        answer = await once(port, get(path, ROOT))
        asked = await once(port, get(path, verb="OPTIONS"))
    for nothing_there in (answer, asked):
        assert (nothing_there.status, nothing_there.reason) == (404, "PATH_NOT_FOUND")


async def test_other_paths_are_still_nowhere(where: Where) -> None:
    async with cards(where) as port:
        for path in ("/agent", "/agent/authenticatedExtendedCard/x", "/.well-known/agent", "/tasks/"):
            answer = await once(port, get(path, ROOT))
            assert (answer.status, answer.reason) == (404, "PATH_NOT_FOUND")
            assert ("slash at its end" in answer.json["error"]["message"]) == path.endswith("/")
