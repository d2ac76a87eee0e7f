"""Health, TLS and addresses of the HTTP door (spec: DOOR-07, DOOR-09, SECR-06)."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from a2a_server.ports.store import StoreUnavailable
from a2a_server.serve import relaying
from a2a_server.settings import Settings
from tests.support.certificates import self_signed
from tests.support.house import Address, MemoryStore, StartError, Tls
from tests.support.http import get, house, once, port_of, post, wire
from tests.support.stage import Stage

# -- health


@pytest.mark.req("DOOR-07")
async def test_it_says_that_it_is_alive_and_ready() -> None:
    async with house(Stage().agent) as server:
        port = port_of(server)
        for path, status in (("/healthz", "alive"), ("/readyz", "ready")):
            answer = await once(port, get(path))
            assert (answer.status, answer.json) == (200, {"status": status})
            assert answer.headers["Content-Type"] == "application/json"
            assert answer.headers["Cache-Control"] == "no-store"
            assert (await once(port, get(path, verb="HEAD"), head=True)).status == 200


@pytest.mark.req("DOOR-07", "DURA-07")
async def test_without_its_store_it_is_alive_and_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    away = False

    async def ping(self: MemoryStore) -> None:
        if away:
            raise StoreUnavailable("postgres://admin:hunter2@db")

    monkeypatch.setattr("a2a_server.transport.local.FRESH", 0.0)
    monkeypatch.setattr(MemoryStore, "ping", ping)
    async with house(Stage().agent) as server:
        port = port_of(server)
        assert (await once(port, get("/readyz"))).status == 200
        away = True
        answer = await once(port, get("/readyz"))
        assert (answer.status, answer.reason, answer.headers["Retry-After"]) == (503, "UNAVAILABLE", "1")
        assert b"hunter2" not in answer.body
        assert (await once(port, get("/healthz"))).status == 200
        away = False
        assert (await once(port, get("/readyz"))).status == 200


# -- TLS


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Tls:
    folder = tmp_path_factory.mktemp("tls")
    issued = ca.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(str(folder / "both.pem"))
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    trustme.CA().issue_cert("localhost").private_key_pem.write_to_path(str(folder / "other.pem"))
    (folder / "junk.pem").write_text("junk")
    return Tls(cert=str(folder / "both.pem"), key=str(folder / "both.pem"))


def client(ca: trustme.CA, own: trustme.LeafCert | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    if own is not None:
        own.configure_cert(context)
    return context


@pytest.mark.req("CARD-07")
async def test_one_pair_of_files_secures_both_doors(ca: trustme.CA, tls: Tls) -> None:
    async with house(Stage().agent, tls=tls) as server:
        port = port_of(server)
        card = (await once(port, get("/.well-known/agent-card.json"), tls=client(ca))).json
        assert card["supportedInterfaces"][1]["url"] == f"https://127.0.0.1:{port}"
        stream = await once(port, post("/message:stream"), tls=client(ca))
        assert b"TASK_STATE_COMPLETED" in stream.body


@pytest.mark.req("SECR-06")
async def test_tls_1_2_has_no_cbc(ca: trustme.CA, tls: Tls) -> None:
    async with house(Stage().agent, tls=tls) as server:
        for ciphers, speaks in (("ECDHE+AESGCM", True), ("ECDHE+CHACHA20", True), ("ECDHE+AES:!AESGCM:!AESCCM", False)):
            context = client(ca)
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers(ciphers)
            if speaks:
                assert (await once(port_of(server), get("/healthz"), tls=context)).status == 200
            else:
                with pytest.raises((ssl.SSLError, ConnectionResetError)):
                    await once(port_of(server), get("/healthz"), tls=context)


async def test_strangers_are_not_spoken_to(ca: trustme.CA, tls: Tls) -> None:
    async with house(Stage().agent, tls=tls) as server:
        with structlog.testing.capture_logs() as logs:
            with pytest.raises(ssl.SSLCertVerificationError):
                await once(port_of(server), get("/healthz"), tls=client(trustme.CA()))
            async with wire(port_of(server)) as plain:
                await plain.send(get("/healthz"))
                assert b"HTTP" not in await plain.ended()
        assert logs == []
        assert (await once(port_of(server), get("/healthz"), tls=client(ca))).status == 200


async def test_mutual_tls_asks_every_client_for_its_certificate(ca: trustme.CA, tls: Tls) -> None:
    mutual = replace(tls, client_ca=tls.cert.replace("both", "ca"))
    async with house(Stage().agent, tls=mutual) as server:
        known = client(ca, ca.issue_cert("ann@example.com"))
        assert (await once(port_of(server), get("/healthz"), tls=known)).status == 200
        for stranger in (client(ca), client(ca, trustme.CA().issue_cert("eve@example.com"))):
            with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
                await once(port_of(server), get("/healthz"), tls=stranger)


async def start(tls: Tls) -> None:
    async with house(Stage().agent, tls=tls):
        pytest.fail("it serves")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tls: replace(tls, key=tls.key.replace("both", "none")), "tls.key: cannot read"),
        (lambda tls: replace(tls, cert=tls.cert.replace("both", "junk")), "tls.cert: '.*' is not a PEM file"),
        (
            lambda tls: replace(tls, key=tls.key.replace("both", "other")),
            "tls.key: '.*' is not the key of the certificate",
        ),
        (lambda tls: replace(tls, client_ca=tls.cert.replace("both", "none")), "tls.client_ca: cannot read"),
    ],
)
async def test_files_that_do_not_do_are_named(tls: Tls, change: Callable[[Tls], Tls], message: str) -> None:
    with pytest.raises(StartError, match=message):
        await start(change(tls))


async def test_a_key_with_a_password_does_not_ask_for_it(tls: Tls, tmp_path: Path) -> None:
    """On a terminal OpenSSL would, and the start would hang."""
    key = serialization.load_pem_private_key(Path(tls.key).read_bytes(), None)  # noqa: ASYNC240 - once
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    (tmp_path / "locked.pem").write_bytes(locked)
    with pytest.raises(StartError, match=r"tls\.key: '.*' is encrypted; give it without a passphrase"):
        await start(replace(tls, key=str(tmp_path / "locked.pem")))


async def test_a_key_that_is_too_short_for_https_is_named(tmp_path: Path) -> None:
    """gRPC's own library takes it."""
    short = rsa.generate_private_key(65537, 1024)  # noqa: S505 - that is the point
    files = self_signed(tmp_path, short)
    with pytest.raises(StartError, match=r"tls\.cert: '.*' is refused by OpenSSL: its key is too short"):
        await start(files)


# -- addresses


@pytest.mark.req("DOOR-09")
async def test_a_taken_port_stops_the_start_and_names_the_door() -> None:
    async with house(Stage().agent) as server:
        taken = f"127.0.0.1:{port_of(server)}"
        with pytest.raises(StartError, match=f"http: {taken} is already in use by another process"):
            async with house(Stage().agent, http=taken):
                pass
        with pytest.raises(StartError, match=f"http: {taken} is already in use"):
            async with relaying(Settings(http=taken, upstream={"addresses": ["127.0.0.1:1"]})):
                pass
        assert (await once(port_of(server), get("/healthz"))).status == 200


@pytest.mark.req("DOOR-09")
def test_a_port_is_taken_before_anybody_is_served() -> None:
    """Two servers that start at the same time must not both believe that it is theirs."""
    with Address("127.0.0.1", 0).listen("http") as listener:
        address = Address("127.0.0.1", listener.getsockname()[1])
        with pytest.raises(StartError, match="already in use"):
            address.listen("http")
        with socket.create_connection((address.host, address.port), timeout=5):
            pass  # waits for somebody to accept it


@pytest.mark.req("OPER-07")
def test_a_reserved_port_is_for_those_who_share_it() -> None:
    """And connections are for those alone that listen."""
    with Address("127.0.0.1", 0).reserve("http") as reserved:
        address = Address("127.0.0.1", reserved.getsockname()[1])
        for take in (address.reserve, address.listen):
            with pytest.raises(StartError, match="already in use"):
                take("http")
        with address.share("http") as first, address.share("http") as second:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((address.host, address.port), timeout=5)
            second.listen()
            socket.create_connection((address.host, address.port), timeout=5).close()
            first.listen()


@pytest.mark.req("DOOR-09")
def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(StartError, match=r"http: 192\.0\.2\.1:8080 is not an address of this machine"):
        Address("192.0.2.1", 8080).listen("http")
    with pytest.raises(StartError, match=r"http: nowhere\.invalid is not a known host name"):
        Address("nowhere.invalid", 8080).listen("http")


@pytest.mark.parametrize(("host", "clients"), [("[::1]", ["::1"]), ("[::]", ["::1", "127.0.0.1"]), ("localhost", [])])
async def test_it_listens_on_ipv6_and_on_names(host: str, clients: list[str]) -> None:
    async with house(Stage().agent, http=f"{host}:0", anonymous_beyond_loopback=True) as server:
        for address in clients or [socket.gethostbyname("localhost")]:
            assert (await once(port_of(server), get("/healthz"), host=address)).status == 200


async def test_a_door_that_cannot_open_leaves_its_port_free() -> None:
    with Address("127.0.0.1", 0).listen("http") as listener:
        port = listener.getsockname()[1]
    with pytest.raises(StartError):
        async with house(Stage().agent, http=f"127.0.0.1:{port}", tls=Tls(cert="/none", key="/none")):
            pass
    Address("127.0.0.1", port).listen("http").close()
