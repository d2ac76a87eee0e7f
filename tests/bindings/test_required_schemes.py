"""What callers must prove: alternatives of combinations, as the card says them (spec: AUTN-04, GATE-02, GATE-03)."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2_grpc
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from a2a_server.settings import SettingsError, load
from tests.support.callers import House
from tests.support.house import PasswordHash
from tests.support.presenting import DRAFT, FAR, GRPC, HTTP, Presented, as_declared, hashed, is_let_in, standing

TOKEN, KEY, WORD = "ann-token", "ann-key", "ann's wörd"
SECRETS = {"bearer": TOKEN, "apiKey": KEY, "basic": base64.b64encode(f"ann:{WORD}".encode()).decode()}
PASSWORD = str(PasswordHash.of(WORD, bytes(16), 12, 1, 1))  # the smallest that is taken, for speed
ALL: dict[str, Any] = {
    "tokens": [{"owner": "ann", "hash": hashed(TOKEN)}],
    "api_keys": [{"owner": "ann", "hash": hashed(KEY)}],
    "passwords": [{"owner": "ann", "hash": PASSWORD}],
}
DOORS = (*GRPC, *HTTP, *FAR)


def only(*kinds: str, **more: Any) -> dict[str, Any]:
    return {**{kind: ALL[kind] for kind in kinds}, **more}


async def card_of(house: House) -> pb.AgentCard:
    async with grpc.aio.insecure_channel(str(house.server.grpc)) as channel:
        card: pb.AgentCard = await discovery_pb2_grpc.DiscoveryStub(channel).GetAgentCard(GetAgentCardRequest())
        return card


def subsets(names: Sequence[str]) -> list[frozenset[str]]:
    found = chain.from_iterable(combinations(names, n) for n in range(len(names) + 1))
    return [frozenset(each) for each in found if not {"bearer", "basic"} <= {*each}]  # one header has one scheme


SETTINGS = [
    only("tokens"),
    only("api_keys", api_key_query="k"),
    only("passwords"),
    only("tokens", "api_keys", api_key_cookie="k"),
    only("tokens", "api_keys", require=["bearer+apiKey"]),
    only("tokens", "api_keys", "passwords", require=["bearer", "basic+apiKey"], api_key_query="k"),
    only("tokens", "api_keys", "passwords", require="apiKey+basic, apiKey + bearer"),
    only("tokens", "api_keys", "passwords", require=["apiKey"], api_key_header="X-Team"),
]


@pytest.mark.req("GATE-01", "GATE-02", "AUTN-01", "AUTN-04", "AUTN-05")
@pytest.mark.parametrize("auth", SETTINGS)
async def test_exactly_what_the_card_asks_for_is_enough(auth: dict[str, Any]) -> None:
    places = {name: value for name, value in auth.items() if name.startswith("api_key_")}
    async with standing({"auth": places}, auth=auth, **DRAFT) as here:
        card = await card_of(here)
        alternatives = [frozenset(requirement.schemes) for requirement in card.security_requirements]
        assert alternatives
        for names in subsets([*card.security_schemes]):
            right = as_declared(card.security_schemes, SECRETS, sorted(names))
            enough = any(alternative <= names for alternative in alternatives)
            for door in DOORS:
                assert await is_let_in(here, door, right) == enough, (names, door)
            for name in names:  # what is presented must be right, needed or not
                wrong = as_declared(card.security_schemes, {**SECRETS, name: "d3Jvbmc6d3Jvbmc="}, sorted(names))
                assert not await is_let_in(here, "rest", wrong), (names, name)


@pytest.mark.req("GATE-02", "AUTN-04")
async def test_the_card_of_each_version_says_the_same() -> None:
    auth = only("tokens", "api_keys", "passwords", require=["bearer", "basic+apiKey"], api_key_cookie="k")
    async with standing(auth=auth) as here:
        card = await card_of(here)
        assert [sorted(each.schemes) for each in card.security_requirements] == [["bearer"], ["apiKey", "basic"]]
        at = f"{here.base}/.well-known/agent-card.json"
        async with here.session.get(at, headers={"A2A-Version": "0.3"}) as answer:
            old = orjson.loads(await answer.read())
        assert [{*each} for each in old["security"]] == [{"bearer"}, {"apiKey", "basic"}]
        assert old["securitySchemes"]["apiKey"] == {"type": "apiKey", "in": "cookie", "name": "k"}
        assert old["securitySchemes"]["basic"] == {"type": "http", "scheme": "Basic"}


@pytest.mark.req("AUTN-04")
async def test_the_first_of_a_combination_says_who_calls() -> None:
    seen = []
    auth = only("tokens", api_keys=[{"owner": "team", "hash": hashed(KEY)}], require=["apiKey+bearer"])
    async with standing(auth=auth, steps=[lambda call: seen.append(call.caller.owner)]) as here:
        presented = Presented(headers={"Authorization": f"Bearer {TOKEN}", "X-Api-Key": KEY})
        assert await is_let_in(here, "rest", presented)
    assert seen == ["team"]


REFUSED = [
    (
        {"require": ["bearer"]},
        "auth.require = 'bearer' (flag): 'bearer' is not a configured scheme; these are configured: none",
    ),
    (only("tokens", require=["bearer+apiKey"]), "'apiKey' is not a configured scheme; these are configured: bearer"),
    (only("tokens", require=["Bearer"]), "'Bearer' is not a configured scheme"),
    (only("tokens", require=["bearer+"]), "'' is not a configured scheme"),
    (only("tokens", require=["bearer+bearer"]), "names a scheme twice"),
    (only("tokens", require=[""]), "'' is not a configured scheme"),
    (only("api_keys", api_key_query="a", api_key_cookie="b"), "cannot be combined with api_key_query"),
    (only("api_keys", api_key_query="authorization"), "auth.api_key_query"),
    (only("api_keys", api_key_query="a b"), "auth.api_key_query"),
    (only("api_keys", api_key_cookie="A2A-Version"), "auth.api_key_cookie"),
    (only("api_keys", api_key_cookie="k-bin"), "auth.api_key_cookie"),
    ({"tokens": [{"owner": "ann", "hash": hashed("x"), "expires": "2027-01-01T00:00:00"}]}, "auth.tokens.0.expires"),
    ({"tokens": [{"owner": "ann", "hash": hashed("x"), "expires": "soon"}]}, "auth.tokens.0.expires"),
    ({"passwords": [{"owner": "ann", "hash": hashed("x")}]}, "auth.passwords.0.hash (flag): must be the scrypt:"),
    ({"passwords": [{"owner": "ann", "hash": "secret word"}]}, "auth.passwords.0.hash (flag): must be the scrypt:"),
    ({"passwords": [{"owner": "a:b", "hash": PASSWORD}]}, "auth.passwords.0"),
    ({"passwords": [ALL["passwords"][0]] * 2}, "auth.passwords (flag): must have one entry for each user name"),
    ({"stored_keys": True}, "auth.stored_keys = True (flag): needs a store in a file"),
]


@pytest.mark.req("GATE-03")
@pytest.mark.parametrize(("auth", "said"), REFUSED)
def test_what_cannot_be_verified_stops_the_start(auth: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load({"store": "memory:", "auth": auth})
    assert said in str(caught.value)
    assert "secret word" not in str(caught.value)


@pytest.mark.req("GATE-03")
@pytest.mark.parametrize(
    "auth",
    [
        {"tokens": [{"owner": "ann", "hash": hashed("t"), "expires": "2020-01-01T00:00:00Z"}]},
        {"tokens_file": "empty.toml"},
        {"tokens_file": "empty.toml", "stored_keys": True},
        {"stored_keys": True},
        only("passwords", require=["basic"]),
        only("tokens", "api_keys", require=["bearer+apiKey"]),
    ],
)
async def test_nobody_is_let_in_because_nobody_could_be(
    auth: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where authentication is configured, and be it without a single caller, there is no anonymous owner."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.toml").touch()
    async with standing({}, auth=auth, store="sqlite:///a2a.db", **DRAFT) as here:
        assert here.server.card.security_requirements
        for door in DOORS:
            for presented in (Presented(), Presented(headers={"Authorization": "Bearer t"})):
                assert not await is_let_in(here, door, presented), door
