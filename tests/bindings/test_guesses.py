"""Guessing is slowed down per address and per user, over all doors together, and locks nobody out who is known."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import pytest
import structlog
from aiohttp import ClientSession

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.authenticator import Caller, CardSecurity, Credentials
from a2a_server.serve import running
from a2a_server.settings import Settings
from tests.bindings.test_rates import TWO, get_task
from tests.support.callers import EVERYWHERE, NEAR, bearer, house
from tests.support.house import A2AError, GuessLimit, Reason, TokenBuckets, demo_agent

FEW = {"wrong_credentials": 3}


@pytest.mark.req("SECR-01")
async def test_doors_count_guesses_together_and_known_callers_go_on() -> None:
    async with house(auth=TWO, rates=FEW) as here:
        assert (await get_task(here, "rest", bearer("ann"))).status == 404
        with structlog.testing.capture_logs() as logs:
            for door in ("grpc", "rest", "jsonrpc"):
                assert not (await get_task(here, door, bearer("guess"))).refused, door
            for door in NEAR:
                refused = await get_task(here, door, bearer("guess"))
                assert refused.refused, (door, refused)
                if not door.startswith("grpc"):
                    assert 0 < int(refused.headers["retry-after"]) <= 21
        assert [line["address"] for line in logs if line["event"] == "auth.guessing"] == ["127.0.0.1"]
        assert (await get_task(here, "grpc", bearer("bob"))).refused  # it is right, and nobody looks
        for door in NEAR:
            assert not (await get_task(here, door, bearer("ann"))).refused, door
            assert not (await get_task(here, door, {})).refused, door


async def test_gateways_of_their_own_pass_the_refusal_on() -> None:
    async with house(gateway=True, auth=TWO, rates={"wrong_credentials": 1}) as here:
        for door in EVERYWHERE:
            await get_task(here, door, bearer("guess"))
            assert (await get_task(here, door, bearer("guess"))).refused, door


async def test_an_address_of_trusted_proxies_counts() -> None:
    at: dict[str, Any] = {"store": "memory:", "grpc": "127.0.0.1:0", "http": "127.0.0.1:0"}
    settings = Settings(**at, auth=TWO, rates=FEW, gateway={"trusted_proxies": "127.0.0.1"})
    async with running(settings, demo_agent) as server, ClientSession() as session:

        async def guess(address: str) -> int:
            headers = bearer("guess") | {"X-Forwarded-For": address}
            async with session.get(f"http://{server.http}/tasks/nobodys", headers=headers) as answer:
                return answer.status

        assert [await guess("192.0.2.1") for _ in range(4)] == [401, 401, 401, 429]
        assert await guess("192.0.2.2") == 401
        assert [await guess(f"2001:db8::{number}") for number in range(4)] == [401, 401, 401, 429]


async def test_right_credentials_cost_nothing_and_without_the_setting_nothing_is_counted() -> None:
    async with house(auth=TWO, rates={"wrong_credentials": 1}) as here:
        for name in ("ann", "bob"):
            assert (await get_task(here, "rest", bearer(name))).status == 404
    async with house(auth=TWO, rates={"wrong_credentials": 0}) as here:
        for _ in range(70):
            assert (await get_task(here, "rest", bearer("guess"))).status == 401


class Password:
    """Knows one user, and takes its time."""

    required = True
    card = CardSecurity({"basic": pb.SecurityScheme(http_auth_security_scheme=pb.HTTPAuthSecurityScheme())})
    asked = 0

    async def authenticate(self, credentials: Credentials) -> Caller:
        self.asked += 1
        await asyncio.sleep(0)
        if credentials.metadata["authorization"] == (basic("ann", "right"),):
            return Caller("ann", authenticated=True)
        raise A2AError(Reason.UNAUTHENTICATED, "no")


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


async def outcome(slowed: GuessLimit, value: str, peer: str) -> str:
    metadata: Mapping[str, tuple[str, ...]] = {"authorization": (value,)}
    try:
        await slowed.authenticate(Credentials(metadata, peer=peer))
    except A2AError as error:
        return error.reason.name
    return "in"


async def test_a_user_name_is_guarded_against_many_addresses_at_once() -> None:
    password = Password()
    slowed = GuessLimit(password, TokenBuckets(lambda: 0.0), 5)
    guesses = [outcome(slowed, basic("ann", f"guess {number}"), f"192.0.2.{number}") for number in range(50)]
    told = await asyncio.gather(*guesses)
    assert (told.count("UNAUTHENTICATED"), told.count("OVERLOADED"), password.asked) == (5, 45, 5)
    assert await outcome(slowed, basic("ann", "right"), "198.51.100.1") == "OVERLOADED"
    assert await outcome(slowed, basic("bob", "guess"), "198.51.100.1") == "UNAUTHENTICATED"


async def test_who_was_right_before_is_looked_at_whatever_others_guess() -> None:
    slowed = GuessLimit(Password(), TokenBuckets(lambda: 0.0), 5)
    assert await outcome(slowed, basic("ann", "right"), "192.0.2.1") == "in"
    for number in range(10):
        await outcome(slowed, basic("ann", f"guess {number}"), "192.0.2.1")
    assert await outcome(slowed, basic("ann", "guess"), "192.0.2.1") == "OVERLOADED"
    assert await outcome(slowed, basic("ann", "right"), "192.0.2.1") == "in"
