"""Callers known by client certificates, the same through every door."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from pydantic import ValidationError
from structlog.testing import capture_logs

from a2a_server.settings import Settings
from tests.support.authority import Authority, Issued, write
from tests.support.tls_callers import DOORS, SecureHouse, channel_to, context_of, secure_house

TOKEN = {"Authorization": "Bearer secret"}
HASH = f"sha256:{hashlib.sha256(b'secret').hexdigest()}"


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


RULES = {
    "certificates": [
        {"name": "uri:spiffe://prod.example/ns/*/sa/*", "trust_domain_tenant": True},
        {"name": "dns:bob.clients.example", "owner": "bob"},
        {"name": "dns:*.clients.example", "tenant": "clients"},
        {"name": "email:*@example.com"},
        {"name": "cn:build-*", "owner": "builder"},
    ]
}
WHO = {
    ("uri:spiffe://prod.example/ns/a/sa/b",): "prod.example/spiffe://prod.example/ns/a/sa/b",
    ("dns:bob.clients.example",): "bob",
    ("dns:other.example", "dns:BOB.clients.example"): "bob",
    ("dns:ann.clients.example",): "clients/ann.clients.example",
    ("email:ann@EXAMPLE.com",): "ann@example.com",
    ("cn:build-7",): "builder",
    # nobody
    ("uri:spiffe://prod.example/ns/a/sa/b/c",): "UNAUTHENTICATED",
    ("uri:spiffe://prod.example/ns/../sa/b",): "UNAUTHENTICATED",
    ("uri:spiffe://prod.example/ns/a/sa/b", "uri:https://more.example"): "UNAUTHENTICATED",
    ("uri:spiffe://prod.example.evil/ns/a/sa/b",): "UNAUTHENTICATED",
    ("dns:a.b.clients.example",): "UNAUTHENTICATED",
    ("dns:clients.example",): "UNAUTHENTICATED",
    ("dns:ann.clients.example", "dns:eve.clients.example"): "UNAUTHENTICATED",
    ("uri:dns:bob.clients.example", "cn:bob.clients.example"): "UNAUTHENTICATED",
    ("cn:xbuild-7",): "UNAUTHENTICATED",
    ("dns:nobody.example",): "UNAUTHENTICATED",
}


@pytest.mark.req("GATE-10", "GATE-01", "AUTN-01", "AUTN-03", "AUTN-05")
async def test_names_in_certificates_are_callers_at_every_door(ca: Authority) -> None:
    async with secure_house(ca, auth=RULES) as here:
        for names, who in WHO.items():
            common = next((name[3:] for name in names if name.startswith("cn:")), "")
            own = ca.issue(*(name for name in names if not name.startswith("cn:")), common=common)
            for door in DOORS if names == ("dns:bob.clients.example",) else ("grpc", "rest"):
                assert await here.told(door, own) == who, (door, names)


@pytest.mark.req("GATE-10", "AUTN-03")
async def test_authorities_and_strangers_are_nobody(ca: Authority, tmp_path: Path) -> None:
    signs = ca.issue("uri:spiffe://prod.example/ns/a/sa/b", is_authority=True)
    other = Authority(tmp_path, "Test Authority 2").issue("dns:bob.clients.example")
    async with secure_house(ca, auth=RULES) as here:
        for door in ("grpc", "rest"):
            assert await here.told(door, signs) == "UNAUTHENTICATED"
            for own in (None, other):
                assert await here.told(door, own) == "UNAVAILABLE"


@pytest.mark.req("AUTN-03", "AUTN-04")
async def test_no_header_says_what_a_certificate_would(ca: Authority) -> None:
    bob, nobody = ca.issue("dns:bob.clients.example"), ca.issue("dns:nobody.example")
    pem = bob.pem.decode().replace("\n", "%0A")
    headers = {
        "x509_pem_cert": pem,
        "Client-Cert": ":AAAA:",
        "X-Forwarded-Client-Cert": f'Cert="{pem}";DNS=bob.clients.example',
        "Grpc-Metadata-certificate": pem,
        "Grpc-Metadata-x-forwarded-client-cert": "DNS=bob.clients.example",
    }
    async with secure_house(ca, auth=RULES) as here:
        for door in DOORS:
            sent = headers if not door.startswith("grpc") else {n: v for n, v in headers.items() if "Grpc-" not in n}
            assert await here.told(door, nobody, sent) == "UNAUTHENTICATED"


@pytest.mark.req("AUTN-04", "GATE-02")
async def test_a_certificate_of_no_caller_leaves_tokens_alone(ca: Authority) -> None:
    auth = {"certificates": [{"name": "dns:bob.example"}], "tokens": [{"owner": "ann", "hash": HASH}]}
    bob, nobody = ca.issue("dns:bob.example"), ca.issue("dns:nobody.example")
    async with secure_house(ca, auth=auth) as here:
        for door in DOORS:
            assert await here.told(door, nobody, TOKEN) == "ann"
            assert await here.told(door, bob) == "bob.example"
            assert await here.told(door, bob, TOKEN) == "UNAUTHENTICATED"  # two callers
        card = here.server.card
        assert card.security_schemes["clientCertificate"].HasField("mtls_security_scheme")
        assert [list(one.schemes) for one in card.security_requirements] == [["bearer"], ["clientCertificate"]]


@pytest.mark.req("GATE-10")
async def test_optional_certificates_are_asked_for_and_not_insisted_on(ca: Authority) -> None:
    auth = {"certificates": [{"name": "dns:bob.example"}], "tokens": [{"owner": "ann", "hash": HASH}]}
    bob = ca.issue("dns:bob.example")
    async with secure_house(ca, {"client_certificates": "optional"}, auth=auth) as here:
        assert [await here.told(door, None, TOKEN) for door in ("rest", "jsonrpc")] == ["ann", "ann"]
        assert [await here.told(door, bob) for door in ("grpc", "rest")] == ["bob.example", "bob.example"]
        assert await here.told("rest", None) == "UNAUTHENTICATED"
        assert await here.told("grpc", None, TOKEN) == "UNAVAILABLE"


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await is_so():  # noqa: ASYNC110 - files are looked at once a second
            await asyncio.sleep(0.1)


async def until_told(here: SecureHouse, door: str, own: Issued, expected: str) -> None:
    async def is_told() -> bool:
        return await here.told(door, own) == expected

    await until(is_told)


async def _said(lines: Sequence[Mapping[str, Any]], event: str) -> bool:
    return any(line["event"] == event for line in lines)


@pytest.mark.req("GATE-10")
@pytest.mark.parametrize("encoding", [Encoding.PEM, Encoding.DER])
async def test_a_revoked_certificate_ends_at_once_also_on_open_connections(ca: Authority, encoding: Encoding) -> None:
    ann, bob = ca.issue("dns:ann.clients.example"), ca.issue("dns:bob.clients.example")
    crl = ca.crl(encoding=encoding)
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context_of(ca, ann)))
    async with (
        secure_house(ca, {"crl": str(crl)}, auth=RULES) as here,
        channel_to(here.server.grpc, ca, ann) as channel,
        session,
    ):
        known = "clients/ann.clients.example"
        assert [await here.over_grpc(channel, "grpc"), await here.over_http(session, here.url, "rest")] == [known] * 2
        ca.revoked.append(ann.certificate)
        ca.crl(encoding=encoding)
        await until_told(here, "rest", ann, "UNAVAILABLE")
        assert await here.over_grpc(channel, "grpc") == await here.told("grpc-0.3", ann) == "UNAUTHENTICATED"
        assert await here.over_http(session, here.url, "rest") == "UNAVAILABLE"
        assert [await here.told(door, bob) for door in DOORS] == ["bob"] * len(DOORS)


@pytest.mark.req("GATE-10")
async def test_a_list_that_is_out_of_date_or_missing_lets_nobody_in(ca: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "Other")
    both = tmp_path / "both.pem"
    both.write_bytes(ca.path.read_bytes() + other.path.read_bytes())
    bob, eve = ca.issue("dns:bob.clients.example"), other.issue("dns:bob.clients.example")
    async with secure_house(ca, {"crl": str(ca.crl()), "client_ca": str(both)}, auth=RULES) as here:
        assert [await here.told(door, bob) for door in ("grpc", "rest")] == ["bob", "bob"]
        assert [await here.told(door, eve) for door in ("grpc", "rest")] == ["UNAUTHENTICATED", "UNAVAILABLE"]
        ca.crl(lasts=-1)
        await until_told(here, "rest", bob, "UNAVAILABLE")
        assert await here.told("grpc", bob) == "UNAUTHENTICATED"


async def shown_by(here: SecureHouse, ca: Authority, own: Issued) -> set[int]:
    """The serial numbers of what both doors show."""
    numbers = set()
    for port in (here.server.grpc.port, int(here.url.rpartition(":")[2])):
        context = context_of(ca, own)
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
        numbers.add(int(writer.get_extra_info("ssl_object").getpeercert()["serialNumber"], 16))
        writer.close()
    return numbers


@pytest.mark.req("SECR-06")
async def test_new_files_count_and_open_connections_go_on(ca: Authority) -> None:
    bob = ca.issue("dns:bob.clients.example")
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context_of(ca, bob), limit=1))
    async with (
        secure_house(ca, auth=RULES) as here,
        channel_to(here.server.grpc, ca, bob) as channel,
        session,
    ):
        path = ca.folder / "server.pem"
        assert [await here.over_grpc(channel, "grpc"), await here.over_http(session, here.url, "rest")] == ["bob"] * 2
        first = await shown_by(here, ca, bob)
        with capture_logs() as lines:
            write(path, b"broken")
            await until(lambda: _said(lines, "tls.not_reloaded"))
        assert await shown_by(here, ca, bob) == first
        renewed = ca.issue("dns:localhost", path="server.pem").certificate.serial_number

        async def is_shown() -> bool:
            return await shown_by(here, ca, bob) == {renewed}

        await until(is_shown)
        again = [await here.over_grpc(channel, "grpc"), await here.over_http(session, here.url, "rest")]
        assert again == ["bob"] * 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"auth": {"certificates": [{"name": "bob"}]}}, "must be dns:, uri:, email: or cn: and a name"),
        ({"auth": {"certificates": [{"name": "dns:bob"}]}}, "needs tls.client_ca"),
        ({"tls": {"crl": "crl.pem"}}, "needs tls.client_ca"),
        ({"tls": {"client_certificates": "maybe"}}, "'required' or 'optional'"),
        ({"auth": {"certificates": [{"name": "dns:b", "trust_domain_tenant": True}]}}, "needs a name that begins with"),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Settings.model_validate(given)


def test_the_environment_spells_certificates_as_json() -> None:
    auth = {"certificates": json.dumps([{"name": "dns:*.example", "scopes": ["a2a:read"]}])}
    tls = {"cert": "a", "key": "b", "client_ca": "c"}
    (read,) = Settings.model_validate({"auth": auth, "tls": tls}).auth.certificates
    assert (read.name, read.scopes) == ("dns:*.example", ("a2a:read",))
