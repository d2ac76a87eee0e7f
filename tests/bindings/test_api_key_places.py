"""API keys in a header, a query parameter or a cookie: only there, and the same through every door (spec: AUTN-04)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.support.presenting import DRAFT, FAR, GRPC, HTTP, Presented, as_declared, hashed, is_let_in, standing

KEY = "k3y/of+ann=="
SETTINGS = {
    "header": {"api_key_header": "X-Team-Key"},
    "query": {"api_key_query": "teamKey"},
    "cookie": {"api_key_cookie": "team.key"},
}
PLACES = [*SETTINGS]


def auth(place: str) -> dict[str, Any]:
    return {"api_keys": [{"owner": "ann", "hash": hashed(KEY)}], **SETTINGS[place]}


def relay(place: str) -> dict[str, Any]:
    """A gateway of its own knows the place, and no keys."""
    return {"auth": SETTINGS[place]}


@pytest.mark.req("AUTN-04", "AUTN-05", "GATE-02")
@pytest.mark.parametrize("place", PLACES)
async def test_a_key_counts_where_the_card_says_and_through_every_door(place: str) -> None:
    async with standing(relay(place), auth=auth(place), **DRAFT) as here:
        schemes = here.server.card.security_schemes
        assert schemes["apiKey"].api_key_security_scheme.location == place
        for door in (*GRPC, *HTTP, *FAR):
            assert await is_let_in(here, door, as_declared(schemes, {"apiKey": KEY}, ["apiKey"])), door
            assert not await is_let_in(here, door, as_declared(schemes, {"apiKey": "wrong"}, ["apiKey"])), door
            assert not await is_let_in(here, door, Presented()), door


def elsewhere(place: str) -> list[Presented]:
    """The same key, anywhere but where it belongs."""
    name = next(iter(SETTINGS[place].values()))
    found = [
        Presented(headers={"Authorization": f"Bearer {KEY}"}),
        Presented(headers={"X-Api-Key": KEY}),
        Presented(headers={"A2A-Server-Key": KEY}),
        Presented(query={"x-api-key": KEY}),
    ]
    if place != "header":
        found += [Presented(headers={name: KEY}), Presented(headers={f"Grpc-Metadata-{name}": KEY})]
    if place != "query":
        found.append(Presented(query={name: KEY}))
    else:
        found += [Presented(query={name.lower(): KEY}), Presented(query={name.upper(): KEY})]
    if place != "cookie":
        found.append(Presented(headers={"Cookie": f"{name}={KEY}"}))
    return found


@pytest.mark.req("AUTN-04")
@pytest.mark.parametrize("place", PLACES)
async def test_a_key_counts_nowhere_else(place: str) -> None:
    options: dict[str, Any] = {"gateway": {"forward_headers": ["*"]}}  # as much as can be forwarded
    async with standing({**relay(place), **options}, auth=auth(place), **options) as here:
        for presented in elsewhere(place):
            for door in ("rest", "jsonrpc", "rest-0.3", "large", "stream", "far-rest", "far-large"):
                if door == "large" and not presented.headers and not presented.query:
                    continue
                assert not await is_let_in(here, door, presented), (door, presented)


@pytest.mark.req("AUTN-04")
async def test_of_several_keys_all_must_be_right() -> None:
    async with standing(auth=auth("query")) as here:
        for query, status in ((f"teamKey={KEY}", 404), (f"teamKey={KEY}&teamKey=x", 401), ("teamKey=%ff", 401)):
            text = query.replace("+", "%2B")
            async with here.session.get(f"{here.base}/tasks/x?{text}") as answer:
                assert answer.status == status, query
    async with standing(auth=auth("cookie")) as here:
        for cookie, status in ((f'team.key="{KEY}"', 404), (f"team.key={KEY};team.key=x", 401), ("team.key=", 401)):
            async with here.session.get(f"{here.base}/tasks/x", headers={"Cookie": cookie}) as answer:
                assert answer.status == status, cookie


@pytest.mark.req("SECR-03", "AUTN-04")
async def test_a_key_in_a_query_is_seen_by_nobody_else(caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    """Neither binding nor errors, documents, redirects or logs have it; every other parameter is there."""
    seen = []

    def look(call: Any) -> None:
        seen.append((str(call.request), {n: v for n, v in call.credentials.metadata.items() if n != "teamkey"}))

    key = "SECRET-IN-A-QUERY"
    settings = {"api_keys": [{"owner": "ann", "hash": hashed(key)}], "api_key_query": "teamKey"}
    async with standing(auth=settings, steps=[look], **DRAFT) as here:
        base = here.base
        paths = ["/tasks?pageSize=7&{}", "/tasks?{}&pageSize=7", "/tasks/?{}", "/nowhere?{}", "/tasks?{}&bogus=1"]
        paths += [
            "/openapi.json?{}",
            "/.well-known/agent-card.json?{}",
            "/v1/tasks/x?{}",
            "/draft/v1/tasks/x?{}",
            "/?{}",
        ]
        for path in paths:
            url = base + path.format(f"teamKey={key}")
            async with here.session.get(url, allow_redirects=False) as answer:
                text = await answer.text()
                assert key not in text + str(answer.headers), path
        async with here.session.get(f"{base}/tasks?teamKey={key}&pageSize=7") as answer:
            assert (answer.status, orjson.loads(await answer.read())["pageSize"]) == (200, 7)
    assert len(seen) >= 3
    assert key not in str(seen)
    told = capfd.readouterr()
    assert key not in caplog.text + told.out + told.err


@pytest.mark.req("AUTN-04")
async def test_openapi_says_where_keys_are() -> None:
    async with standing(auth=auth("query")) as here, here.session.get(f"{here.base}/openapi.json") as answer:
        document = orjson.loads(await answer.read())
        assert document["components"]["securitySchemes"]["apiKey"] == {
            "type": "apiKey",
            "in": "query",
            "name": "teamKey",
        }


@pytest.mark.req("AUTN-02")
@pytest.mark.parametrize("place", PLACES)
async def test_a_refusal_says_where_keys_belong(place: str) -> None:
    async with standing(auth=auth(place)) as here:
        told = await here.told("rest", {})
        assert told.challenge == f'ApiKey {place}="{next(iter(SETTINGS[place].values()))}"'
