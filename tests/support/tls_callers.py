"""A server with TLS, and what each door answers to clients with certificates."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import grpc

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc, a2a_v0_3_pb2_grpc
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.demo import agent
from a2a_server.ports.authenticator import Caller
from a2a_server.serve import Server, running
from a2a_server.settings import Settings
from a2a_server.transport.pipeline import Admission
from tests.support.authority import Authority, Issued

DOORS = ("grpc", "grpc-0.3", "rest", "rest-0.3", "jsonrpc", "jsonrpc-0.3")
_PATHS = {"rest": "/tasks/nobodys", "rest-0.3": "/v1/tasks/nobodys"}
_METHODS = {"jsonrpc": "GetTask", "jsonrpc-0.3": "tasks/get"}
_NOBODY: Mapping[str, str] = {}


def context_of(ca: Authority, own: Issued | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca.path))
    if own is not None:
        context.load_cert_chain(own.path)
    return context


def channel_to(at: object, ca: Authority, own: Issued | None) -> grpc.aio.Channel:
    pems = (own.key_pem, own.pem) if own is not None else (None, None)
    credentials = grpc.ssl_channel_credentials(ca.path.read_bytes(), *pems)
    alone = [("grpc.use_local_subchannel_pool", 1), ("grpc.ssl_target_name_override", "localhost")]
    return grpc.aio.secure_channel(str(at), credentials, options=alone)


@dataclass
class SecureHouse:
    """A server with TLS. `callers` are those that have come through."""

    server: Server
    ca: Authority
    callers: list[Caller] = field(default_factory=list)

    async def told(self, door: str, own: Issued | None, headers: Mapping[str, str] = _NOBODY) -> str:
        """Ask for a task that nobody has, over a connection of its own, and say as whom that was, or the refusal."""
        if door.startswith("grpc"):
            async with channel_to(self.server.grpc, self.ca, own) as channel:
                return await self.over_grpc(channel, door, headers)
        tls = context_of(self.ca, own)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session:
            return await self.over_http(session, f"https://127.0.0.1:{self._port}", door, headers)

    @property
    def _port(self) -> int:
        assert self.server.http is not None
        return self.server.http.port

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    async def over_grpc(self, channel: grpc.aio.Channel, door: str, headers: Mapping[str, str] = _NOBODY) -> str:
        self.callers.clear()
        metadata = [(name.lower(), value) for name, value in headers.items()]
        try:
            if door == "grpc":
                wanted = pb.GetTaskRequest(id="nobodys")
                await a2a_pb2_grpc.A2AServiceStub(channel).GetTask(wanted, metadata=metadata)
            else:
                asked = v03.GetTaskRequest(name="tasks/nobodys")
                await a2a_v0_3_pb2_grpc.A2AServiceStub(channel).GetTask(asked, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            return self._who() if error.code() is grpc.StatusCode.NOT_FOUND else error.code().name
        raise AssertionError("nobody has this task")

    async def over_http(
        self, session: aiohttp.ClientSession, base: str, door: str, headers: Mapping[str, str] = _NOBODY
    ) -> str:
        self.callers.clear()
        if door in _PATHS:
            request = session.get(base + _PATHS[door], headers=headers)
        else:
            body = {"jsonrpc": "2.0", "id": 1, "method": _METHODS[door], "params": {"id": "nobodys"}}
            request = session.post(base + "/", json=body, headers=headers)
        try:
            async with request as answer:
                await answer.read()
                unknown = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}
                return unknown.get(answer.status) or self._who()
        except (aiohttp.ClientError, ConnectionError):
            return "UNAVAILABLE"

    def _who(self) -> str:
        (caller,) = self.callers
        return f"{caller.tenant}/{caller.owner}" if caller.tenant else caller.owner


@asynccontextmanager
async def secure_house(ca: Authority, tls: Mapping[str, Any] = {}, **settings: Any) -> AsyncIterator[SecureHouse]:
    """Serve the demo agent with mutual TLS for the duration of the block."""
    own = ca.issue("dns:localhost", path="server.pem")
    files = {"cert": str(own.path), "key": str(own.path), "client_ca": str(ca.path), **tls}
    at: dict[str, Any] = {"store": "memory:", "grpc": "127.0.0.1:0", "http": "127.0.0.1:0", "tls": files}
    seen: list[Caller] = []

    def note(call: Admission) -> None:
        seen.append(call.caller)

    async with running(Settings(**{**at, **settings}), agent, steps=[note]) as server:
        yield SecureHouse(server, ca, seen)
