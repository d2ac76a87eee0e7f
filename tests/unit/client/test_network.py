"""Certificates, addresses, and what the URL of a gRPC interface means."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from a2a_server import serving
from a2a_server.agents import Agent, Turn
from a2a_server.client import CardInvalidError, Network, UnreachableError, connect
from a2a_server.client.grpc_binding import target_of
from a2a_server.client.network import GrpcTarget

BINDINGS = ("GRPC", "JSONRPC", "HTTP+JSON")
agent = Agent(name="Echo", description="Says it again.", version="1")


@agent.skill(id="echo", tags=["test"])
async def echo(turn: Turn) -> str:
    return turn.text


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[tuple[str, str]]:
    """A server with a certificate of an authority that nobody knows: its URL, and the authority."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    async with serving(agent, tls={"cert": str(cert), "key": str(key)}) as server:
        yield f"https://{server.http}", authority.cert_pem.bytes().decode()


@pytest.mark.parametrize("binding", BINDINGS)
async def test_an_unknown_certificate(secured: tuple[str, str], binding: str) -> None:
    url, authority = secured
    with pytest.raises(UnreachableError):
        async with connect(url, transports=[binding]):
            pass
    for choice in ({"insecure": True}, {"network": Network(trust=authority)}):
        async with connect(url, transports=[binding], **choice) as remote:
            assert remote.interface.protocol_binding == binding
            assert (await remote.send("hello")).task.artifacts[0].parts[0].text == "hello"
    card = remote.card
    async with connect(card, transports=["JSONRPC"]) as remote:
        with pytest.raises(UnreachableError):
            await remote.send("hello")


@pytest.mark.parametrize("binding", BINDINGS)
async def test_addresses_that_may_not_be_called(binding: str) -> None:
    asked: list[str] = []

    def refuse(address: str) -> str:
        asked.append(address)
        return "this machine"

    async with serving(agent) as server:
        url = f"http://localhost:{server.http.port}" if server.http else ""
        async with connect(url, transports=[binding]) as remote:
            card = remote.card
        with pytest.raises(UnreachableError):
            async with connect(card, transports=[binding], network=Network(refusal=refuse)) as remote:
                await remote.send("hello")
        async with connect(card, transports=[binding], network=Network(refusal=lambda _: "")) as remote:
            assert (await remote.send("hello")).task.artifacts[0].parts[0].text == "hello"
    assert set(asked) <= {"127.0.0.1", "::1"}
    assert asked


def test_what_the_url_of_a_grpc_interface_means() -> None:
    rows = [
        ("agent.example:50051", "", GrpcTarget("agent.example", 50051, is_secure=True)),
        ("agent.example", "", GrpcTarget("agent.example", 443, is_secure=True)),
        ("agent.example:50051", "http://agent.example/card", GrpcTarget("agent.example", 50051, is_secure=False)),
        ("agent.example:443", "http://agent.example/card", GrpcTarget("agent.example", 443, is_secure=True)),
        ("localhost:1", "", GrpcTarget("localhost", 1, is_secure=False)),
        ("127.0.0.1:1", "https://127.0.0.1/card", GrpcTarget("127.0.0.1", 1, is_secure=True)),
        ("[::1]:1", "", GrpcTarget("::1", 1, is_secure=False)),
        ("https://localhost:1", "http://x", GrpcTarget("localhost", 1, is_secure=True)),
        ("http://agent.example", "https://x", GrpcTarget("agent.example", 80, is_secure=False)),
        ("grpcs://agent.example:1/", "", GrpcTarget("agent.example", 1, is_secure=True)),
    ]
    for url, card_url, target in rows:
        assert target_of(url, card_url) == target
    assert GrpcTarget("::1", 1, is_secure=False).address == "[::1]:1"
    for wrong in ("unix:///tmp/x", "agent.example:port", "://x", ""):
        with pytest.raises(CardInvalidError):
            target_of(wrong, "")


async def test_a_port_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(UnreachableError):
        async with connect(f"127.0.0.1:{port}"):
            pass
