"""Clients that open many connections and say nothing: bounded per address, and others are served (spec: LIMT-01)."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from grpc_health.v1 import health_pb2, health_pb2_grpc

from a2a_server.settings import Settings
from tests.support.certificates import self_signed
from tests.support.http import get, house, once, port_of
from tests.support.stage import Stage

PATIENCE = 10.0
STRANGER, NEIGHBOUR = "127.0.0.7", "127.0.0.1"


@contextmanager
def silent(port: int, number: int, *, source: str = STRANGER) -> Iterator[Sequence[socket.socket]]:
    """So many connections that say nothing."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 5, (source, 0))) for _ in range(number)
        ]


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)  # noqa: FBT003 - socket has it so
    try:
        return client.recv(1 << 16, socket.MSG_PEEK) != b"" and is_open_behind(client)
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def is_open_behind(client: socket.socket) -> bool:
    """Whether the server, which has said something, has not closed after it."""
    client.recv(1 << 16)
    return is_open(client)


async def left_open(clients: Sequence[socket.socket], number: int) -> None:
    """Wait until only so many of them are open."""
    async with asyncio.timeout(PATIENCE):
        while sum(map(is_open, clients)) != number:  # noqa: ASYNC110 - sockets tell no event
            await asyncio.sleep(0.05)


async def health(port: int) -> int:
    async with grpc.aio.insecure_channel(f"{NEIGHBOUR}:{port}", options=[("grpc.use_local_subchannel_pool", 1)]) as to:
        check: Any = cast("Any", health_pb2_grpc.HealthStub(to)).Check
        return int((await check(health_pb2.HealthCheckRequest(), timeout=PATIENCE)).status)


@pytest.mark.req("LIMT-01")
async def test_http_connections_are_bounded_per_address() -> None:
    async with house(Stage().agent, gateway={"connections_per_client": 20}) as server:
        port = port_of(server)
        with silent(port, 60) as clients:
            await left_open(clients, 20)
            assert (await once(port, get("/healthz"))).status == 200
        async with asyncio.timeout(PATIENCE):  # places are given back
            while True:
                with silent(port, 20) as clients:
                    await asyncio.sleep(0.1)
                    if all(map(is_open, clients)):
                        break


@pytest.mark.req("LIMT-01")
async def test_those_that_never_say_who_they_are_over_tls_count_too(tmp_path: Path) -> None:
    tls = self_signed(tmp_path, ec.generate_private_key(ec.SECP256R1()))
    async with house(Stage().agent, tls=tls, gateway={"connections_per_client": 20, "body_timeout": 0.4}) as server:
        port = port_of(server)
        with silent(port, 40) as clients:
            await left_open(clients, 20)
            await left_open(clients, 0)
        with silent(port, 20) as clients:
            await asyncio.sleep(0.1)
            assert all(map(is_open, clients))


@pytest.mark.req("LIMT-01")
async def test_trusted_proxies_have_no_bound_of_their_own() -> None:
    limits = {"connections_per_client": 5, "connections": 30, "trusted_proxies": (STRANGER,)}
    async with house(Stage().agent, gateway=limits) as server:
        with silent(port_of(server), 40) as clients:
            await left_open(clients, 30)


@pytest.mark.req("LIMT-01")
async def test_grpc_connections_are_bounded_per_address_and_in_all() -> None:
    bounds = {"connections_per_client": 20, "connections": 50, "handshake_timeout": 60}
    async with house(Stage().agent, transport=bounds) as server:
        with silent(server.grpc.port, 40) as clients:
            await left_open(clients, 20)
            assert await health(server.grpc.port) == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.req("LIMT-01")
async def test_a_connection_that_does_not_begin_with_http_2_is_closed() -> None:
    async with house(Stage().agent, transport={"handshake_timeout": 0.3}) as server:
        with silent(server.grpc.port, 5) as clients:
            await left_open(clients, 0)


@pytest.mark.req("LIMT-01")
def test_the_bounds_leave_descriptors_in_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    from a2a_server.protocol.options import connection_bounds  # noqa: PLC0415

    assert Settings().gateway.connections == Settings().transport.connections == 0
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    assert connection_bounds(0, 2000) == (96, 48)
    assert connection_bounds(10, 3) == (10, 3)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert connection_bounds(0, 2000) == (24_576, 2000)
