"""TLS of both doors, and what HTTPS answers tell browsers about plain HTTP (spec: SECR-06)."""

from __future__ import annotations

import asyncio
import ssl
import warnings
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from tests.support.door_upstream import Scripted
from tests.support.house import GatewayConfig, GatewayOptions, Tls, create_app
from tests.support.http import Wire, get, house, once, port_of, post, wire
from tests.support.stage import Stage

HSTS = "Strict-Transport-Security"
YEAR = "max-age=31536000"
V = ssl.TLSVersion


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Tls:
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    ca.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(path))
    return Tls(cert=str(path), key=str(path))


def client(ca: trustme.CA, newest: ssl.TLSVersion = V.MAXIMUM_SUPPORTED) -> ssl.SSLContext:
    """A client that would speak anything, up to a version."""
    context = ssl.create_default_context()
    ca.configure_trust(context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version, context.maximum_version = V.MINIMUM_SUPPORTED, newest
    if newest not in (V.MAXIMUM_SUPPORTED, V.TLSv1_3):
        context.set_ciphers("ALL:@SECLEVEL=0")
    return context


async def spoken(port: int, context: ssl.SSLContext) -> str:
    """The version that is agreed on; empty if there is none."""
    try:
        async with wire(port, tls=context) as connection:
            version: str = connection.writer.get_extra_info("ssl_object").version()
            return version
    except (ssl.SSLError, ConnectionError):
        return ""


async def permissive(tls: Tls) -> asyncio.Server:
    """A server that speaks anything."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.cert, tls.key)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = V.MINIMUM_SUPPORTED
    return await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)


@pytest.mark.req("SECR-06")
async def test_both_doors_prefer_tls_1_3_speak_1_2_and_nothing_older(ca: trustme.CA, tls: Tls) -> None:
    old = {V.TLSv1: "TLSv1", V.TLSv1_1: "TLSv1.1"}
    async with await permissive(tls) as anything, house(Stage().agent, tls=tls) as server:
        for version, name in old.items():  # or the test would prove nothing
            assert await spoken(anything.sockets[0].getsockname()[1], client(ca, version)) == name
        for port in (port_of(server), server.grpc.port):
            assert await spoken(port, client(ca)) == "TLSv1.3"
            assert await spoken(port, client(ca, V.TLSv1_2)) == "TLSv1.2"
            assert [await spoken(port, client(ca, version)) for version in old] == ["", ""]


@pytest.mark.req("SECR-06")
async def test_neither_door_has_ciphers_of_1_2_that_are_broken_or_forget_no_keys(
    ca: trustme.CA, tmp_path: Path
) -> None:
    """CBC, and key exchange without forward secrecy, which needs RSA."""
    path = tmp_path / "rsa.pem"
    ca.issue_cert("localhost", key_type=trustme.KeyType.RSA).private_key_and_cert_chain_pem.write_to_path(str(path))
    tls = Tls(cert=str(path), key=str(path))
    suites = ("ECDHE+AES:!AESGCM:!AESCCM", False), ("kRSA+AES", False), ("ECDHE+AESGCM", True)
    async with await permissive(tls) as anything, house(Stage().agent, tls=tls) as server:
        for ciphers, speaks in suites:
            context = client(ca, V.TLSv1_2)
            context.set_ciphers(ciphers + ":@SECLEVEL=0")
            assert await spoken(anything.sockets[0].getsockname()[1], context) == "TLSv1.2"
            for port in (port_of(server), server.grpc.port):
                assert await spoken(port, context) == ("TLSv1.2" if speaks else ""), ciphers


async def every_kind(connection: Wire) -> dict[str, str | None]:
    """What answers of every kind say."""
    asked = {
        "page": get("/healthz"),
        "card": get("/.well-known/agent-card.json"),
        "send": post("/message:send"),
        "stream": post("/message:stream"),
        "JSON-RPC": post("/", b'{"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}'),
        "0.3": get("/v1/card"),
        "error": get("/tasks/none"),
        "no page": get("/nowhere"),
        "no JSON": post("/message:send", b"{"),
        "preflight": get("/message:send", verb="OPTIONS"),
    }
    told = {kind: (await connection.ask(request)).headers.getall(HSTS, []) for kind, request in asked.items()}
    told["HEAD"] = (await connection.ask(get("/healthz", verb="HEAD"), head=True)).headers.getall(HSTS, [])
    return {kind: ", ".join(values) or None for kind, values in told.items()}


@pytest.mark.req("SECR-06")
async def test_every_answer_over_https_says_so_and_none_over_http(ca: trustme.CA, tls: Tls) -> None:
    async with house(Stage().agent, tls=tls) as server, wire(port_of(server), tls=https(ca)) as connection:
        assert set((await every_kind(connection)).values()) == {YEAR}
        refused = await connection.ask(get("/healthz", "X: " + "x" * 20_000))
        assert (refused.status, refused.headers[HSTS]) == (431, YEAR)
    async with house(Stage().agent) as server, wire(port_of(server)) as connection:
        assert set((await every_kind(connection)).values()) == {None}
        refused = await connection.ask(get("/healthz", "X: " + "x" * 20_000))
        assert (refused.status, HSTS in refused.headers) == (431, False)


def https(ca: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return context


async def test_how_long_it_holds_can_be_set(ca: trustme.CA, tls: Tls) -> None:
    for seconds, expected in ((300, {"max-age=300"}), (0, {None})):
        options = GatewayOptions(hsts=seconds)
        async with (
            house(Stage().agent, tls=tls, gateway=options) as server,
            wire(port_of(server), tls=https(ca)) as connection,
        ):
            assert set((await every_kind(connection)).values()) == expected


async def test_behind_a_proxy_it_is_said_if_clients_are_known_to_use_https() -> None:
    said = "X-Forwarded-Proto: https", "X-Forwarded-Host: agents.example", "X-Forwarded-For: 192.0.2.7"
    plain = "X-Forwarded-Proto: http", *said[1:]
    trusting = GatewayOptions(trusted_proxies=("127.0.0.1",), hosts=("*",))
    for options, public, fields, expected in (
        (GatewayOptions(), "https://agents.example", (), YEAR),
        (GatewayOptions(), "http://agents.example", (), None),
        (trusting, "", said, YEAR),
        (trusting, "", plain, None),
        (trusting, "", (), None),
        (GatewayOptions(hosts=("*",)), "", said, None),  # a stranger says it
    ):
        async with house(Stage().agent, gateway=options, public_url=public) as server:
            answer = await once(port_of(server), get("/healthz", *fields))
            assert (answer.status, answer.headers.get(HSTS)) == (200, expected)


async def test_an_application_of_ones_own_says_it_over_https_only(ca: trustme.CA, tls: Tls) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.cert, tls.key)
    for served, known, expected in ((context, https(ca), YEAR), (None, None, None)):
        runner = web.AppRunner(create_app(Scripted(), GatewayConfig(base="https://agents.example")))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=served).start()
        answer = await once(runner.addresses[0][1], get("/healthz"), tls=known)
        await runner.cleanup()
        assert (answer.status, answer.headers.get(HSTS)) == (200, expected)
