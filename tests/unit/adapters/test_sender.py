"""What a receiver gets: the request, its headers, and one connection for many of them (spec: HOOK, SSRF-06)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from a2a_server.adapters.webhook import connections
from a2a_server.adapters.webhook.sender import of_failure, seconds_until
from a2a_server.domain.trace import Trace
from a2a_server.ports.push import Outcome
from tests.support.effort import effort
from tests.support.house import WebhookPolicy
from tests.support.receivers import (
    BODY,
    HERE,
    Names,
    Received,
    happened,
    hook,
    listener,
    notice,
    read_request,
    receiver,
    sending,
)


@pytest.mark.req("HOOK-02", "HOOK-03", "HOOK-04", "HOOK-05")
async def test_the_whole_request() -> None:
    async with receiver() as client, sending(user_agent="a2ad/9.9") as sender:
        made = hook(f"{client.url}?a=%20b&c", token="tok-1", scheme="Bearer", credentials="s3cr3t")
        assert (await sender.send(notice(made, 7))) == Outcome(delivered=True)
        received = client.last
        assert (received.verb, received.target, received.body) == ("POST", "/hook?a=%20b&c", BODY)
        assert dict(received.headers) == {
            "Host": f"127.0.0.1:{client.port}",
            "Content-Type": "application/a2a+json",
            "Content-Length": str(len(BODY)),
            "User-Agent": "a2ad/9.9",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "A2A-Version": "1.0",
            "A2A-Task-Id": "t-41",
            "A2A-Event-Number": "7",
            "A2A-Delivery-Id": "d-7",
            "X-A2A-Notification-Token": "tok-1",
            "Authorization": "Bearer s3cr3t",
        }


@pytest.mark.req("HOOK-03", "HOOK-04")
async def test_a_config_without_secrets_has_no_headers_for_them() -> None:
    async with receiver() as client, sending() as sender:
        await sender.send(notice(client.url))
        assert {"Authorization", "X-A2A-Notification-Token", "X-A2A-Signature", "Cookie"}.isdisjoint(
            client.last.headers
        )


async def test_the_trace_of_the_call_that_caused_the_event_goes_along() -> None:
    trace = Trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=1,b=2")
    async with receiver() as client, sending() as sender:
        for given in (trace, trace._replace(state=""), None):
            await sender.send(notice(client.url, trace=given))
            told = {name: value for name, value in client.last.headers.items() if name.startswith("trace")}
            assert told == (given.headers() if given else {})


@pytest.mark.req("HOOK-03")
@pytest.mark.parametrize(
    ("scheme", "credentials", "sent"),
    [
        ("Basic", "QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ("bearer", "x", "bearer x"),
        ("X-Acme.1", 'key="a b", v=1', 'X-Acme.1 key="a b", v=1'),
        ("ApiKey", "", "ApiKey"),
    ],
)
async def test_schemes_are_sent_as_the_client_wrote_them(scheme: str, credentials: str, sent: str) -> None:
    async with receiver() as client, sending() as sender:
        await sender.send(notice(hook(client.url, scheme=scheme, credentials=credentials)))
        assert client.last.headers["Authorization"] == sent


@pytest.mark.req("HOOK-05", "LPSH-01")
@pytest.mark.parametrize(("version", "said"), [("1.0", "1.0"), ("0.3", "0.3"), ("draft", "0.3")])
async def test_the_form_and_the_version_are_those_of_the_client(version: str, said: str) -> None:
    async with receiver() as client, sending() as sender:
        made = notice(hook(client.url, token="tok", version=version), content_type="application/json")
        await sender.send(made)
        assert client.last.headers["A2A-Version"] == said
        assert client.last.headers["Content-Type"] == "application/json"
        assert client.last.headers["X-A2A-Notification-Token"] == "tok"


@pytest.mark.req("SSRF-02")
async def test_ids_of_any_alphabet_stay_in_their_line() -> None:
    async with receiver() as client, sending() as sender:
        await sender.send(notice(client.url, task_id="größe\r\nX-Evil: 1 %", delivery_id="d\n1"))
        assert client.last.headers["A2A-Task-Id"] == "gr%C3%B6%C3%9Fe%0D%0AX-Evil:%201%20%25"
        assert client.last.headers["A2A-Delivery-Id"] == "d%0A1"
        assert "X-Evil" not in client.last.headers


@pytest.mark.req("SSRF-02")
async def test_a_config_that_would_inject_headers_is_not_sent() -> None:
    """Even if it came into the store by another way than through the checks."""
    async with receiver() as client, sending() as sender:
        for bad in (
            hook(client.url, token="a\r\nX-Evil: 1"),
            hook(client.url, scheme="Bearer\r\nX-Evil: 1", credentials="x"),
            hook(client.url, scheme="Bearer", credentials="x\nX-Evil: 1"),
            hook(f"{client.url}\r\nX-Evil: 1"),
            hook(""),
        ):
            assert await sender.send(notice(bad)) == Outcome(delivered=False, why="refused config", final=True)
        assert client.received == []


async def test_a_long_body_arrives_whole() -> None:
    body = bytes(range(256)) * 2**14
    async with receiver() as client, sending() as sender:
        assert (await sender.send(notice(client.url, body=body))).delivered
        assert client.last.body == body
        assert client.last.headers["Content-Length"] == str(len(body))
        assert client.last.headers["Content-Type"] == "application/a2a+json"


async def test_connections_are_used_again() -> None:
    async with receiver() as client, sending() as sender:
        for number in range(5):
            assert (await sender.send(notice(client.url, number))).delivered
        assert len({received.connection for received in client.received}) == 1


@pytest.mark.parametrize("_", range(effort(3, everything=20)))
async def test_many_at_once_share_no_connection_and_keep_all(_: int) -> None:
    busy, together = asyncio.Event(), 8
    async with receiver() as client, sending() as sender:

        async def wait_for_all(_: Received) -> web.StreamResponse:
            if len(client.received) == together:
                busy.set()
            await busy.wait()
            return web.Response()

        client.answer = wait_for_all
        outcomes = await asyncio.gather(*(sender.send(notice(client.url, number)) for number in range(together)))
        assert all(outcome.delivered for outcome in outcomes)
        assert len({received.connection for received in client.received}) == together
        await asyncio.gather(*(sender.send(notice(client.url, number)) for number in range(together)))
        assert len({received.connection for received in client.received}) == together
        assert sorted(received.headers["A2A-Delivery-Id"] for received in client.received) == sorted(
            [f"d-{number}" for number in range(together)] * 2
        )


@pytest.mark.parametrize("_", range(effort(3, everything=20)))
async def test_a_kept_connection_that_closes_is_no_failure(_: int) -> None:
    seen: list[bytes] = []

    async def once_per_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        seen.append(await read_request(reader))  # and hangs up without a word

    async with listener(once_per_connection) as url, sending() as sender:
        assert [(await sender.send(notice(url, number))).delivered for number in (1, 2)] == [True, True]
        numbers = [request.partition(b"A2A-Event-Number: ")[2][:1] for request in seen]
        assert numbers == [b"1", b"2", b"2"]


async def test_several_kept_connections_that_close_are_no_failure() -> None:
    first = asyncio.Event()

    async def once_per_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if b"A2A-Event-Number: 1" in await read_request(reader):
            await first.wait()
        first.set()
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await read_request(reader)

    async with listener(once_per_connection) as url, sending() as sender:
        outcomes = await asyncio.gather(*(sender.send(notice(url, number)) for number in (1, 2)))
        assert all(outcome.delivered for outcome in [*outcomes, await sender.send(notice(url, 3))])


async def test_a_receiver_that_always_hangs_up_is_asked_once() -> None:
    seen: list[bytes] = []

    async def hang_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))

    async with listener(hang_up) as url, sending() as sender:
        assert await sender.send(notice(url)) == Outcome(delivered=False, why="connection")
        assert len(seen) == 1


async def test_beyond_a_bound_no_connections_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_OPEN", -1)
    async with receiver() as client, sending() as sender:
        for number in range(3):
            assert (await sender.send(notice(client.url, number))).delivered
        assert len({received.connection for received in client.received}) == 3
        assert {received.headers["Connection"] for received in client.received} == {"close"}


async def test_a_sender_is_opened_and_closed() -> None:
    async with mute() as (url, arrived), sending() as sender:
        under_way = asyncio.create_task(sender.send(notice(url)))
        await happened(arrived)
        await sender.close()
        assert await under_way == Outcome(delivered=False, why="closed")
        assert await sender.send(notice(url)) == Outcome(delivered=False, why="closed")
        await sender.close()  # twice does no harm


async def test_whoever_stops_waiting_is_not_held_up() -> None:
    async with mute() as (url, arrived), sending() as sender:
        under_way = asyncio.create_task(sender.send(notice(url)))
        await happened(arrived)
        under_way.cancel()
        with pytest.raises(asyncio.CancelledError):
            await under_way


@asynccontextmanager
async def mute() -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A receiver that reads and says nothing."""
    arrived = asyncio.Event()

    async def read(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_request(reader)
        arrived.set()
        await reader.read()

    async with listener(read) as url:
        yield url, arrived


def token_in(received: Received) -> str:
    return URL(received.target).query["validationToken"]


async def echo(received: Received) -> web.StreamResponse:
    return web.Response(text=token_in(received))


@pytest.mark.req("SSRF-05")
async def test_an_echo_is_a_yes() -> None:
    async with receiver(echo) as client, sending(user_agent="a2ad/9") as sender:
        assert await sender.challenge(
            hook(f"{client.url}?a=b", token="tok", scheme="Bearer", credentials="s3cr3t"), "ann"
        )
        assert await sender.challenge(hook(client.url), "ann")
        first, second = client.received
        assert (first.verb, first.target) == ("GET", f"/hook?a=b&validationToken={token_in(first)}")
        assert second.target == f"/hook?validationToken={token_in(second)}"
        assert token_in(first) != token_in(second)
        assert len(token_in(first)) >= 32
        assert first.headers["User-Agent"] == "a2ad/9"
        assert "s3cr3t" not in repr(first)  # who knows who listens there
        assert "tok" not in first.headers.values()


@pytest.mark.req("SSRF-05")
async def test_an_editors_newline_is_forgiven() -> None:
    async def answer(received: Received) -> web.StreamResponse:
        return web.Response(text=f"{token_in(received)}\n")

    async with receiver(answer) as client, sending() as sender:
        assert await sender.challenge(hook(client.url), "ann")


@pytest.mark.req("SSRF-05")
@pytest.mark.parametrize(
    "answer",
    [
        lambda _: web.Response(text="yes"),
        lambda _: web.Response(text=""),
        lambda token: web.Response(text=token[:-1]),
        lambda token: web.Response(text=f"<p>{token}</p>"),  # whatever repeats its query
        lambda token: web.Response(text=token + "x" * 100_000),
        lambda token: web.Response(text=token, status=201),
        lambda token: web.Response(text=token, status=404),
        lambda token: web.Response(status=302, headers={"Location": f"/{token}"}, text=token),
    ],
)
async def test_anything_else_is_a_no(answer: object) -> None:
    assert callable(answer)

    async def respond(received: Received) -> web.StreamResponse:
        response: web.StreamResponse = answer(token_in(received))
        return response

    async with receiver(respond) as client, sending() as sender:
        assert not await sender.challenge(hook(client.url), "ann")
        assert len(client.received) == 1


@pytest.mark.req("SSRF-05", "DELV-04")
async def test_silence_is_a_no() -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        token = head.split(b"validationToken=")[1].split(b" ")[0]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + token)
        await reader.read()

    for talk in (silent, half):
        async with listener(talk) as url, sending(timeout=0.3) as sender:
            assert not await sender.challenge(hook(url), "ann")


@pytest.mark.req("SSRF-05", "PAID-04")
async def test_a_challenge_goes_nowhere_that_webhooks_do_not_go() -> None:
    async with receiver(echo) as trap:
        async with sending(WebhookPolicy(), resolver=Names(["127.0.0.1"])) as sender:
            assert not await sender.challenge(hook(trap.url), "ann")
            assert not await sender.challenge(hook(f"https://hook.example:{trap.port}/"), "ann")
            assert not await sender.challenge(hook(""), "ann")
        async with sending(HERE) as sender:
            await sender.close()
            assert not await sender.challenge(hook(trap.url), "ann")
        assert trap.received == []


NOW = 1_767_225_600_000  # Thu, 01 Jan 2026 00:00:00 GMT
LONGEST = 8_000 * 366 * 86_400.0
"""The end of dates."""


@pytest.mark.parametrize(
    ("wish", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        ("0120", 120.0),
        ("3601", 3601.0),
        ("9999999999", 9_999_999_999.0),
        ("99999999999", None),  # not worth counting
        ("1.5", None),
        ("-1", None),
        ("+1", None),
        ("1e3", None),
        ("٣", None),
        ("²", None),
        ("", None),
        ("soon", None),
        ("Thu, 01 Jan 2026 00:02:00 GMT", 120.0),
        ("Thursday, 01-Jan-26 00:02:00 GMT", 120.0),  # as of old; to be read for ever
        ("Thu Jan  1 00:02:00 2026", 120.0),
        ("Thu, 01 Jan 2026 01:02:00 +0100", 120.0),
        ("Thu, 01 Jan 2026 00:02:00 -0000", 120.0),
        ("Wed, 31 Dec 2025 23:00:00 GMT", 0.0),
        ("Fri, 01 Jan 2027 00:00:00 GMT", 365 * 86_400.0),
        ("Thu, 99 Jan 2026 00:02:00 GMT", None),
        ("Thu, 01 Jan 99999 00:02:00 GMT", None),
        ("Thu, 01 Jan 2026 00:02:00 +9999999999", None),
    ],
)
def test_seconds_and_dates(wish: str, seconds: float | None) -> None:
    assert seconds_until(wish, NOW) == seconds


@given(st.text() | st.text("0123456789:+-, GMTThuJan", max_size=40))
def test_any_words_are_bounded(wish: str) -> None:
    seconds = seconds_until(wish, NOW)
    assert seconds is None or 0 <= seconds <= LONGEST


@pytest.mark.req("SECR-03")
def test_failures_have_words_and_no_details() -> None:
    assert of_failure(TimeoutError("hunter2")) == Outcome(delivered=False, why="timeout")
    assert of_failure(BrokenPipeError("hunter2")) == Outcome(delivered=False, why="connection")
