"""A client of the draft that takes nothing for granted: every answer's type and form is checked, nothing translated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import pytest
from yarl import URL

from tests.support.door_events import Event, events, loads
from tests.support.door_old import GATEWAYS, WHERE, Answer, OldClient, Where, named
from tests.support.doors import OPTIONS, http_door
from tests.support.house import GatewayOptions
from tests.support.world import World, serving

BASE = "/draft"
FORMS = ("/v1", "")
"""Each path of the table begins with either."""
TENANTS = ("", "/north")

WITH_DRAFT = replace(OPTIONS, profiles=("draft",))
PROBLEM = "application/problem+json"
TYPES = "https://a2a-protocol.org/errors/"

_JSON = {"application/a2a+json", "application/json"}
_ID = "q-1"


@dataclass(frozen=True)
class DraftClient:
    """Speaks REST and JSON-RPC of the draft; paths begin behind its own."""

    session: aiohttp.ClientSession
    base: str

    async def rest(self, verb: str, path: str, body: Any = ..., **headers: str) -> Answer:
        """Ask, whatever comes of it; a body of the wrong type fails the test."""
        async with self._asked(verb, path, body, headers) as response:
            raw = await response.read()
            if response.status == 204:
                assert not raw
                assert "Content-Type" not in response.headers
                return Answer(204, response.headers, None)
            kind = response.headers["Content-Type"]
            assert kind in (_JSON if response.status < 400 else {PROBLEM}), (response.status, kind, raw)
            return Answer(response.status, response.headers, loads(raw))

    async def told(self, verb: str, path: str, body: Any = ..., **headers: str) -> Any:
        """What a request that must succeed is answered with."""
        answer = await self.rest(verb, path, body, **headers)
        assert answer.status == 200, answer
        return answer.json

    async def refused(self, verb: str, path: str, body: Any = ..., **headers: str) -> Any:
        """The problem that a request must be refused with."""
        answer = await self.rest(verb, path, body, **headers)
        return checked(answer.json, answer.status)

    @asynccontextmanager
    async def watching(
        self, verb: str, path: str, body: Any = ..., **headers: str
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """The events of a path; open for as long as the block lasts."""
        async with self._asked(verb, path, body, {"accept": "text/event-stream", **headers}) as response:
            yield await _stream(response)

    async def watch(self, verb: str, path: str, body: Any = ..., **headers: str) -> list[Event]:
        async with self.watching(verb, path, body, **headers) as found:
            return [event async for event in found]

    async def post(self, body: Any, *, path: str = "/", **headers: str) -> Answer:
        """Post whatever it is to JSON-RPC."""
        async with self._asked("POST", path, body, {"content-type": "application/json", **headers}) as response:
            assert response.headers["Content-Type"] == "application/json", response.headers
            return Answer(response.status, response.headers, loads(await response.read()))

    async def call(self, method: str, params: Any = ..., *, path: str = "/", **headers: str) -> Any:
        """The result of a method."""
        answer = await self.post(request(method, params), path=path, **headers)
        assert (answer.status, list(answer.json)) == (200, ["jsonrpc", "id", "result"]), answer
        assert (answer.json["jsonrpc"], answer.json["id"]) == ("2.0", _ID)
        return answer.json["result"]

    async def fault(self, method: str, params: Any = ..., **headers: str) -> Any:
        """The error that a method must be refused with."""
        answer = await self.post(request(method, params), **headers)
        assert list(answer.json) == ["jsonrpc", "id", "error"], answer
        assert (answer.json["jsonrpc"], answer.json["id"]) == ("2.0", _ID)
        return fault_of(answer.json["error"])

    @asynccontextmanager
    async def streaming(self, method: str, params: Any, **headers: str) -> AsyncIterator[AsyncIterator[Event]]:
        """The results of a method, one for each event."""
        told = {"accept": "text/event-stream", **headers}
        async with self._asked("POST", "/", request(method, params), told) as response:
            yield _results(await _stream(response))

    async def stream(self, method: str, params: Any, **headers: str) -> list[Event]:
        async with self.streaming(method, params, **headers) as found:
            return [event async for event in found]

    def _asked(self, verb: str, path: str, body: Any, headers: Mapping[str, str]) -> Any:
        raw = {"data": body} if isinstance(body, bytes) else {} if body is ... else {"json": body}
        return self.session.request(verb, URL(self.base + path, encoded=True), headers=named(headers), **raw)


def beside(client: DraftClient) -> OldClient:
    """A client of 0.3 at the same door."""
    return OldClient(client.session, client.base.removesuffix(BASE))


def request(method: str, params: Any = ...) -> dict[str, Any]:
    told = {"jsonrpc": "2.0", "id": _ID, "method": method}
    return told if params is ... else {**told, "params": params}


def checked(problem: Any, status: int | None = None) -> Any:
    """Problem Details (CONF-02): the members of RFC 9457 first."""
    assert list(problem)[:5] == ["type", "title", "status", "detail", "reason"], problem
    assert status is None or problem["status"] == status
    return problem


def fault_of(error: Any) -> Any:
    """An error object of JSON-RPC whose data is plain (CONF-05)."""
    assert list(error) == ["code", "message", "data"], error
    assert next(iter(error["data"])) == "reason"
    return error


def violations(told: Any) -> dict[str, str]:
    """Of a problem or of a fault's data: field → description."""
    assert told["reason"] == "INVALID_PARAMS", told
    return {fault["field"]: fault["description"] for fault in told["violations"]}


async def _stream(response: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    assert response.status == 200, await response.read()
    assert response.headers["Content-Type"] == "text/event-stream"
    return events(response.content.iter_any())


async def _results(found: AsyncIterator[Event]) -> AsyncIterator[Event]:
    async for event in found:
        assert (event.data["jsonrpc"], event.data["id"]) == ("2.0", _ID)
        member = "error" if event.name == "error" else "result"
        assert list(event.data) == ["jsonrpc", "id", member]
        yield Event(event.data[member], event.name, event.number)


@asynccontextmanager
async def draft_serving(agent: Any, where: Where = "near", **parts: Any) -> AsyncIterator[tuple[World, DraftClient]]:
    """A server whose gateway speaks the draft, a client of 1.0 over REST, and one of the draft."""
    options: dict[str, Any] = {"http_options": WITH_DRAFT, **parts}
    async with serving(agent, through=GATEWAYS[where], **options) as world, session() as opened:
        assert world.http is not None
        yield world, DraftClient(opened, world.http.base + options["http_options"].draft_path)


@asynccontextmanager
async def draft_door(upstream: Any, options: GatewayOptions = WITH_DRAFT, **chosen: Any) -> AsyncIterator[DraftClient]:
    """The gateway alone, in front of what a test has written down."""
    async with http_door(upstream, options, **chosen) as door, session() as opened:
        yield DraftClient(opened, door.base + options.draft_path)


def session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=None))


def on_all_paths(test: Any) -> Any:
    """Run a test with each form of a path, through either gateway."""
    for name, values in (("form", FORMS), ("tenant", TENANTS), ("where", WHERE)):
        test = pytest.mark.parametrize(name, values)(test)
    return test


# -- what clients say


def say(text: str = "hello", *, skill: str = "", blocking: bool | None = True, **members: Any) -> dict[str, Any]:
    """A send; further members of the message as keywords."""
    message = {"messageId": "m-1", "role": "user", "parts": [{"text": text}], **members}
    told: dict[str, Any] = {"message": message}
    if blocking is not None:
        told["configuration"] = {"blocking": blocking}
    return {**told, "metadata": {"skill": skill}} if skill else told


def kinds(found: Sequence[Event]) -> list[str]:
    """What a stream consisted of: members, statuses by their state, with an exclamation mark when final."""
    return [_kind(event.data) for event in found]


def _kind(data: Any) -> str:
    ((member, held),) = data.items()
    if member != "statusUpdate":
        assert "final" not in held
        return str(member)
    assert isinstance(held["final"], bool)
    return f"{held['status']['state']}{'!' * held['final']}"


def texts(task: Any) -> list[str]:
    """The texts of a task's artifacts."""
    return [part["text"] for artifact in task["artifacts"] for part in artifact["parts"]]
