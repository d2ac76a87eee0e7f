"""A client of 0.3 over HTTP that takes nothing for granted: every envelope is checked, nothing is translated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from a2a_gateway.upstream import Upstream
from a2a_proto import a2a_pb2 as pb
from tests.support.door_events import Event, events, loads
from tests.support.doors import Door, http_door
from tests.support.world import World, serving

Where = Literal["near", "far"]
WHERE: tuple[Where, ...] = get_args(Where)
"""The far gateway calls the server over gRPC, as one in another process does."""

INFO = "type.googleapis.com/google.rpc.ErrorInfo"

GATEWAYS: Mapping[Where, Door] = {"near": "rest", "far": "rest-far"}
_ID = "q-1"


class Answer(NamedTuple):
    """One HTTP response with JSON in it."""

    status: int
    headers: CIMultiDictProxy[str]
    json: Any


@dataclass(frozen=True)
class OldClient:
    """Speaks JSON-RPC and REST of 0.3."""

    session: aiohttp.ClientSession
    base: str

    async def post(self, body: Any, *, path: str = "/", **headers: str) -> Answer:
        """Post whatever it is."""
        raw = body if isinstance(body, bytes) else None
        headers.setdefault("content_type", "application/json")
        async with self.session.post(
            self.base + path, data=raw, json=None if raw is not None else body, headers=named(headers)
        ) as response:
            assert response.headers["Content-Type"] == "application/json", response.headers
            return Answer(response.status, response.headers, loads(await response.read()))

    async def call(self, method: str, params: Any = ..., *, path: str = "/", **headers: str) -> Any:
        """The result of a method."""
        answer = await self.post(request(method, params), path=path, **headers)
        assert answer.status == 200
        assert list(answer.json) == ["jsonrpc", "id", "result"], answer.json
        assert (answer.json["jsonrpc"], answer.json["id"]) == ("2.0", _ID)
        return answer.json["result"]

    async def fault(self, method: str, params: Any = ..., *, path: str = "/", **headers: str) -> Any:
        """The error that a method must be refused with."""
        answer = await self.post(request(method, params), path=path, **headers)
        assert list(answer.json) == ["jsonrpc", "id", "error"], answer.json
        assert (answer.json["jsonrpc"], answer.json["id"]) == ("2.0", _ID)
        return checked(answer.json["error"])

    @asynccontextmanager
    async def streaming(self, method: str, params: Any, **headers: str) -> AsyncIterator[AsyncIterator[Event]]:
        """The events of a method, their `data` being results; open for as long as the block lasts."""
        headers.setdefault("accept", "text/event-stream")
        async with self.session.post(self.base + "/", json=request(method, params), headers=named(headers)) as response:
            yield _results(await _stream(response))

    async def stream(self, method: str, params: Any, **headers: str) -> list[Event]:
        async with self.streaming(method, params, **headers) as found:
            return [event async for event in found]

    async def rest(self, verb: str, path: str, body: Any = ..., **headers: str) -> Answer:
        """Ask under /v1, whatever comes of it."""
        async with self._asked(verb, path, body, headers) as response:
            raw = await response.read()
            assert response.headers["Content-Type"] == "application/json", (response.headers, raw)
            return Answer(response.status, response.headers, loads(raw) if raw else None)

    async def told(self, verb: str, path: str, body: Any = ..., **headers: str) -> Any:
        """What a request that must succeed is answered with."""
        answer = await self.rest(verb, path, body, **headers)
        assert answer.status == 200, answer
        return answer.json

    async def refused(self, verb: str, path: str, body: Any = ..., **headers: str) -> Any:
        """The error that a request must be refused with (CONF-02)."""
        answer = await self.rest(verb, path, body, **headers)
        error = answer.json["error"]
        assert list(answer.json)[:3] == ["error", "code", "message"], answer
        (info,) = (detail for detail in error["details"] if detail["@type"].endswith("ErrorInfo"))
        assert (str(answer.json["code"]), answer.json["message"]) == (info["metadata"]["jsonrpcCode"], error["message"])
        assert list(error) == ["code", "status", "message", "details"]
        assert error["code"] == answer.status
        return error

    @asynccontextmanager
    async def watching(
        self, verb: str, path: str, body: Any = ..., **headers: str
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """The events of a path."""
        headers.setdefault("accept", "text/event-stream")
        async with self._asked(verb, path, body, headers) as response:
            yield await _stream(response)

    async def watch(self, verb: str, path: str, body: Any = ..., **headers: str) -> list[Event]:
        async with self.watching(verb, path, body, **headers) as found:
            return [event async for event in found]

    def _asked(self, verb: str, path: str, body: Any, headers: Mapping[str, str]) -> Any:
        raw = {"data": body} if isinstance(body, bytes) else {} if body is ... else {"json": body}
        return self.session.request(verb, URL(self.base + path, encoded=True), headers=named(headers), **raw)


def request(method: str, params: Any = ...) -> dict[str, Any]:
    told = {"jsonrpc": "2.0", "id": _ID, "method": method}
    return told if params is ... else {**told, "params": params}


def named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def checked(error: Any) -> Any:
    """An error object of JSON-RPC, in the shape of 0.3 (CONF-05)."""
    assert list(error) == ["code", "message", "data"], error
    assert next(iter(error["data"])) == "reason"
    return error


async def _stream(response: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    assert response.status == 200, await response.read()
    assert response.headers["Content-Type"] == "text/event-stream"
    assert response.headers["Cache-Control"] == "no-cache"
    return events(response.content.iter_any())


async def _results(found: AsyncIterator[Event]) -> AsyncIterator[Event]:
    async for event in found:
        assert (event.data["jsonrpc"], event.data["id"]) == ("2.0", _ID)
        if event.name == "error":
            assert list(event.data) == ["jsonrpc", "id", "error"]
            yield Event(checked(event.data["error"]), event.name, event.number)
        else:
            assert list(event.data) == ["jsonrpc", "id", "result"]
            yield Event(event.data["result"], event.name, event.number)


@asynccontextmanager
async def old_serving(agent: Any, where: Where = "near", **parts: Any) -> AsyncIterator[tuple[World, OldClient]]:
    """A server with a gateway that speaks 0.3, a client of 1.0 over REST, and one of 0.3."""
    old_http = parts.pop("old_http", {})
    async with serving(agent, through=GATEWAYS[where], old_http=old_http, **parts) as world, _session() as session:
        assert world.http is not None
        yield world, OldClient(session, world.http.base)


@asynccontextmanager
async def old_gateway(upstream: Upstream, **chosen: Any) -> AsyncIterator[OldClient]:
    """A gateway that speaks 0.3 before any upstream, and its client."""
    async with http_door(upstream, old=True, **chosen) as door, _session() as session:
        yield OldClient(session, door.base)


def extended(card: pb.AgentCard, _: object) -> pb.AgentCard:
    """What callers with credentials are shown."""
    card.skills.add(id="secret", name="Secret", description="Not for all.", tags=["test"])
    return card


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=None))


# -- what clients say


def say(text: str = "hello", *, skill: str = "", configuration: Any = None, **members: Any) -> dict[str, Any]:
    """The params of a send, as the JSON schema has them; further members of the message as keywords."""
    message = {"kind": "message", "messageId": "m-1", "role": "user", "parts": [{"kind": "text", "text": text}]}
    return _sent({**message, **members}, skill, configuration)


def tell(text: str = "hello", *, skill: str = "", configuration: Any = None, **members: Any) -> dict[str, Any]:
    """The same as the proto has it."""
    message = {"messageId": "m-1", "role": "ROLE_USER", "content": [{"text": text}]}
    return _sent({**message, **members}, skill, configuration)


def _sent(message: Any, skill: str, configuration: Any) -> dict[str, Any]:
    told = {"message": message}
    if configuration is not None:
        told["configuration"] = configuration
    return {**told, "metadata": {"skill": skill}} if skill else told


def kinds(found: list[Event]) -> list[str]:
    """What a stream consisted of: kinds, statuses by their state, with an exclamation mark when final."""
    return [_kind(event.data) for event in found]


def _kind(data: Any) -> str:
    (wrapped,) = data.values() if len(data) == 1 else (data,)
    if "final" not in wrapped:
        return str(wrapped.get("kind") or next(iter(data)))
    assert isinstance(wrapped["final"], bool)
    state = wrapped["status"]["state"].removeprefix("TASK_STATE_").lower().replace("_", "-")
    return f"{state}{'!' * wrapped['final']}"


def texts(task: Any) -> list[str]:
    """The texts of a task's artifacts."""
    return [part["text"] for artifact in task["artifacts"] for part in artifact["parts"]]
