"""An issuer that rotates its keys, stalls, lies and dies: known keys stay, and nobody can make us hammer it."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from structlog.testing import capture_logs

from tests.support.callers import EVERYWHERE, KNOWN, House, bearer, house, trusting
from tests.support.issuers import Issuer, issuing, made, signed

BAD_MOODS = ("stalling", "garbage", "huge", "redirecting", "failing", "empty", "lying")
QUICK: dict[str, Any] = {"cooldown": 0.1, "timeout": 1, "refresh": 1}
ANY_GUESSES = {"wrong_credentials": 0}


def stranger(idp: Issuer, number: int = 0) -> dict[str, str]:
    """A token with a key that the issuer never had."""
    return bearer(signed({"alg": "ES256", "kid": f"invented-{number}"}, idp.claims(), made()))


async def becomes(here: House, headers: dict[str, str], code: str) -> None:
    async with asyncio.timeout(30):
        while (await here.told("grpc", headers)).code != code:  # noqa: ASYNC110 - as a client polls
            await asyncio.sleep(0.05)


@pytest.mark.req("GATE-01")
async def test_new_keys_are_known_without_a_restart() -> None:
    async with issuing() as idp, house(auth={"issuers": [trusting(idp, refresh=3600, cooldown=0.1)]}) as here:
        old = bearer(idp.token())
        assert await here.told("rest", old) == KNOWN
        idp.rotate()
        assert await here.told("rest", bearer(idp.token())) == KNOWN
        assert await here.told("rest", old) == KNOWN
        idp.rotate(keep=False)
        assert await here.told("rest", bearer(idp.token())) == KNOWN
        await becomes(here, old, "UNAUTHENTICATED")  # though it was verified a moment ago
        assert idp.asked["/jwks"] <= 4


@pytest.mark.req("GATE-01")
async def test_keys_that_are_withdrawn_are_forgotten_with_the_next_fetch() -> None:
    async with issuing() as idp, house(auth={"issuers": [trusting(idp, **QUICK)]}) as here:
        old = bearer(idp.token())
        await becomes(here, old, "NOT_FOUND")
        idp.rotate(keep=False)
        await becomes(here, old, "UNAUTHENTICATED")


@pytest.mark.req("GATE-01")
async def test_strangers_cannot_make_us_hammer_the_issuer() -> None:
    async with issuing() as idp, house(rates=ANY_GUESSES, auth={"issuers": [trusting(idp, cooldown=300)]}) as here:
        good = bearer(idp.token())
        assert await here.told("rest", good) == KNOWN
        guesses = [asyncio.create_task(here.told("rest", stranger(idp, number))) for number in range(80)]
        await asyncio.sleep(0.3)
        assert not any(guess.done() for guess in guesses)  # they wait for the one fetch that there will be
        assert idp.asked["/jwks"] == 1
        assert await here.told("rest", good) == KNOWN
        assert await here.told("rest", bearer(idp.token(sub="bob"))) == KNOWN
        for guess in guesses:
            guess.cancel()
        await asyncio.gather(*guesses, return_exceptions=True)


async def test_only_so_many_wait_for_a_fetch() -> None:
    async with issuing() as idp, house(rates=ANY_GUESSES, auth={"issuers": [trusting(idp, cooldown=300)]}) as here:
        assert await here.told("grpc", bearer(idp.token())) == KNOWN
        guesses = [asyncio.create_task(here.told("grpc", stranger(idp))) for _ in range(300)]
        async with asyncio.timeout(30):
            while sum(guess.done() for guess in guesses) < 44:  # noqa: ASYNC110 - whichever these are
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)
        done = [guess.result() for guess in guesses if guess.done()]
        assert {(told.code, told.retry) for told in done} == {("UNAVAILABLE", True)}
        assert len(done) == 300 - 256
        for guess in guesses:
            guess.cancel()
        await asyncio.wait(guesses)


async def test_one_fetch_serves_all_who_wait() -> None:
    async with issuing() as idp, house(auth={"issuers": [trusting(idp, cooldown=0.5)]}) as here:
        assert await here.told("grpc", bearer(idp.token())) == KNOWN
        idp.rotate()
        fresh = [bearer(idp.token(sub=f"caller {number}")) for number in range(50)]
        assert set(await asyncio.gather(*(here.told("grpc", headers) for headers in fresh))) == {KNOWN}
        assert idp.asked["/jwks"] == 2


@pytest.mark.req("GATE-01")
@pytest.mark.parametrize("mood", BAD_MOODS)
async def test_known_keys_outlive_an_issuer_that_is_not_well(mood: str) -> None:
    async with issuing() as idp, house(auth={"issuers": [trusting(idp, **QUICK)]}) as here:
        await becomes(here, bearer(idp.token()), "NOT_FOUND")
        key, idp.mood = idp.keys[0], mood
        seen = idp.asked.total()
        told = await here.told("rest", stranger(idp))
        assert (told.code, told.retry) == ("UNAVAILABLE", True)  # it may be a new key
        assert idp.asked.total() > seen
        old = bearer(signed({"alg": "ES256", "kid": key.kid}, idp.claims(sub="bob"), key))  # not seen before
        assert await here.told("rest", old) == KNOWN
        idp.mood = "well"
        idp.rotate()
        await becomes(here, bearer(idp.token()), "NOT_FOUND")
        assert not [path for path in idp.asked if path.startswith("/elsewhere")]


@pytest.mark.req("GATE-01")
@pytest.mark.parametrize("mood", [*BAD_MOODS, "dead"])
async def test_a_server_starts_without_its_issuer(mood: str) -> None:
    async with issuing(alive=mood != "dead") as idp:
        idp.mood, token = mood, bearer(idp.token())
        with capture_logs() as logs:
            async with house(gateway=True, auth={"issuers": [trusting(idp, **QUICK)]}) as here:
                for told in await asyncio.gather(*(here.told(door, token) for door in EVERYWHERE)):
                    assert (told.code, told.challenge) == ("UNAVAILABLE", "")
                assert (await here.told("rest", {})).code == "UNAUTHENTICATED"
                idp.mood = "well"
                if mood == "dead":
                    await idp.live()
                await becomes(here, token, "NOT_FOUND")
        failed = [line for line in logs if line["event"] == "issuer.failed"]
        assert failed[0]["issuer"] == idp.url
        assert failed[0]["log_level"] == "warning"
        assert len(failed) < 4  # once, not with each attempt
        assert [line["keys"] for line in logs if line["event"] == "issuer.ready"] == [1]


async def test_a_known_key_never_waits_for_the_issuer() -> None:
    async with issuing() as idp, house(auth={"issuers": [trusting(idp, refresh=3600)]}) as here:
        assert await here.told("grpc", bearer(idp.token())) == KNOWN
        await idp.die()
        async with asyncio.timeout(5):
            for number in range(50):
                assert await here.told("grpc", bearer(idp.token(sub=f"caller {number}"))) == KNOWN
        assert idp.asked.total() == 2


async def test_an_issuer_with_a_path_and_only_oauth_metadata() -> None:
    async with issuing(path="/realms/main") as idp:
        idp.asked.clear()
        async with house(auth={"issuers": [trusting(idp)]}) as here:
            assert await here.told("grpc", bearer(idp.token())) == KNOWN
            assert set(idp.asked) == {"/realms/main/.well-known/openid-configuration", "/realms/main/jwks"}


@pytest.mark.req("GATE-01", "SSRF-04")
@pytest.mark.parametrize(
    ("chosen", "elsewhere"),
    [
        ({"allow_hosts": ["127.0.0.1"]}, "localhost"),
        ({"allow_loopback": False, "allow_networks": ["127.0.0.1/32"], "https_only": False}, "127.0.0.2"),
    ],
)
async def test_metadata_cannot_lead_where_the_operator_does_not_allow(chosen: dict[str, Any], elsewhere: str) -> None:
    async with issuing() as idp:
        idp.jwks_at = idp.url.replace("127.0.0.1", elsewhere) + "/jwks"
        async with house(auth={"issuers": [trusting(idp, **chosen, **QUICK)]}) as here:
            assert (await here.told("grpc", bearer(idp.token()))).code == "UNAVAILABLE"
            assert not idp.asked["/jwks"]
            idp.jwks_at = ""
            await becomes(here, bearer(idp.token()), "NOT_FOUND")


@pytest.mark.req("GATE-01", "SECR-05")
async def test_an_issuer_must_have_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    async with issuing(tls=tls) as idp:
        for trust, code in (("", "UNAVAILABLE"), (str(tmp_path / "ca.pem"), "NOT_FOUND")):
            async with house(auth={"issuers": [trusting(idp, trust=trust)]}) as here:
                assert (await here.told("grpc", bearer(idp.token()))).code == code
