"""A server of the demo agent as settings describe it, and what each door answers to a caller with some headers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from aiohttp import ClientSession
from google.rpc import error_details_pb2, status_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc, a2a_v0_3_pb2_grpc
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.demo import agent
from a2a_server.ports.authenticator import Caller, Credentials
from a2a_server.serve import Server, relaying, running
from a2a_server.serve.authentication import authenticator_of
from a2a_server.settings import Settings
from a2a_server.transport.pipeline import Step
from tests.support.house import A2AError
from tests.support.issuers import AUDIENCE, Issuer

NEAR = ("grpc", "grpc-0.3", "rest", "rest-0.3", "jsonrpc", "jsonrpc-0.3")
FAR = ("far-rest", "far-jsonrpc", "far-rest-0.3")
"""Through a gateway of its own."""
EVERYWHERE = (*NEAR, *FAR)

_PATHS: Mapping[str, str] = {"rest": "/tasks/nobodys", "rest-0.3": "/v1/tasks/nobodys"}
_METHODS: Mapping[str, str] = {"jsonrpc": "GetTask", "jsonrpc-0.3": "tasks/get"}


@dataclass(frozen=True)
class Told:
    """What a caller is told who asks for a task that nobody has: NOT_FOUND, if it is known who calls."""

    code: str
    challenge: str = ""
    retry: bool = False

    @property
    def in_http(self) -> int:
        return {"NOT_FOUND": 404, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "UNAVAILABLE": 503}[self.code]


KNOWN = Told("NOT_FOUND")


@dataclass(frozen=True)
class House:
    """A server, with a gateway in front of it if a test wants one."""

    server: Server
    session: ClientSession
    channel: grpc.aio.Channel
    gateway: str = ""

    @property
    def stub(self) -> Any:
        return a2a_pb2_grpc.A2AServiceStub(self.channel)

    @property
    def base(self) -> str:
        return f"http://{self.server.http}"

    async def told(self, door: str, headers: Mapping[str, str]) -> Told:
        """Ask for a task that nobody has."""
        if door.startswith("grpc"):
            return await self._grpc(door, headers)
        base = self.gateway if door.startswith("far-") else self.base
        return await self._http(base, door.removeprefix("far-"), headers)

    async def _grpc(self, door: str, headers: Mapping[str, str]) -> Told:
        metadata = [(name.lower(), value) for name, value in headers.items()]
        try:
            if door == "grpc":
                await a2a_pb2_grpc.A2AServiceStub(self.channel).GetTask(
                    pb.GetTaskRequest(id="nobodys"), metadata=metadata
                )
            else:
                asked = v03.GetTaskRequest(name="tasks/nobodys")
                await a2a_v0_3_pb2_grpc.A2AServiceStub(self.channel).GetTask(asked, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            trailers = dict(error.trailing_metadata() or ())
            status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
            details = {packed.TypeName(): packed for packed in status.details}
            info = error_details_pb2.ErrorInfo()
            details[info.DESCRIPTOR.full_name].Unpack(info)
            challenge = trailers.get("www-authenticate", "")
            assert info.metadata.get("challenge", "") == challenge
            return Told(error.code().name, challenge, "google.rpc.RetryInfo" in details)
        raise AssertionError("nobody has this task")

    async def _http(self, base: str, door: str, headers: Mapping[str, str]) -> Told:
        if door in _PATHS:
            request = self.session.get(base + _PATHS[door], headers=headers)
        else:
            body = {"jsonrpc": "2.0", "id": 1, "method": _METHODS[door], "params": {"id": "nobodys"}}
            request = self.session.post(base + "/", json=body, headers=headers)
        async with request as answer:
            text = await answer.json(content_type=None)
            status = answer.status
            if status == 200:  # JSON-RPC
                status = 503 if "issuer does not answer" in str(text) else 404 if text["error"]["code"] == -32001 else 0
            names = {404: "NOT_FOUND", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 503: "UNAVAILABLE"}
            return Told(names[status], answer.headers.get("WWW-Authenticate", ""), "Retry-After" in answer.headers)


@asynccontextmanager
async def house(
    *, gateway: bool = False, relay: Mapping[str, Any] | None = None, steps: Sequence[Step] = (), **settings: Any
) -> AsyncIterator[House]:
    """Serve the demo agent for the duration of the block; `relay` has the settings of the gateway."""
    at: dict[str, Any] = {"store": "memory:", "grpc": "127.0.0.1:0", "http": "127.0.0.1:0"}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running(Settings(**{**at, **settings}), agent, steps=steps))
        session = await stack.enter_async_context(ClientSession())
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(str(server.grpc)))
        url = ""
        if gateway:
            upstream = {"addresses": [str(server.grpc)]}
            relaying_at = await stack.enter_async_context(
                relaying(Settings(**{**at, "upstream": upstream, **(relay or {})}))
            )
            url = f"http://{relaying_at}"
        yield House(server, session, channel, url)


async def known_as(auth: Mapping[str, Any], *tokens: str) -> list[Caller | None]:
    """Whom settings know the senders of tokens as; None = as nobody."""
    callers: list[Caller | None] = []
    async with AsyncExitStack() as stack:
        authenticator = await authenticator_of(Settings(auth=auth), stack)
        for token in tokens:
            try:
                caller = await authenticator.authenticate(Credentials({"authorization": (f"Bearer {token}",)}))
            except A2AError:
                caller = None
            callers.append(caller)
    return callers


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def trusting(issuer: Issuer, **chosen: Any) -> dict[str, Any]:
    """The settings of an issuer of ours."""
    return {"issuer": issuer.url, "audiences": [AUDIENCE], "allow_loopback": True, **chosen}
