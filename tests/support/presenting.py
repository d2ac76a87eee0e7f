"""Presents credentials where the agent card says that they are, through every door."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from aiohttp import ClientSession
from yarl import URL

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc, a2a_v0_3_pb2_grpc
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.demo import agent
from a2a_server.serve import relaying, running
from a2a_server.settings import Settings
from a2a_server.transport.pipeline import Step
from tests.support.callers import House

HTTP = ("rest", "rest-0.3", "rest-draft", "jsonrpc", "jsonrpc-0.3", "jsonrpc-draft", "stream", "large")
GRPC = ("grpc", "grpc-0.3")
FAR = ("far-rest", "far-jsonrpc", "far-rest-0.3", "far-stream", "far-large")
DRAFT: Mapping[str, Any] = {"gateway": {"profiles": ["draft"]}}

_GETS = {"rest": "/tasks/nobodys", "rest-0.3": "/v1/tasks/nobodys", "rest-draft": "/draft/v1/tasks/nobodys"}
_CALLS = {
    "jsonrpc": ("/", "GetTask", {"id": "nobodys"}),
    "jsonrpc-0.3": ("/", "tasks/get", {"id": "nobodys"}),
    "jsonrpc-draft": ("/draft/", "GetTask", {"name": "tasks/nobodys"}),
}
_SENDS = {"stream": "/message:stream", "large": "/message:send"}


@asynccontextmanager
async def standing(
    relay: Mapping[str, Any] | None = None, *, steps: Sequence[Step] = (), **settings: Any
) -> AsyncIterator[House]:
    """Serve the demo agent; with `relay`, a gateway of its own with these settings is in front of it."""
    at: dict[str, Any] = {"store": "memory:", "grpc": "127.0.0.1:0", "http": "127.0.0.1:0"}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running(Settings(**{**at, **settings}), agent, steps=steps))
        session = await stack.enter_async_context(ClientSession())
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(str(server.grpc)))
        url = ""
        if relay is not None:
            alone = Settings(**{**at, "upstream": {"addresses": [str(server.grpc)]}, **relay})
            url = f"http://{await stack.enter_async_context(relaying(alone))}"
        yield House(server, session, channel, url)


def hashed(secret: str) -> str:
    return "sha256:" + hashlib.sha256(secret.encode()).hexdigest()


@dataclass
class Presented:
    """What a request carries beside its message."""

    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    """What a client of gRPC sends instead."""


def as_declared(
    schemes: Mapping[str, pb.SecurityScheme], secrets: Mapping[str, str], names: Iterable[str]
) -> Presented:
    """A request that carries these schemes' secrets, made of the card alone."""
    found = Presented()
    for name in names:
        scheme, secret = schemes[name], secrets[name]
        if scheme.WhichOneof("scheme") == "http_auth_security_scheme":
            value = f"{scheme.http_auth_security_scheme.scheme} {secret}"
            more = found.headers.get("Authorization", "")
            found.headers["Authorization"] = found.metadata["authorization"] = value
            assert not more, "one header cannot have two schemes"
            continue
        at = scheme.api_key_security_scheme
        found.metadata[at.name.lower()] = secret
        match at.location:
            case "header":
                found.headers[at.name] = secret
            case "query":
                found.query[at.name] = secret
            case "cookie":
                found.headers["Cookie"] = f"theme=dark; {at.name}={secret}"
    return found


async def is_let_in(house: House, door: str, presented: Presented) -> bool:
    """Whether somebody who presents this is known."""
    if door in GRPC:
        return await _over_grpc(house, door, presented)
    base = house.gateway if door.startswith("far-") else house.base
    door = door.removeprefix("far-")
    at: dict[str, Any] = {"headers": presented.headers}
    if door in _GETS:
        request = house.session.get(URL(base + _GETS[door]).with_query(presented.query), **at)
    elif door in _CALLS:
        path, method, params = _CALLS[door]
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        request = house.session.post(URL(base + path).with_query(presented.query), json=body, **at)
    else:
        text = "x" * (40_000 if door == "large" else 1)
        body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}}
        request = house.session.post(URL(base + _SENDS[door]).with_query(presented.query), json=body, **at)
    async with request as answer:
        text = await answer.text()
        for secret in (*presented.query.values(), *(text for text in presented.headers.values() if text != "Basic")):
            assert secret not in text + str(answer.headers), "an answer repeats a secret"
        return answer.status != 401


async def _over_grpc(house: House, door: str, presented: Presented) -> bool:
    metadata = [*presented.metadata.items()]
    try:
        if door == "grpc":
            await a2a_pb2_grpc.A2AServiceStub(house.channel).GetTask(pb.GetTaskRequest(id="nobodys"), metadata=metadata)
        else:
            asked = v03.GetTaskRequest(name="tasks/nobodys")
            await a2a_v0_3_pb2_grpc.A2AServiceStub(house.channel).GetTask(asked, metadata=metadata)
    except grpc.aio.AioRpcError as error:
        return {grpc.StatusCode.NOT_FOUND: True, grpc.StatusCode.UNAUTHENTICATED: False}[error.code()]
    raise AssertionError("nobody has this task")
