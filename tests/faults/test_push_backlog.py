"""Many debts, and receivers that are dead or slow: nobody else notices (spec: PAID-01, PAID-02, DELV-04)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.store import Store
from tests.conformance.authors import COMPLETED, UNLIMITED, Author, chunk, config
from tests.support.deliveries import deliver
from tests.support.effort import effort
from tests.support.house import PushRelay, SqliteStore, SystemClock, WebhookSender
from tests.support.receivers import HERE, Received, listener, read_request, receiver
from tests.support.stage import Stage
from tests.support.world import kinds, say, serving

TASKS, CONFIGS, EVENTS = effort(15, everything=100), 10, 10
DEAD = 40


async def owe(store: Store, url: str) -> Author:
    author = Author(store)
    configs = [config(author.task_id, f"c{number}", f"{url}?c{number}") for number in range(CONFIGS)]
    await author.commit(author.write(author.first(), head=author.head(), configs=configs, notify=True))
    await author.commit(author.write(*(chunk(number, "x") for number in range(2, EVENTS)), notify=True))
    await author.become(COMPLETED, notify=True)
    return author


@pytest.mark.req("PAID-01", "PAID-02")
async def test_many_debts_are_paid_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "a2a.db"
    async with receiver() as client:
        before = SqliteStore(path)
        await before.open()
        for _ in range(TASKS):
            await owe(before, client.url)
        claimed = await before.claim_deliveries(0, 1 << 60, 500, UNLIMITED)  # by a process that dies now
        assert len(claimed) > 100
        await before.close()

        store = SqliteStore(path)
        await store.open()
        delivery = deliver(WebhookSender(HERE, SystemClock(), timeout=30))
        relay = PushRelay(store, SystemClock(), delivery, history_cap=100)
        await relay.start()
        async with asyncio.timeout(100):
            while await store.next_due() is not None:  # noqa: ASYNC110 - there is no event for all of them
                await asyncio.sleep(0.05)
        await relay.drain(1)
        await store.close()
    got: dict[tuple[str, str], list[int]] = defaultdict(list)
    for one in client.received:
        got[one.headers["A2A-Task-Id"], one.target].append(int(one.headers["A2A-Event-Number"]))
    assert len(got) == TASKS * CONFIGS
    assert all(numbers == list(range(1, EVENTS + 1)) for numbers in got.values())


@pytest.mark.req("PAID-02", "DELV-04")
async def test_hosts_that_hang_delay_nobody(tmp_path: Path) -> None:
    """More of them than there are places: while all of them hang, sends, streams and another receiver go on."""
    hanging = 0

    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        nonlocal hanging
        await read_request(reader)
        hanging += 1
        try:
            await reader.read()
        finally:
            hanging -= 1

    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(receiver())
        urls = [await stack.enter_async_context(listener(hang, host=f"127.0.1.{n}")) for n in range(1, DEAD + 1)]
        delivery = deliver(WebhookSender(HERE, SystemClock(), timeout=100), concurrency=16, per_host=4, timeout=100)
        store = SqliteStore(tmp_path / "a2a.db")
        world = await stack.enter_async_context(serving(Stage().agent, store=store, delivery=delivery))
        for url in urls:
            await world.send(say(configuration=at(url)))
        for _ in range(5):
            await world.send(say(configuration=at(client.url)))
            assert kinds(await world.stream(say(configuration=at(client.url)))) == [
                "task",
                "WORKING",
                "artifact_update",
                "COMPLETED",
            ]
        async with asyncio.timeout(60):
            while len(client.received) < 40 or hanging < DEAD:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        assert (len(client.received), hanging) == (40, DEAD)
        assert in_order(client.received)


@pytest.mark.req("PAID-02", "DELV-03")
async def test_a_dead_host_delays_no_other(tmp_path: Path) -> None:
    delivery = deliver(WebhookSender(HERE, SystemClock(), timeout=10), concurrency=2, per_host=2)
    store = SqliteStore(tmp_path / "a2a.db")
    async with receiver() as client, serving(Stage().agent, store=store, delivery=delivery) as world:
        for _ in range(50):
            await world.send(say(configuration=at("http://127.0.0.9:1024/")))
        for _ in range(10):
            await world.send(say(configuration=at(client.url)))
        async with asyncio.timeout(60):
            while len(client.received) < 40:
                client.arrived.clear()
                await client.arrived.wait()
        assert in_order(client.received)


def at(url: str) -> dict[str, pb.TaskPushNotificationConfig]:
    return {"task_push_notification_config": pb.TaskPushNotificationConfig(url=url)}


def in_order(found: list[Received]) -> bool:
    got: dict[str, list[int]] = defaultdict(list)
    for one in found:
        got[one.headers["A2A-Task-Id"]].append(int(one.headers["A2A-Event-Number"]))
    return all(numbers == [1, 2, 3, 4] for numbers in got.values())
