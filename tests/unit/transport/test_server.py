"""The listening server: TLS, mutual TLS, health, reflection, addresses that are taken."""

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
import trustme
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2
from a2a_server.domain.client_certificates import names_in
from a2a_server.operations.call import Call
from a2a_server.ports.authenticator import Caller, CardSecurity, Credentials
from a2a_server.transport.address import Address, StartError
from a2a_server.transport.grpc.server import channel_arguments
from a2a_server.transport.grpc_options import GrpcOptions, Tls
from a2a_server.transport.tls.certificates import PemFile, authorities, certificates_fault, identity, server_identity
from tests.support.certificates import self_signed
from tests.unit.transport.doors import open_door, refused

REQUEST = pb.GetTaskRequest(id="t")


class ByCertificate:
    """Knows callers by the names in their certificates."""

    required = True
    card = CardSecurity()

    async def authenticate(self, credentials: Credentials) -> Caller:
        names = names_in(credentials.certificate) if credentials.certificate else ()
        return Caller(",".join(name.value for name in names if name.kind != "cn") or "nobody", authenticated=True)


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Tls:
    folder = tmp_path_factory.mktemp("tls")
    issued = ca.issue_cert("localhost")
    (folder / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    (folder / "key.pem").write_bytes(issued.private_key_pem.bytes())
    (folder / "ca.pem").write_bytes(ca.cert_pem.bytes())
    return Tls(cert=str(folder / "cert.pem"), key=str(folder / "key.pem"))


def client(server_ca: trustme.CA, own: trustme.LeafCert | None = None) -> grpc.ChannelCredentials:
    if own is None:
        return grpc.ssl_channel_credentials(server_ca.cert_pem.bytes())
    chain = b"".join(blob.bytes() for blob in own.cert_chain_pems)
    return grpc.ssl_channel_credentials(server_ca.cert_pem.bytes(), own.private_key_pem.bytes(), chain)


async def test_tls_serves_clients_that_trust_it(ca: trustme.CA, tls: Tls) -> None:
    async with open_door(tls=tls, credentials=client(ca)) as door:
        assert (await door.stub.GetTask(REQUEST)).id == "t"


@pytest.mark.parametrize("trusting", [False, True], ids=["another authority", "no TLS"])
async def test_tls_serves_nobody_else(tls: Tls, *, trusting: bool) -> None:
    async with open_door(tls=tls, credentials=None if trusting else client(trustme.CA())) as door:
        assert (await refused(lambda: door.stub.GetTask(REQUEST))).code == grpc.StatusCode.UNAVAILABLE
        assert door.seen.calls == []


async def test_mutual_tls_names_the_caller(ca: trustme.CA, tls: Tls) -> None:
    mutual = replace(tls, client_ca=str(Path(tls.cert).with_name("ca.pem")))
    own = ca.issue_cert("ann.example", common_name="ann")
    async with open_door(tls=mutual, authenticator=ByCertificate(), credentials=client(ca, own)) as door:
        await door.stub.GetTask(REQUEST)
        assert door.seen.calls[0].caller.owner == "ann.example"


@pytest.mark.parametrize("foreign", [False, True], ids=["none", "another authority's"])
async def test_mutual_tls_requires_a_certificate_it_trusts(ca: trustme.CA, tls: Tls, *, foreign: bool) -> None:
    mutual = replace(tls, client_ca=str(Path(tls.cert).with_name("ca.pem")))
    own = trustme.CA().issue_cert("ann.example") if foreign else None
    async with open_door(tls=mutual, credentials=client(ca, own)) as door:
        assert (await refused(lambda: door.stub.GetTask(REQUEST))).code == grpc.StatusCode.UNAVAILABLE
        assert door.seen.calls == []


def test_files_that_are_no_certificates_stop_the_start(tmp_path: Path, tls: Tls) -> None:
    with pytest.raises(StartError, match=r"tls\.cert: cannot read .*No such file"):
        server_identity(replace(tls, cert=str(tmp_path / "none.pem")))
    (tmp_path / "junk.pem").write_text("junk")
    with pytest.raises(StartError, match=r"tls\.key: .*is not a PEM file"):
        server_identity(replace(tls, key=str(tmp_path / "junk.pem")))


async def test_keys_that_grpc_does_not_know_are_told_from_ports_that_are_taken(tmp_path: Path) -> None:
    files = self_signed(tmp_path, ec.generate_private_key(ec.SECP256K1()))
    with pytest.raises(
        StartError, match=r"cannot listen on 127\.0\.0\.1:0 with the certificate .*; gRPC knows keys of"
    ):
        async with open_door(tls=files):
            pass


async def test_health_is_serving_until_the_server_drains() -> None:
    async with open_door() as door:
        health: Any = health_pb2_grpc.HealthStub(door.channel)
        for service in ("", "lf.a2a.v1.A2AService", "a2a_server.discovery.v1.Discovery"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        await door.server.refuse_health()
        answer = await health.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING


async def services(channel: grpc.aio.Channel) -> list[str]:
    stub = cast("Any", reflection_pb2_grpc).ServerReflectionStub(channel)
    call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    return sorted([service.name async for answer in call for service in answer.list_services_response.service])


async def test_reflection_shows_the_services() -> None:
    async with open_door() as door:
        shown = await services(door.channel)
    assert {"a2a_server.discovery.v1.Discovery", "grpc.health.v1.Health", "lf.a2a.v1.A2AService"} <= set(shown)


async def test_reflection_can_be_off() -> None:
    async with open_door(options=GrpcOptions(reflection=False)) as door:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await services(door.channel)
        assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_discovery_answers_without_credentials() -> None:
    async with open_door(authenticator=ByCertificate()) as door:
        assert (await door.discovery.GetAgentCard(discovery_pb2.GetAgentCardRequest(tenant="any"))).name == "Echo"


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as other:
        yield other.getsockname()[1]


@pytest.mark.req("DOOR-09")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])  # noqa: S104 - it fails to listen
async def test_a_taken_port_stops_the_start(taken: int, host: str) -> None:
    async with open_door() as door:
        with pytest.raises(StartError, match=f"grpc: {host}:{taken} is already in use by another process"):
            door.server.listen(Address(host, taken))


@pytest.mark.req("DOOR-09")
async def test_two_of_our_own_servers_do_not_share_a_port() -> None:
    async with open_door() as first, open_door() as second:
        with pytest.raises(StartError, match="already in use"):
            second.server.listen(first.address)


@pytest.mark.parametrize(
    ("host", "message"),
    [("192.0.2.1", "is not an address of this machine"), ("no-such-host.invalid", "is not a known host name")],
)
async def test_an_address_that_is_not_here_stops_the_start(host: str, message: str) -> None:
    async with open_door() as door:
        with pytest.raises(StartError, match=message):
            door.server.listen(Address(host, 50051))


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("127.0.0.1:50051", Address("127.0.0.1", 50051), True),
        ("localhost:0", Address("localhost", 0), True),
        ("[::1]:80", Address("::1", 80), True),
        ("0.0.0.0:1", Address("0.0.0.0", 1), False),  # noqa: S104 - only read
        ("agents.example:443", Address("agents.example", 443), False),
    ],
)
def test_addresses_read_as_they_print(text: str, address: Address, *, loopback: bool) -> None:
    assert Address.parse(text) == address
    assert str(address) == text
    assert address.loopback is loopback


@pytest.mark.parametrize(
    "text",
    ["", ":1", "host", "host:", "host:x", "host:65536", "host:-1", "::1:80", "[]:1", "a/b:1", "ann@b:1", "a b:1"],
)
def test_other_spellings_are_no_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="must be HOST:PORT"):
        Address.parse(text)


def test_idle_connections_are_kept_unless_told_otherwise() -> None:
    assert "grpc.max_connection_idle_ms" not in dict(channel_arguments(GrpcOptions()))
    assert dict(channel_arguments(GrpcOptions(max_connection_idle=1.5)))["grpc.max_connection_idle_ms"] == 1500


async def test_stopping_lets_calls_end_first() -> None:
    async def slow(call: object, request: object) -> pb.Task:
        await asyncio.sleep(0.2)
        return pb.Task(id="late")

    async with open_door({"GetTask": slow}) as door:
        call = asyncio.ensure_future(door.stub.GetTask(REQUEST))
        await asyncio.sleep(0.1)
        await door.server.stop(2)
        assert (await call).id == "late"


@pytest.mark.req("LIMT-01")
async def test_calls_on_all_connections_together_are_bounded() -> None:
    arrived, held = asyncio.Event(), asyncio.Event()

    async def hold(call: Call, request: Message) -> Message:
        arrived.set()
        await held.wait()
        return pb.Task(id="t")

    async with open_door({"GetTask": hold}, options=GrpcOptions(max_concurrent_calls=1)) as door:
        first = asyncio.ensure_future(door.stub.GetTask(REQUEST))
        await asyncio.wait_for(arrived.wait(), 10)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await door.stub.GetTask(REQUEST)
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        held.set()
        assert (await first).id == "t"


CUT = slice(3, 5)
"""Lines in the middle of a file, for it to be damaged."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files as operators have them, by what they are."""
    folder = tmp_path_factory.mktemp("pem")
    ca = trustme.CA()
    own, other, rsa = (ca.issue_cert("a.example", key_type=kind) for kind in (_EC, _EC, trustme.KeyType.RSA))
    cert, key = own.cert_chain_pems[0].bytes(), own.private_key_pem.bytes()
    secret = forms.load_pem_private_key(key, None)
    locked = forms.BestAvailableEncryption(b"secret")
    files = {
        "ca": ca.cert_pem.bytes(),
        "cert": cert,
        "key": key,
        "both": key + cert,
        "commented": "# Größe: klein\n".encode() + cert,
        "latin": b"# Gr\xf6\xdfe\n" + cert,
        "parameters": b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n" + key,
        "pkcs8": secret.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()),
        "chain": cert + ca.cert_pem.bytes(),
        "backwards": ca.cert_pem.bytes() + cert,
        "other-key": other.private_key_pem.bytes(),
        "rsa-key": rsa.private_key_pem.bytes(),
        "locked": secret.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, locked),
        "locked-old": secret.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.TraditionalOpenSSL, locked),
        "damaged-cert": without(cert, CUT),
        "damaged-key": without(key, slice(2, 3)),
        "one-of-two": ca.cert_pem.bytes() + without(cert, CUT),
        "der": secret.private_bytes(forms.Encoding.DER, forms.PrivateFormat.PKCS8, forms.NoEncryption()),
        "text": b"hello",
        "empty": b"",
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


_EC = trustme.KeyType.ECDSA


def without(content: bytes, cut: slice) -> bytes:
    lines = content.splitlines(keepends=True)
    del lines[cut]
    return b"".join(lines)


@pytest.mark.parametrize(
    ("cert", "key"),
    [
        ("cert", "key"),
        ("both", "both"),
        ("chain", "pkcs8"),
        ("commented", "parameters"),
        ("latin", "key"),
    ],
)
def test_what_belongs_together_is_taken_as_it_is(folder: Path, cert: str, key: str) -> None:
    taken = identity(PemFile("cert", str(folder / cert)), PemFile("key", str(folder / key)))
    assert taken == ((folder / cert).read_bytes(), (folder / key).read_bytes())


MISFITS = [
    ("none", "key", "tls.cert: cannot read 'none': No such file or directory"),
    ("cert", "none", "tls.key: cannot read 'none': No such file or directory"),
    (".", "key", "tls.cert: cannot read '.': Is a directory"),
    ("text", "key", "tls.cert: 'text' is not a PEM file of certificates"),
    ("empty", "key", "tls.cert: 'empty' is not a PEM file of certificates"),
    ("cert", "text", "tls.key: 'text' is not a PEM file of a private key"),
    ("cert", "der", "tls.key: 'der' is not a PEM file of a private key"),
    ("key", "cert", "tls.cert: 'key' holds a private key, and tls.key = 'cert' a certificate; swap the two"),
    ("key", "key", "tls.cert: 'key' holds no certificate"),
    ("cert", "cert", "tls.key: 'cert' holds no private key"),
    ("damaged-cert", "key", "tls.cert: 'damaged-cert' holds a certificate that is damaged"),
    ("cert", "damaged-key", "tls.key: 'damaged-key' holds a private key that is damaged"),
    ("cert", "locked", "tls.key: 'locked' is encrypted; give it without a passphrase"),
    ("cert", "locked-old", "tls.key: 'locked-old' is encrypted; give it without a passphrase"),
    ("cert", "other-key", "tls.key: 'other-key' is not the key of the certificate in tls.cert = 'cert'"),
    ("cert", "rsa-key", "tls.key: 'rsa-key' is not the key of the certificate in tls.cert = 'cert'"),
    (
        "backwards",
        "key",
        "tls.key: 'key' is not the key of the certificate in tls.cert = 'backwards', which must come first in its file",
    ),
]


@pytest.mark.parametrize(("cert", "key", "message"), MISFITS, ids=[f"{cert} {key}" for cert, key, _ in MISFITS])
def test_every_misfit_has_words_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch, cert: str, key: str, message: str
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(StartError) as refused:
        identity(PemFile("tls.cert", cert), PemFile("tls.key", key))
    assert str(refused.value) == message


@pytest.mark.parametrize("name", ["ca", "both", "chain", "commented", "latin"])
def test_authorities_are_taken_as_they_are(folder: Path, name: str) -> None:
    assert authorities(PemFile("ca", str(folder / name))) == (folder / name).read_bytes()


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("text", "is not a PEM file of certificates"),
        ("key", "holds no certificate"),
        ("damaged-cert", "holds a certificate that is damaged"),
        ("one-of-two", "holds a certificate that is damaged"),
    ],
)
def test_a_fault_of_authorities_is_said_and_the_file_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: str
) -> None:
    monkeypatch.chdir(folder)
    assert certificates_fault((folder / name).read_bytes()) == fault
    with pytest.raises(StartError) as refused:
        authorities(PemFile("upstream.ca", name))
    assert str(refused.value) == f"upstream.ca: {name!r} {fault}"
