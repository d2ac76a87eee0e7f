"""Webhooks of one owner beside another's dead hosts and silent name servers (spec: PAID-02, DELV-04, LIMT-02)."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from a2a_server.adapters.defaults import SystemClock
from a2a_server.adapters.webhook import WebhookSender
from a2a_server.adapters.webhook.connections import LOOKUPS
from a2a_server.domain.scope import Scope
from a2a_server.operations.push import schedule
from a2a_server.operations.push.relay import PushRelay
from a2a_server.ports.push import Notice, Outcome, PushConfig
from a2a_server.ports.store import Store
from tests.conformance.authors import ANN, BOB, Author, config
from tests.support.deliveries import deliver
from tests.support.effort import effort
from tests.support.house import MemoryStore, SqliteStore
from tests.support.receivers import HERE, Received, Receiver, acknowledge, hook, notice, receiver, sending

DEAD = 1_000
FAR = 60.0
SATURATED = 4 * 64 + 32
"""All places of attempts that take long, and half of the others: no host has answered yet."""


@pytest.fixture(params=["sqlite", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a2a.db")


class Counting(WebhookSender):
    """Counts its attempts."""

    under_way = failed = 0

    async def send(self, notice: Notice) -> Outcome:
        self.under_way += 1
        try:
            outcome = await super().send(notice)
        finally:
            self.under_way -= 1
        self.failed += not outcome.delivered
        return outcome


@asynccontextmanager
async def relaying(store: Store, *, within: float = FAR) -> AsyncIterator[tuple[PushRelay, Counting]]:
    sender = Counting(HERE, SystemClock(), timeout=within)
    relay = PushRelay(store, SystemClock(), deliver(sender, timeout=within), history_cap=100)
    await store.open()
    await relay.start()
    try:
        yield relay, sender
    finally:
        await relay.drain(0)
        await store.close()


async def owe(relay: PushRelay, store: Store, scope: Scope, *urls: str) -> None:
    """A task for each URL, whose first event is to be told there."""

    async def create(url: str) -> None:
        author = Author(store, scope=scope)
        hooks: list[PushConfig] = [config(author.task_id, "c", url)]
        await author.commit(author.write(author.first(), head=author.head(), configs=hooks, notify=True))

    await asyncio.gather(*map(create, urls))
    relay.wake()


def deliveries(client: Receiver) -> int:
    """How many webhooks have come. One that came too late for its sender on a busy machine comes once more."""
    return len({seen.headers["A2A-Delivery-Id"] for seen in client.received})


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what happens in a relay has no one event
            await asyncio.sleep(0.01)


@contextmanager
def dead_hosts(count: int) -> Iterator[list[str]]:
    """As many addresses whose connections are made and never answered."""
    with socket.socket() as deaf:
        deaf.bind(("0.0.0.0", 0))  # noqa: S104 - all of 127.0.0.0/8 lead here
        deaf.listen(4_096)
        port = deaf.getsockname()[1]
        yield [f"http://127.1.{number >> 8}.{number & 255}:{port}/hook" for number in range(count)]


@pytest.mark.req("PAID-02", "DELV-04", "LIMT-02")
@pytest.mark.parametrize("_", range(effort(1, everything=20)))
async def test_dead_hosts_of_one_owner_hold_up_no_webhook_of_another(
    store: Store, monkeypatch: pytest.MonkeyPatch, _: int
) -> None:
    monkeypatch.setattr(schedule, "_SLOW_AFTER", 0.05)
    with dead_hosts(DEAD) as dead:
        async with receiver() as client, relaying(store) as (relay, sender):
            await owe(relay, store, ANN, *dead)
            await until(lambda: sender.under_way == SATURATED)
            for count in range(1, 11):
                await owe(relay, store, BOB, client.url)
                await until(lambda: deliveries(client) == count)  # noqa: B023 - waited for at once
            assert sender.failed == 0  # none of the dead has made room


@pytest.mark.long
@pytest.mark.req("PAID-02", "DELV-04", "LIMT-02")
async def test_another_owners_webhook_leaves_within_a_second(store: Store) -> None:
    """As long as the dead hosts' attempts begin, last and time out."""
    with dead_hosts(DEAD) as dead:
        async with receiver() as client, relaying(store, within=5.0) as (relay, sender):
            await owe(relay, store, ANN, *dead)
            late, now = 0, asyncio.get_running_loop().time
            for count in range(1, 61):
                begun = now()
                async with asyncio.timeout(30):
                    await owe(relay, store, BOB, client.url)
                    await until(lambda: deliveries(client) == count)  # noqa: B023 - waited for at once
                late += now() - begun > 1
                await asyncio.sleep(0.25)
            assert sender.failed > SATURATED
            assert late < 30  # a busy machine holds up some; without shares nearly all would be late


@pytest.mark.req("PAID-02", "DELV-04", "LIMT-02")
async def test_a_host_that_hangs_for_one_owner_answers_another(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a host that both use: the paths of one owner hang."""
    monkeypatch.setattr(schedule, "_SLOW_AFTER", 0.05)

    async def answer(seen: Received) -> web.StreamResponse:
        if seen.target.startswith("/hang"):
            hanging.append(seen)
            await end.wait()
        return await acknowledge(seen)

    end = asyncio.Event()
    hanging: list[Received] = []
    async with receiver(answer) as client, relaying(store, within=1.0) as (relay, _):
        base = client.url.removesuffix("hook")
        await owe(relay, store, ANN, *(f"{base}hang{number}" for number in range(100)))
        await until(lambda: len(hanging) >= 24)  # they fail, and their lane rests
        for _ in range(5):
            before = len(client.received) - len(hanging)
            await owe(relay, store, BOB, client.url)
            await until(lambda: len(client.received) - len(hanging) > before)  # noqa: B023 - waited for at once
        end.set()


@contextmanager
def silent_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A name server that knows bob.localhost, and says nothing about any other name. Yields what it is asked."""
    known, end = socket.getaddrinfo, threading.Event()
    asked: list[str] = []

    def look_up(host: str, port: int, **kwargs: Any) -> Any:
        if host == "bob.localhost":
            return known("127.0.0.1", port, **kwargs)
        asked.append(host)
        end.wait(FAR)
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    try:
        yield asked
    finally:
        end.set()


@pytest.mark.req("PAID-02", "DELV-04", "LIMT-02")
@pytest.mark.parametrize("_", range(effort(1, everything=20)))
async def test_a_name_server_that_is_silent_for_one_owner_holds_up_no_webhook_of_another(
    store: Store, monkeypatch: pytest.MonkeyPatch, _: int
) -> None:
    """Attempts end when their time is over. Their lookups go on, and so do the threads that these take."""
    monkeypatch.setattr(schedule, "_SLOW_AFTER", 0.05)
    names = [f"http://n{number}.localhost/" for number in range(DEAD)]
    with silent_names(monkeypatch) as asked:
        async with receiver() as client, relaying(store, within=2.0) as (relay, sender):
            await owe(relay, store, ANN, *names)
            await until(lambda: sender.failed > LOOKUPS)
            assert len(asked) == LOOKUPS  # and no more, as none has been answered
            for count in range(1, 6):
                await owe(relay, store, BOB, f"http://bob.localhost:{client.port}/")
                await until(lambda: deliveries(client) == count)  # noqa: B023 - waited for at once
            assert len(asked) == LOOKUPS


@pytest.mark.req("LIMT-02")
async def test_lookups_that_nobody_waits_for_any_more_keep_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    with silent_names(monkeypatch) as asked:
        async with sending(timeout=0.2) as sender:
            outcomes = await asyncio.gather(
                *(sender.send(notice(f"http://n{number}.localhost/", owner="ann")) for number in range(2 * LOOKUPS))
            )
            assert {outcome.why for outcome in outcomes} == {"timeout"}
            assert len(asked) == LOOKUPS
            assert not await sender.challenge(hook("http://more.localhost/"), "ann")
            assert len(asked) == LOOKUPS
            assert not await sender.challenge(hook("http://more.localhost/"), "bob")
            assert len(asked) == LOOKUPS + 1


def test_a_silent_name_server_keeps_no_process_from_ending() -> None:
    program = """
import asyncio, os, socket, sys, time
from a2a_server.adapters.webhook.connections import Lookups

def silent(*_, **__):
    print("asked", flush=True)
    time.sleep(300)

async def main():
    try:
        async with asyncio.timeout(0.1):
            await Lookups(1).resolve("a.example", 80)
    except TimeoutError:
        print("gone", flush=True)

socket.getaddrinfo = silent
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout.split(), done.stderr) == (["asked", "gone"], "")
