"""Callers known by opaque tokens, whose provider is asked about them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from structlog.testing import capture_logs

from a2a_server.ports.authenticator import Caller
from tests.support.callers import EVERYWHERE, KNOWN, Told, bearer, house, known_as, trusting
from tests.support.issuers import AUDIENCE, Issuer, issuing

SECRET = "s3cret:?"
ASKED = "/introspect"


def asking(idp: Issuer, **chosen: Any) -> dict[str, Any]:
    at = {"url": f"{idp.url}/introspect", "client_id": "a2ad", "client_secret": SECRET, "allow_loopback": True}
    return {**at, **chosen}


def known(**more: Any) -> dict[str, Any]:
    return {"sub": "ann", "scope": "a2a:read booking", **more}


@pytest.mark.req("GATE-09", "AUTN-01", "AUTN-02", "AUTN-05")
@pytest.mark.parametrize("authentication", ["basic", "post"])
async def test_a_token_that_the_provider_knows_opens_every_door(authentication: str) -> None:
    async with issuing() as idp:
        idp.opaque["good"] = known()
        auth = {"introspection": [asking(idp, client_authentication=authentication)]}
        async with house(gateway=True, auth=auth) as here:
            for door in EVERYWHERE:
                assert await here.told(door, bearer("good")) == KNOWN, door
                told = await here.told(door, bearer("bad"))
                assert (told.code, 'error="invalid_token"' in told.challenge) == ("UNAUTHENTICATED", True), door
            assert idp.asked[ASKED] == 2  # each once: the answers are remembered
            at = f"{here.base}/.well-known/agent-card.json"
            async with here.session.get(at, headers={"A2A-Version": "1.0"}) as card:
                declared = (await card.json())["securitySchemes"]
            assert declared == {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}


@pytest.mark.req("GATE-09", "AUTN-03")
@pytest.mark.parametrize(
    ("chosen", "answer", "owner"),
    [
        ({}, known(), "ann"),
        ({}, known(exp=time.time() + 36000, nbf=time.time() - 5), "ann"),
        ({}, known(exp=time.time() - 1), None),
        ({}, known(nbf=time.time() + 36000), None),
        ({}, known(exp="soon"), None),
        ({}, known(active=False), None),
        ({}, known(active="true"), None),
        ({}, known(sub=None), None),
        ({"owner_claim": "username"}, known(username="eve"), "eve"),
        ({"audiences": [AUDIENCE]}, known(aud=AUDIENCE), "ann"),
        ({"audiences": [AUDIENCE]}, known(aud="https://other.example"), None),
        ({"audiences": [AUDIENCE]}, known(), None),
        ({"issuer": "https://id.example"}, known(iss="https://id.example"), "ann"),
        ({"issuer": "https://id.example"}, known(iss="https://other.example"), None),
        ({"required_claims": {"client_id": ["web"]}}, known(client_id="app"), None),
    ],
)
async def test_the_answer_says_who_calls(chosen: dict[str, Any], answer: dict[str, Any], owner: str | None) -> None:
    async with issuing() as idp:
        idp.opaque["token"] = answer
        (caller,) = await known_as({"introspection": [asking(idp, **chosen)]}, "token")
    scopes = frozenset({"a2a:read", "booking"})
    assert caller == (Caller(owner, authenticated=True, scopes=scopes) if owner else None)


async def test_answers_are_kept_for_a_while() -> None:
    async with issuing() as idp, house(auth={"introspection": [asking(idp, cache=1, cache_refused=1)]}) as here:
        idp.opaque["a"] = known()
        assert await here.told("grpc", bearer("a")) == KNOWN
        assert (await here.told("grpc", bearer("b"))).code == "UNAUTHENTICATED"
        idp.opaque = {"b": known()}
        await asyncio.sleep(1.1)
        assert (await here.told("grpc", bearer("a"))).code == "UNAUTHENTICATED"  # it has been revoked
        assert await here.told("grpc", bearer("b")) == KNOWN


async def test_an_answer_is_not_kept_longer_than_its_token() -> None:
    async with issuing() as idp, house(auth={"introspection": [asking(idp)]}) as here:
        idp.opaque["a"] = known(exp=time.time() + 3)
        assert await here.told("grpc", bearer("a")) == KNOWN
        await asyncio.sleep(3.1)
        assert (await here.told("grpc", bearer("a"))).code == "UNAUTHENTICATED"


@pytest.mark.req("GATE-09")
@pytest.mark.parametrize("mood", ["stalling", "garbage", "huge", "redirecting", "failing", "dead"])
async def test_without_its_provider_only_remembered_tokens_are_taken(mood: str) -> None:
    async with issuing() as idp:
        idp.opaque = {"a": known(), "b": known(), "c": known()}
        async with house(gateway=True, auth={"introspection": [asking(idp, timeout=2)]}) as here:
            assert await here.told("grpc", bearer("a")) == KNOWN
            idp.mood = mood
            if mood == "dead":
                await idp.die()
            assert await here.told("grpc", bearer("a")) == KNOWN
            with capture_logs() as logs:
                for told in await asyncio.gather(*(here.told(door, bearer("b")) for door in EVERYWHERE)):
                    assert (told.code, told.challenge) == ("UNAVAILABLE", "")
            assert len([line for line in logs if line["event"] == "introspection.failed"]) == 1  # not with each guess
            if mood != "dead":
                idp.mood = "well"
                assert await here.told("grpc", bearer("b")) == KNOWN


@pytest.mark.req("GATE-09")
async def test_who_guesses_tokens_cannot_flood_the_provider() -> None:
    async with issuing() as idp, house(auth={"introspection": [asking(idp, concurrency=4)]}) as here:
        idp.opaque["good"] = known()
        guesses = [here.told("rest", bearer(f"guess-{number}")) for number in range(60)]
        told = await asyncio.gather(*guesses)
        assert {each.code for each in told} == {"UNAUTHENTICATED", "UNAVAILABLE"}
        assert all(each.retry for each in told if each.code == "UNAVAILABLE")
        assert idp.busiest <= 4
        assert await here.told("rest", bearer("good")) == KNOWN


async def test_one_question_serves_all_who_present_a_token() -> None:
    async with issuing() as idp, house(auth={"introspection": [asking(idp)]}) as here:
        idp.opaque["good"] = known()
        left = asyncio.create_task(here.told("grpc", bearer("good")))
        others = [asyncio.create_task(here.told("grpc", bearer("good"))) for _ in range(20)]
        await asyncio.sleep(0)
        left.cancel()
        assert set(await asyncio.gather(*others)) == {KNOWN}
        assert idp.asked[ASKED] == 1


async def test_signed_tokens_are_left_to_their_issuer() -> None:
    async with issuing() as idp:
        auth = {"issuers": [trusting(idp, name="signed")], "introspection": [asking(idp, name="opaque")]}
        async with house(auth=auth) as here:
            idp.opaque["opaque-token"] = known()
            for token in (idp.token(), "opaque-token"):
                assert await here.told("rest", bearer(token)) == KNOWN
            assert (await here.told("rest", bearer(idp.token(aud="x")))).code == "UNAUTHENTICATED"
            assert idp.asked[ASKED] == 1
        async with house(auth={"introspection": [asking(idp)]}) as here:
            idp.opaque[token := idp.token()] = known()
            assert await here.told("rest", bearer(token)) == KNOWN  # without issuers all are asked about
            assert await here.told("rest", {}) == Told("UNAUTHENTICATED", (await here.told("rest", {})).challenge)
