"""How operators say where the upstream is, and how to trust it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trustme
from google.rpc import code_pb2 as code

from a2a_gateway.channel import ChannelUpstream, UnusableOptions
from a2a_server.protocol.options import ChannelOptions, target_of
from a2a_server.transport.grpc_options import Tls
from tests.unit.gateway.upstreams import channel_to, get, refused
from tests.unit.transport.doors import open_door


def test_without_an_address_there_is_nothing_to_call() -> None:
    with pytest.raises(UnusableOptions, match="needs the address of at least one server"):
        ChannelUpstream(ChannelOptions())


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("agent:50051", "dns:///agent:50051"),
        ("127.0.0.1:50051", "dns:///127.0.0.1:50051"),
        ("[::1]:50051", "dns:///[::1]:50051"),
        ("unix:/run/a2a.sock", "unix:/run/a2a.sock"),
        ("ipv4:10.0.0.1:1,10.0.0.2:1", "ipv4:10.0.0.1:1,10.0.0.2:1"),
    ],
)
def test_addresses(address: str, target: str) -> None:
    assert target_of(address) == target


@pytest.mark.parametrize(
    "address", ["", "agent", "agent:", ":1", "::1:1", "agent:0", "agent:65536", "http://agent:1", "a b:1"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="must be HOST:PORT, such as"):
        ChannelOptions(addresses=(address,))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, ca = tmp_path_factory.mktemp("tls"), trustme.CA()
    for name in ("agent", "gateway"):
        issued = ca.issue_cert(f"{name}.example")
        (folder / f"{name}.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        (folder / f"{name}.key").write_bytes(issued.private_key_pem.bytes())
    (folder / "ca.pem").write_bytes(ca.cert_pem.bytes())
    return folder


def tls(folder: Path, *, mutual: bool = False) -> Tls:
    ca = str(folder / "ca.pem") if mutual else ""
    return Tls(cert=str(folder / "agent.pem"), key=str(folder / "agent.key"), client_ca=ca)


@pytest.mark.req("DOOR-01")
async def test_tls_with_its_own_authority_and_name(folder: Path) -> None:
    options = {"ca": str(folder / "ca.pem"), "server_name": "agent.example"}
    async with open_door(tls=tls(folder)) as door, channel_to(door.address.port, **options) as to:
        assert await get(to) == "t"


@pytest.mark.req("DOOR-01")
async def test_tls_with_certificates_on_both_sides(folder: Path) -> None:
    own = {"cert": str(folder / "gateway.pem"), "key": str(folder / "gateway.key")}
    options = {"ca": str(folder / "ca.pem"), "server_name": "agent.example"}
    async with open_door(tls=tls(folder, mutual=True)) as door:
        async with channel_to(door.address.port, **own, **options) as to:
            assert await get(to) == "t"
        async with channel_to(door.address.port, **options) as to:
            assert (await refused(get(to))).code == code.UNAVAILABLE


@pytest.mark.parametrize("ca", ["", "ca.pem"], ids=["the system's authorities", "another name"])
async def test_nobody_else_is_talked_to(folder: Path, ca: str) -> None:
    options: dict[str, Any] = {"tls": True, "ca": str(folder / ca) if ca else ""}
    async with open_door(tls=tls(folder)) as door, channel_to(door.address.port, **options) as to:
        assert (await refused(get(to))).code == code.UNAVAILABLE
        assert not door.seen.calls


def test_files_are_checked_at_the_start(folder: Path) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"ca": str(folder / "none")}, r"upstream\.ca: cannot read .*No such file"),
        ({"ca": __file__}, r"upstream\.ca: .* is not a PEM file"),
        ({"cert": str(folder / "gateway.pem")}, r"upstream\.cert and upstream\.key: need each other"),
    ]
    for wrong, message in rows:
        with pytest.raises(UnusableOptions, match=message):
            ChannelUpstream(ChannelOptions(addresses=("localhost:1",), **wrong))
