"""Webhooks that their receivers reject: skipped after three such answers, so that the next ones arrive (CONF-81)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from a2a_server.adapters.defaults import SystemClock
from a2a_server.adapters.memory import MemoryStore
from a2a_server.adapters.sqlite import SqliteStore
from a2a_server.adapters.sqlite.push_admin import SqlitePushAdmin
from a2a_server.ports.push import ConfigFilter
from a2a_server.ports.store import Store
from tests.conformance.authors import ANN, COMPLETED, Author, chunk, config
from tests.support.house import WebhookSender
from tests.support.receivers import HERE, Received, Receiver, receiver
from tests.unit.operations.test_push_relay import relaying, settled

QUIET = 0.05
"""Seconds in which something that must not happen would have happened."""
HOPELESS = 400


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a2a.db")
    await store.open()
    yield store
    await store.close()


async def completed(store: Store, client: Receiver, version: str = "1.0") -> Author:
    """A task whose four events are owed: as created, a chunk, another one, its completion."""
    author = Author(store)
    hook = config(author.task_id, "c", client.url)._replace(version=version)
    await author.commit(author.write(author.first(), head=author.head(), configs=[hook], notify=True))
    await author.commit(author.write(chunk(2, "a"), chunk(3, "b"), notify=True))
    await author.become(COMPLETED, notify=True)
    return author


def real() -> WebhookSender:
    return WebhookSender(HERE, SystemClock(), timeout=10)


def numbers(client: Receiver) -> list[int]:
    return [int(one.headers["A2A-Event-Number"]) for one in client.received]


def answers(status: Callable[[Received], int]) -> Callable[[Received], Any]:
    async def answer(one: Received) -> web.StreamResponse:
        return web.Response(status=status(one))

    return answer


def one_after_the_other(*statuses: int) -> Callable[[Received], Any]:
    """What is answered to the requests as they come; whatever follows is accepted."""
    left: Iterator[int] = iter(statuses)
    return answers(lambda _: next(left, 204))


async def told(store: Store, answer: Callable[[Received], Any], **patience: Any) -> list[int]:
    """The numbers of the events of a task as they arrive, until nothing is due any more."""
    async with receiver(answer) as client, relaying(real(), store, **patience) as (relay, _):
        await completed(store, client)
        relay.wake()
        await settled(store)
        await asyncio.sleep(QUIET)
        return numbers(client)


@pytest.mark.req("CONF-81", "DELV-01")
@pytest.mark.parametrize("status", [400, 405, 415, 422])
async def test_a_kind_that_is_rejected_holds_up_no_other(store: Store, status: int) -> None:
    def judge(one: Received) -> int:
        return status if "artifactUpdate" in json.loads(one.body) else 204

    assert await told(store, answers(judge)) == [1, 2, 2, 2, 3, 3, 3, 4]


@pytest.mark.req("CONF-81")
@pytest.mark.parametrize("version", ["1.0", "0.3", "draft"])
async def test_it_is_the_same_in_every_version(store: Store, version: str) -> None:
    moody = answers(lambda one: 422 if one.headers["A2A-Event-Number"] == "2" else 200)
    async with receiver(moody) as client, relaying(real(), store) as (relay, _):
        await completed(store, client, version)
        relay.wake()
        await settled(store)
    assert numbers(client) == [1, 2, 2, 2, 3, 4]
    assert len({one.headers["A2A-Delivery-Id"] for one in client.received}) == 4


@pytest.mark.req("CONF-81")
async def test_any_three_of_the_four_do(store: Store) -> None:
    assert await told(store, one_after_the_other(400, 422, 415, 405, 405)) == [1, 1, 1, 2, 2, 2, 3, 4]


@pytest.mark.req("CONF-81")
async def test_other_failures_neither_count_nor_forgive(store: Store) -> None:
    statuses = one_after_the_other(503, 503, 400, 503, 422, 404, 405)
    assert await told(store, statuses) == [1] * 7 + [2, 3, 4]


@pytest.mark.req("CONF-81")
async def test_two_are_forgotten_when_the_webhook_is_accepted(store: Store) -> None:
    statuses = one_after_the_other(400, 400, 204, 400, 400, 204)
    assert await told(store, statuses) == [1, 1, 1, 2, 2, 2, 3, 4]


@pytest.mark.req("CONF-81", "PAID-03")
@pytest.mark.parametrize(("status", "attempts"), [(401, 4), (403, 4), (404, 4), (410, 1), (409, 4), (500, 4), (503, 4)])
async def test_other_failures_park_as_before(store: Store, status: int, attempts: int) -> None:
    assert await told(store, answers(lambda _: status), give_up_after=4) == [1] * attempts


@pytest.mark.req("CONF-81", "PAID-03")
@pytest.mark.parametrize("patience", [{"give_up_after": 1}, {"give_up_after": 2}, {"give_up_age": 1e-9}])
async def test_rejections_park_nothing(store: Store, patience: dict[str, float]) -> None:
    assert await told(store, answers(lambda _: HOPELESS), **patience) == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]


@pytest.mark.req("CONF-81", "PAID-03")
async def test_whoever_rejected_one_gets_every_attempt_at_the_next(store: Store) -> None:
    statuses = one_after_the_other(400, 400, 400, *[500] * 9)
    assert await told(store, statuses, give_up_after=4) == [1, 1, 1, 2, 2, 2, 2]


@pytest.mark.req("CONF-81")
async def test_a_config_whose_last_webhook_is_skipped_has_nothing_to_send(store: Store) -> None:
    async with receiver(answers(lambda _: HOPELESS)) as client, relaying(real(), store) as (relay, _):
        await completed(store, client)
        assert await store.count_configs(ANN.owner, f"127.0.0.1:{client.port}", 10) == 1
        relay.wake()
        await settled(store)
        assert await store.count_configs(ANN.owner, f"127.0.0.1:{client.port}", 10) == 0


@pytest.mark.req("CONF-81", "OPER-04")
async def test_it_is_logged_and_counted(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a2a.db")
    await store.open()
    with capture_logs() as logs:
        async with receiver(one_after_the_other(415, 415, 415, 500)) as client, relaying(real(), store) as (relay, _):
            author = await completed(store, client)
            relay.wake()
            await settled(store)
    (found,) = SqlitePushAdmin(tmp_path / "a2a.db").status(ConfigFilter(author.task_id), 10)
    assert (found.delivered, found.skipped, found.failed, found.pending) == (3, 1, 4, 0)
    await store.close()
    (skipped,) = [entry for entry in logs if entry["event"] == "push.skipped"]
    assert skipped == {
        "event": "push.skipped",
        "log_level": "warning",
        "task_id": author.task_id,
        "config_id": "c",
        "number": 1,
        "host": f"127.0.0.1:{client.port}",
        "attempts": 3,
        "why": "status 415",
    }
    assert not [entry for entry in logs if entry["event"] == "push.parked"]
