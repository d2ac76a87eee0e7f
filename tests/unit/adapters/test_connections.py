"""Where the sender cannot be brought to go (spec: SSRF-01, SSRF-03, PAID-04, CONF-63, SECR-06)."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import threading
import warnings
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import NamedTuple

import aiohttp
import pytest
import trustme
import uvloop
from aiohttp import web
from yarl import URL

from a2a_server.adapters.webhook.connections import Connections, Lookups, RefusedAddressError, Sockets
from a2a_server.domain.hosts import PUBLIC, Addresses, HostList
from a2a_server.domain.webhooks import Policy
from a2a_server.ports.push import Outcome
from tests.support.effort import effort
from tests.support.receivers import (
    HERE,
    Answer,
    Names,
    Received,
    Receiver,
    acknowledge,
    hook,
    notice,
    receiver,
    sending,
)

DELIVERED = Outcome(delivered=True)
REFUSED_ADDRESS = Outcome(delivered=False, why="refused address", final=True)
REFUSED_CONFIG = Outcome(delivered=False, why="refused config", final=True)

# One address of this machine plays the Internet, the others what nobody may reach. Receivers listen on all of them, so
# that only the refusal keeps a webhook from arriving.
GOOD, BAD = "127.0.0.1", "127.0.0.2"
GOOD_ONLY = Policy(addresses=Addresses.of(allow=[ip_network(GOOD)]), https_only=False)


@asynccontextmanager
async def twins(answer: Answer = acknowledge) -> AsyncIterator[tuple[Receiver, Receiver]]:
    """Two receivers on the same port: one where nothing may arrive, one where everything may."""
    async with AsyncExitStack() as stack:
        while True:
            trap = await stack.enter_async_context(receiver(host=BAD))
            try:
                client = await stack.enter_async_context(receiver(answer, host=GOOD, port=trap.port))
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE:  # by another test
                    raise
        yield trap, client


# -- addresses


@pytest.mark.req("SSRF-01", "PAID-04")
@pytest.mark.parametrize(
    "addresses",
    [[BAD], [BAD, "127.0.0.3"], ["10.0.0.1", "169.254.169.254", "::1", "fd00::1"], ["::ffff:127.0.0.2"], ["127.2"]],
)
async def test_a_name_that_leads_to_a_forbidden_address_is_not_called(addresses: list[str]) -> None:
    async with receiver(host=BAD) as trap, sending(GOOD_ONLY, resolver=Names(addresses)) as sender:
        assert await sender.send(notice(f"http://hook.example:{trap.port}/")) == REFUSED_ADDRESS
        assert trap.received == []


@pytest.mark.req("PAID-04")
async def test_of_several_addresses_only_the_good_ones_are_called() -> None:
    async with twins() as (trap, client):
        async with sending(GOOD_ONLY, resolver=Names([BAD, GOOD, "10.0.0.1"])) as sender:
            assert await sender.send(notice(f"http://hook.example:{trap.port}/")) == DELIVERED
        assert (len(client.received), trap.received) == (1, [])


@pytest.mark.req("PAID-04")
@pytest.mark.parametrize("_", range(effort(3, everything=20)))
async def test_an_answer_that_changes_gets_nowhere(_: int) -> None:
    """The name means something good when it is looked at, and something bad when it is called."""
    names = Names([GOOD], [BAD])
    async with twins() as (trap, client):
        url = f"http://rebind.example:{trap.port}/"
        async with sending(GOOD_ONLY, resolver=names) as sender:
            assert await sender.send(notice(url)) == DELIVERED
            assert names.asked == ["rebind.example"]  # once: what was judged is what was called
        async with sending(GOOD_ONLY, resolver=names) as sender:
            outcomes = await asyncio.gather(*(sender.send(notice(url, number)) for number in range(4)))
        assert set(outcomes) == {REFUSED_ADDRESS}
        assert (len(client.received), trap.received) == (1, [])


@pytest.mark.req("PAID-04")
async def test_an_answer_that_changes_while_a_connection_is_kept() -> None:
    """It stays with the address that was judged; a new connection is judged anew."""
    names = Names([GOOD], [BAD])

    async def keep_or_close(received: Received) -> web.StreamResponse:
        response = web.Response()
        if received.headers["A2A-Event-Number"] == "2":
            response.force_close()
        return response

    async with twins(keep_or_close) as (trap, client):
        async with sending(GOOD_ONLY, resolver=names) as sender:
            assert sender._connections is not None  # noqa: SLF001
            url = f"http://rebind.example:{trap.port}/"
            assert [await sender.send(notice(url, number)) for number in (1, 2)] == [DELIVERED, DELIVERED]
            connector = sender._connections._session.connector  # noqa: SLF001 - ten seconds are a long time
            assert isinstance(connector, aiohttp.TCPConnector)
            connector.clear_dns_cache()
            assert await sender.send(notice(url, 3)) == REFUSED_ADDRESS
        assert (len(client.received), trap.received) == (2, [])


@pytest.mark.req("PAID-04")
@pytest.mark.parametrize(
    "host",
    [GOOD, "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0"],
)
async def test_literals_do_not_get_past_the_socket(host: str) -> None:
    """Whatever the check of the config may have missed: no resolver is asked for these, and no socket is made."""
    names = Names([GOOD])
    connections = Connections(Sockets(PUBLIC), resolver=names)
    async with receiver() as trap:
        url = URL(f"http://{host}:{trap.port}/", encoded=True)
        if host in {"127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0"}:
            names.answers = [[host]]  # should a resolver leave it to the system to understand them
        with pytest.raises((aiohttp.ClientConnectorError, aiohttp.InvalidURL)) as caught:
            await connections.request("POST", url, {}, "ann", b"")
        # The library has taken odd spellings for an error of its own since there were attacks with them.
        assert isinstance(getattr(caught.value, "os_error", RefusedAddressError()), RefusedAddressError)
        await connections.close()
        assert trap.received == []


@pytest.mark.req("SSRF-01", "SSRF-02")
async def test_by_default_this_machine_is_not_called() -> None:
    async with receiver() as trap:
        assert await _send_by_default(trap.url) == REFUSED_CONFIG
        assert await _send_by_default(f"https://hook.example:{trap.port}/", GOOD) == REFUSED_ADDRESS
        assert await _send_by_default(f"https://localhost:{trap.port}/", GOOD) == REFUSED_CONFIG
        assert trap.received == []


async def _send_by_default(url: str, *answers: str) -> Outcome:
    async with sending(Policy(), resolver=Names(answers)) as sender:
        return await sender.send(notice(url))


@pytest.mark.req("SSRF-02", "SSRF-03")
async def test_the_policy_is_the_same_when_a_config_is_made_and_when_it_is_used() -> None:
    policy = Policy(addresses=HERE.addresses, allow_hosts=HostList.of(["localhost"]))
    async with receiver() as client, sending(policy) as sender:
        bad, good = hook(client.url), hook(f"http://localhost:{client.port}/")
        assert [fault.field for fault in sender.faults(bad.config, "x.")] == ["x.url"]
        assert await sender.send(notice(bad)) == REFUSED_CONFIG
        assert sender.faults(good.config) == []
        assert await sender.send(notice(good)) == DELIVERED


# -- names


async def test_the_systems_resolver_is_asked() -> None:
    async with receiver() as client, sending() as sender:
        assert await sender.send(notice(f"http://localhost:{client.port}/")) == DELIVERED


async def test_names_that_nobody_knows() -> None:
    async with sending(resolver=Names([])) as sender:
        unknown = Outcome(delivered=False, why="unknown host")
        assert await sender.send(notice("https://nobody.example/")) == unknown


async def test_slow_name_servers_hold_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than the loop has threads for everything together."""
    known, asked, answered = socket.getaddrinfo, threading.Semaphore(0), threading.Event()

    def look_up(host: str, *args: object, **kwargs: object) -> object:
        if host.endswith(".slow.example"):
            asked.release()
            answered.wait(30)
            raise socket.gaierror(socket.EAI_AGAIN, "try again")
        return known(host, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    async with receiver() as client, sending() as sender:
        slow = [asyncio.create_task(sender.send(notice(f"https://{number}.slow.example/"))) for number in range(40)]
        try:
            await asyncio.to_thread(lambda: [asked.acquire(timeout=5) for _ in slow])
            assert await sender.send(notice(f"http://localhost:{client.port}/")) == DELIVERED
        finally:
            answered.set()
        assert set(await asyncio.gather(*slow)) == {Outcome(delivered=False, why="unknown host")}


async def test_a_name_server_has_as_long_as_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [answered.wait(30)] * 0)
    async with sending(timeout=0.3) as sender:
        assert await sender.send(notice("https://slow.example/")) == Outcome(delivered=False, why="timeout")
        answered.set()


async def test_lookups_give_what_sockets_are_made_of() -> None:
    lookups = Lookups(1)
    assert {result["host"] for result in await lookups.resolve("127.0.0.1", 80)} == {"127.0.0.1"}
    with pytest.raises(socket.gaierror):
        await lookups.resolve("nobody.invalid", 80)
    await lookups.close()


# -- environment, cookies


@pytest.mark.req("SSRF-01", "PAID-04")
async def test_the_environment_knows_no_detour(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    async with receiver() as proxy, receiver() as client:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        netrc = f"{tmp_path}/netrc"
        await asyncio.to_thread(_write, netrc, "machine 127.0.0.1 login ann password hunter2\n")
        monkeypatch.setenv("NETRC", netrc)
        async with sending() as sender:
            assert await sender.send(notice(client.url)) == DELIVERED
        assert proxy.received == []
        assert "Authorization" not in client.last.headers


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)


async def test_cookies_are_not_kept() -> None:
    async def spoil(_: Received) -> web.StreamResponse:
        return web.Response(headers={"Set-Cookie": "a=b; Path=/"})

    async with receiver(spoil) as client, sending() as sender:
        for number in (1, 2):
            assert await sender.send(notice(f"http://localhost:{client.port}/", number)) == DELIVERED
        assert "Cookie" not in client.last.headers


# -- TLS


class Certified(NamedTuple):
    ca: trustme.CA
    trust: str

    def server(self, *names: str, **more: object) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names, **more).configure_cert(context)  # type: ignore[arg-type]
        return context


@pytest.fixture(scope="module")
def certified() -> Certified:
    ca = trustme.CA()
    return Certified(ca, ca.cert_pem.bytes().decode())


async def _send_tls(tls: ssl.SSLContext, trust: str, url: str = "https://hook.example:{}/") -> tuple[Outcome, int]:
    async with receiver(acknowledge, tls=tls) as client:
        async with sending(trust=trust, resolver=Names([GOOD])) as sender:
            outcome = await sender.send(notice(url.format(client.port)))
        return outcome, len(client.received)


@pytest.mark.req("SSRF-03")
async def test_https_is_spoken_to_whom_the_authorities_vouch_for(certified: Certified) -> None:
    assert await _send_tls(certified.server("hook.example"), certified.trust) == (DELIVERED, 1)
    assert await _send_tls(certified.server(GOOD), certified.trust, "https://127.0.0.1:{}/") == (DELIVERED, 1)
    idna = certified.server("xn--bcher-kva.example")
    assert await _send_tls(idna, certified.trust, "https://BÜCHER.example.:{}/") == (DELIVERED, 1)


async def test_bad_certificates_get_nothing(certified: Certified) -> None:
    refused = (Outcome(delivered=False, why="certificate"), 0)
    yesterday = datetime.now(UTC) - timedelta(days=1)
    assert await _send_tls(certified.server("hook.example"), "") == refused  # nobody vouches for it
    assert await _send_tls(certified.server("other.example"), certified.trust) == refused
    assert await _send_tls(certified.server("hook.example", not_after=yesterday), certified.trust) == refused
    assert await _send_tls(certified.server("hook.example"), trustme.CA().cert_pem.bytes().decode()) == refused


@pytest.mark.req("SECR-06")
async def test_nothing_older_than_tls_1_2_is_spoken(certified: Certified) -> None:
    for version, expected in (
        (ssl.TLSVersion.TLSv1_3, (DELIVERED, 1)),
        (ssl.TLSVersion.TLSv1_2, (DELIVERED, 1)),
        (ssl.TLSVersion.TLSv1_1, (Outcome(delivered=False, why="connection"), 0)),  # for want of ciphers
    ):
        tls = certified.server("hook.example")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            tls.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
            tls.maximum_version = version
        tls.set_ciphers("ALL:@SECLEVEL=0")
        assert await _send_tls(tls, certified.trust) == expected


async def test_a_receiver_without_tls_is_no_https(certified: Certified) -> None:
    async with receiver() as client, sending(resolver=Names([GOOD]), trust=certified.trust) as sender:
        assert await sender.send(notice(f"https://hook.example:{client.port}/")) == Outcome(delivered=False, why="TLS")


# -- bounds


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_open_sockets_are_counted(factory: type[asyncio.AbstractEventLoop]) -> None:
    """Whatever the loop does with sockets whose transports have ended."""

    async def count() -> None:
        sockets = Sockets(HERE.addresses)
        connections = Connections(sockets)
        async with receiver() as client:
            for headers, left in ({}, 5), ({"Connection": "close"}, 0):
                answers = await asyncio.gather(
                    *(connections.request("POST", URL(client.url), headers, "ann", b"") for _ in range(5))
                )
                for answer in answers:
                    await answer.read()
                for _ in range(10):  # rounds of the loop, in which transports end
                    await asyncio.sleep(0)
                assert sockets.more_than(left - 1)
                assert not sockets.more_than(left)
        await connections.close()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(count())


@pytest.mark.req("PAID-04")
@pytest.mark.parametrize(
    "text", ["127.1", "2130706433", "0x7f.1", "0177.0.0.1", "", "localhost", "::1%1", "fe80::1%lo"]
)
def test_only_an_address_gets_a_socket(text: str) -> None:
    for sockets in (Sockets(PUBLIC), Sockets(HERE.addresses)):
        with pytest.raises(RefusedAddressError):
            sockets((socket.AF_INET, socket.SOCK_STREAM, 0, "", (text, 80)))
        assert not sockets.more_than(0)
