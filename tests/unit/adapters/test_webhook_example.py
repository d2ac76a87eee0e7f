"""The example receiver believes what the sender sends, once, and nothing else (spec: SSRF-05, SSRF-06, PAID-05)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from socket import create_server
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from joserfc.jwk import ECKey

from a2a_server.adapters.defaults import SystemClock
from a2a_server.adapters.webhook import Signer, WebhookSender, jwks
from a2a_server.domain.trace import Trace
from a2a_server.ports.clock import Clock
from a2a_server.ports.push import Notice
from examples import webhook_receiver as example
from tests.support.receivers import Received, hook, notice, receiver, sending

OLD, NEW, FOREIGN = (ECKey.generate_key("P-256") for _ in range(3))
LOOPBACK = ("127.0.0.1", 0)
ISSUER = "https://agents.example"


class Client(example.Receiver):
    """The example, with an ear of its own."""

    def __init__(self, url: str, **told: Any) -> None:
        super().__init__(url, **told)
        self.heard: list[tuple[str, object]] = []
        self.busy = False

    async def handle(self, task_id: str, event: object) -> None:
        if self.busy:
            raise web.HTTPServiceUnavailable
        self.heard.append((task_id, event))


@asynccontextmanager
async def listening(keys: list[ECKey] | None = None, **told: Any) -> AsyncIterator[tuple[Client, str]]:
    """The example on a port of its own, and the server's keys on another."""

    async def publish(_: Received) -> web.StreamResponse:
        return web.json_response(jwks(keys or []))

    async with receiver(publish) as published:
        site = create_server(LOOPBACK)
        url = f"http://127.0.0.1:{site.getsockname()[1]}/hook"
        if keys is not None:
            told |= {"jwks": published.url, "issuer": ISSUER}
        client = Client(url, **told)
        runner = web.AppRunner(example.app_of(client))
        await runner.setup()
        await web.SockSite(runner, site).start()
        try:
            yield client, url
        finally:
            await runner.cleanup()


def signer(key: ECKey, issuer: str = ISSUER) -> Signer:
    return Signer([key], issuer, SystemClock())


HEARD = ("t-41", {"statusUpdate": {"taskId": "t-41"}})


@pytest.mark.req("HOOK-03", "HOOK-04", "SSRF-06", "PAID-05")
async def test_what_the_sender_sends_is_believed_once() -> None:
    secrets = {"token": "tok", "scheme": "Bearer", "credentials": "s3cr3t"}
    sure = listening([NEW], token="tok", credentials="Bearer s3cr3t")
    async with sure as (client, url), sending(sign=signer(NEW)) as sender:
        for attempt in (1, 2):
            assert (await sender.send(notice(hook(url, **secrets), attempt=attempt))).delivered
        assert client.heard == [HEARD]
        assert (await sender.send(notice(hook(url, **secrets), 2))).delivered
        assert len(client.heard) == 2


@pytest.mark.req("PAID-05")
async def test_a_signature_alone_is_enough() -> None:
    async with listening([OLD, NEW]) as (client, url), sending(sign=signer(NEW)) as sender:
        assert (await sender.send(notice(url))).delivered
        assert client.heard == [HEARD]


@pytest.mark.req("PAID-05")
async def test_new_keys_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example, "PATIENCE", -1)
    keys = [OLD]
    async with listening(keys) as (client, url):
        async with sending(sign=signer(OLD)) as sender:
            assert (await sender.send(notice(url))).delivered
        async with sending(sign=signer(NEW)) as sender:
            assert (await sender.send(notice(url, 2))).why == "status 401"
            keys.insert(0, NEW)
            assert (await sender.send(notice(url, 2))).delivered
        assert len(client.heard) == 2


async def test_what_could_not_be_dealt_with_comes_again() -> None:
    async with listening([NEW]) as (client, url), sending(sign=signer(NEW)) as sender:
        client.busy = True
        assert (await sender.send(notice(url))).why == "status 503"
        client.busy = False
        assert (await sender.send(notice(url, attempt=2))).delivered
        assert client.heard == [HEARD]


@pytest.mark.req("SSRF-06", "PAID-05")
async def test_lies_are_not_believed(capsys: pytest.CaptureFixture[str]) -> None:
    async with listening([NEW], token="tok") as (client, url):
        good = notice(hook(url, token="tok"))
        elsewhere = notice(hook(f"{url}?other", token="tok"))

        async def refused(why: str, sender: WebhookSender, lie: Notice) -> None:
            assert (await sender.send(lie)).why == "status 401"
            assert capsys.readouterr().out == f"refused: {why}\n"

        async with sending(sign=signer(NEW)) as sender:
            await refused("another token", sender, notice(hook(url, token="tik")))
            await refused("another token", sender, notice(url))
            await refused("another aud", sender, elsewhere)
        async with sending(sign=signer(NEW, "https://evil.example")) as sender:
            await refused("another iss", sender, good)
        async with sending(sign=signer(FOREIGN)) as sender:
            await refused("no valid signature: InvalidKeyIdError", sender, good)
        async with sending() as sender:
            await refused("no valid signature: DecodeError", sender, good)
        async with sending(sign=lambda _: signer(NEW)(good._replace(body=b"{}"))) as sender:
            await refused("another bodySha256", sender, good)
        async with sending(sign=lambda _: signer(NEW)(good._replace(delivery_id="d-9"))) as sender:
            await refused("another deliveryId", sender, good)
        async with sending(sign=lambda _: Signer([NEW], ISSUER, Yesterday())(good)) as sender:
            await refused("out of date", sender, good)
        recorded = signer(NEW)(good)
        async with sending(sign=lambda _: recorded) as sender:
            assert (await sender.send(good)).delivered
            await refused("a replay", sender, good)
        assert client.heard == [HEARD]


class Yesterday(Clock):
    def now_ms(self) -> int:
        return SystemClock().now_ms() - 86_400_000


async def test_it_prints_to_which_trace_an_event_belongs(capsys: pytest.CaptureFixture[str]) -> None:
    trace = Trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    async with listening() as (client, url), sending() as sender:
        assert (await sender.send(notice(url, trace=trace))).delivered
        assert (await sender.send(notice(url, 2))).delivered
        assert len(client.heard) == 2
    assert capsys.readouterr().out == "trace: 4bf92f3577b34da6a3ce929d0e0e4736\n"


@pytest.mark.req("SSRF-05")
async def test_it_passes_the_challenge() -> None:
    async with listening() as (_, url), sending() as sender:
        assert await sender.challenge(hook(url), "ann")


async def test_it_forgets_what_is_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example, "REMEMBERED", 2)
    memory = example.Memory()
    for name in "abc":
        memory.add(name)
    assert ["a" in memory, "b" in memory, "c" in memory] == [False, True, True]


async def test_it_runs_as_a_program() -> None:
    with create_server(LOOPBACK) as free:
        port = free.getsockname()[1]
    program = [sys.executable, "-u", str(Path(example.__file__)), "--port", str(port), "--token", "tok"]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - it starts at once
    try:
        url = f"http://127.0.0.1:{port}/hook"
        async with aiohttp.ClientSession() as session, asyncio.timeout(20):
            while True:
                try:
                    async with session.get(url, params={"validationToken": "x"}) as answer:
                        assert await answer.text() == "x"
                        break
                except aiohttp.ClientConnectionError:
                    await asyncio.sleep(0.1)
        async with sending() as sender:
            assert (await sender.send(notice(hook(url, token="tok")))).delivered
            assert (await sender.send(notice(hook(url)))).why == "status 401"
    finally:
        process.terminate()
        out, _ = process.communicate(timeout=20)
    assert 't-41 {"statusUpdate": {"taskId": "t-41"}}' in out
