"""Callers known by name and password (spec: GATE-01; RFC 7617)."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import grpc
import pytest

from tests.support.callers import House
from tests.support.house import PasswordHash
from tests.support.presenting import DRAFT, FAR, GRPC, HTTP, Presented, is_let_in, standing

WORD = "Zoë's: pässwörd "
SLOW = str(PasswordHash.of(WORD, bytes(range(16))))


def presented(user: str, password: str) -> Presented:
    value = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
    return Presented(headers={"Authorization": value}, metadata={"authorization": value})


def auth(**chosen: Any) -> dict[str, Any]:
    return {"passwords": [{"owner": "zoë", "user": "zoe", "hash": SLOW, **chosen}]}


@pytest.mark.req("GATE-01", "AUTN-05", "AUTN-02")
async def test_a_password_opens_every_door() -> None:
    async with standing({}, auth=auth(), **DRAFT) as here:
        for door in (*GRPC, *HTTP, *FAR):
            assert await is_let_in(here, door, presented("zoe", WORD)), door
            assert not await is_let_in(here, door, Presented()), door
        told = await here.told("grpc", {})
        assert (told.code, told.challenge) == ("UNAUTHENTICATED", 'Basic realm="a2a", charset="UTF-8"')
        assert await is_let_in(here, "rest", presented("zoe", WORD.replace("ë", "e\u0308")))  # as macOS types it


@pytest.mark.req("GATE-01")
@pytest.mark.parametrize(
    "value",
    [
        "Basic",
        "Basic zoe",
        "Basic !!!!",
        f"Basic {base64.b64encode(b'zoe').decode()}",
        f"Basic {base64.b64encode(b'zoe:').decode()}",
        f"Basic {base64.b64encode(b'zoe:wrong').decode()}",
        f"Basic {base64.b64encode(f'zoë:{WORD}'.encode()).decode()}",  # the owner is not the user
        f"Basic {base64.b64encode(f'nobody:{WORD}'.encode()).decode()}",
        f"Basic {base64.b64encode(f'zoe:{WORD}'.encode('latin-1')).decode()}",
        f"Bearer {base64.b64encode(f'zoe:{WORD}'.encode()).decode()}",
    ],
)
async def test_nothing_else_does(value: str) -> None:
    async with standing(auth=auth()) as here:
        for door in ("grpc", "rest"):
            given = Presented(headers={"Authorization": value}, metadata={"authorization": value})
            assert not await is_let_in(here, door, given)


async def test_a_password_ends() -> None:
    async with standing(auth=auth(expires="2020-01-01T00:00:00Z")) as here:
        assert not await is_let_in(here, "rest", presented("zoe", WORD))


@pytest.mark.req("GATE-01")
async def test_what_is_known_waits_for_no_guess() -> None:
    """Guesses are refused, or told to come again, while the loop and those whom the server knows go on."""
    async with standing(auth=auth()) as here:
        assert await is_let_in(here, "rest", presented("zoe", WORD))
        guesses = [asyncio.create_task(told(here, f"guess {n}")) for n in range(60)]
        await asyncio.sleep(0.05)
        for _ in range(5):
            assert await is_let_in(here, "rest", presented("zoe", WORD))
        assert not all(guess.done() for guess in guesses), "verifying is quick, which it should not be"
        codes = await asyncio.gather(*guesses)
        assert {*codes} == {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE}
        assert codes.count(grpc.StatusCode.UNAUTHENTICATED) < 40


async def told(here: House, password: str) -> grpc.StatusCode:
    given = presented("zoe", password)
    return grpc.StatusCode[(await here.told("grpc", given.headers)).code]
