"""Whether a webhook's owner wants it: only who echoes a one-time token does (spec: SSRF-05)."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from yarl import URL

from tests.support.house import WebhookPolicy
from tests.support.receivers import HERE, Names, Received, hook, listener, receiver, sending


def token_in(received: Received) -> str:
    return URL(received.target).query["validationToken"]


async def echo(received: Received) -> web.StreamResponse:
    return web.Response(text=token_in(received))


@pytest.mark.req("SSRF-05")
async def test_an_echo_is_a_yes() -> None:
    async with receiver(echo) as client, sending(user_agent="a2ad/9") as sender:
        assert await sender.challenge(hook(f"{client.url}?a=b", token="tok", scheme="Bearer", credentials="s3cr3t"))
        assert await sender.challenge(hook(client.url))
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
        assert await sender.challenge(hook(client.url))


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
        assert not await sender.challenge(hook(client.url))
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
            assert not await sender.challenge(hook(url))


@pytest.mark.req("SSRF-05", "PAID-04")
async def test_a_challenge_goes_nowhere_that_webhooks_do_not_go() -> None:
    async with receiver(echo) as trap:
        async with sending(WebhookPolicy(), resolver=Names(["127.0.0.1"])) as sender:
            assert not await sender.challenge(hook(trap.url))
            assert not await sender.challenge(hook(f"https://hook.example:{trap.port}/"))
            assert not await sender.challenge(hook(""))
        async with sending(HERE) as sender:
            await sender.close()
            assert not await sender.challenge(hook(trap.url))
        assert trap.received == []
