"""The relay: in order, with retries and parking, and without losing a delivery (spec: DELV, PAID-01 to -03)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.defaults import SystemClock
from a2a_server.adapters.memory import MemoryStore
from a2a_server.adapters.sealing import Sealing
from a2a_server.adapters.sqlite import SqliteStore
from a2a_server.adapters.sqlite.push_admin import SqlitePushAdmin
from a2a_server.operations.push.configs import delivery_id
from a2a_server.operations.push.relay import PushRelay
from a2a_server.ports.clock import Clock
from a2a_server.ports.push import ConfigFilter, ConfigStatus, Notice, Outcome
from a2a_server.ports.store import Store, StoreUnavailable
from tests.conformance.authors import ANN, COMPLETED, UNLIMITED, Author, chunk, config
from tests.support.deliveries import DELIVERED, Pigeonhole, deliver
from tests.support.stage import HandClock

REFUSED = Outcome(delivered=False, why="status 500")


@asynccontextmanager
async def relaying(
    sender: Any, store: Store | None = None, *, clock: Clock | None = None, **options: Any
) -> AsyncIterator[tuple[PushRelay, Store]]:
    store = store or MemoryStore()
    relay = PushRelay(store, clock or SystemClock(), deliver(sender, **options), history_cap=100)
    await relay.start()
    try:
        yield relay, store
    finally:
        await relay.drain(0)


async def indebted(store: Store, *config_ids: str, events: int = 3, url: str = "https://hook.example/") -> Author:
    """A task that is created, worked on and completed, for configs that are owed all of it."""
    author = Author(store)
    configs = [config(author.task_id, name, url) for name in config_ids or ("c",)]
    await author.commit(author.write(author.first(), head=author.head(), configs=configs, notify=True))
    await author.commit(author.write(*(chunk(2 + n, f"{n}") for n in range(events - 2)), notify=True))
    await author.become(COMPLETED, notify=True)
    return author


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - what happens in a relay has no one event
            await asyncio.sleep(0.002)


async def settled(store: Store) -> None:
    """Wait until everything has been delivered or parked."""
    async with asyncio.timeout(30):
        while await store.next_due() is not None:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.002)


def numbers(sender: Pigeonhole, config_id: str = "c") -> list[int]:
    return [notice.number for notice in sender.notices if notice.hook.config.id == config_id]


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Store]:
    """A store that operators can look into."""
    store = SqliteStore(tmp_path / "a2a.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def admin(tmp_path: Path) -> SqlitePushAdmin:
    return SqlitePushAdmin(tmp_path / "a2a.db")


def account(admin: SqlitePushAdmin, author: Author, config_id: str = "c") -> ConfigStatus:
    (found,) = admin.status(ConfigFilter(author.task_id, config_id), 10)
    return found


class Hanging(Pigeonhole):
    """Never answers about some configs."""

    def __init__(self, *config_ids: str) -> None:
        super().__init__()
        self.hanging = set(config_ids)
        self.canceled: list[str] = []

    async def send(self, notice: Notice) -> Outcome:
        outcome = await super().send(notice)
        if notice.hook.config.id in self.hanging:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.canceled.append(notice.hook.config.id)
                raise
        return outcome


@pytest.mark.req("PAID-02", "DELV-01", "PUSH-05")
async def test_each_config_hears_of_everything_in_order(kept: Store, admin: SqlitePushAdmin) -> None:
    sender = Pigeonhole()
    async with relaying(sender, kept) as (relay, store):
        author = await indebted(store, "c", "d", events=20)
        relay.wake()
        await settled(store)
        for config_id in ("c", "d"):
            assert numbers(sender, config_id) == list(range(1, 21))
            found = account(admin, author, config_id)
            assert (found.delivered, found.failed) == (20, 0)


@pytest.mark.req("PAID-01", "DELV-02", "DELV-03")
async def test_what_fails_comes_again_before_what_follows(kept: Store, admin: SqlitePushAdmin) -> None:
    answers = iter([REFUSED, REFUSED, DELIVERED, DELIVERED, REFUSED, DELIVERED])
    sender = Pigeonhole(lambda _: next(answers))
    async with relaying(sender, kept) as (_, store):
        author = await indebted(store)
        await settled(store)
        assert numbers(sender) == [1, 1, 1, 2, 3, 3]
        assert [notice.attempt for notice in sender.notices] == [1, 2, 3, 1, 1, 2]
        ids = [notice.delivery_id for notice in sender.notices]
        assert len(set(ids)) == 3
        assert ids[0] == ids[2]
        found = account(admin, author)
        assert (found.delivered, found.failed, found.attempts, found.why) == (3, 3, 0, "")


@pytest.mark.req("PAID-02", "DELV-04")
async def test_a_config_that_hangs_delays_no_other() -> None:
    sender = Hanging("slow")
    async with relaying(sender) as (_, store):
        await indebted(store, "slow", "swift", events=30)
        await until(lambda: len(numbers(sender, "swift")) == 30)
        assert numbers(sender, "slow") == [1]


@pytest.mark.req("PUSH-09")
async def test_a_deleted_config_is_let_go_of_at_once() -> None:
    sender = Hanging("c")
    async with relaying(sender) as (relay, store):
        author = await indebted(store)
        await until(lambda: len(sender.notices) == 1)
        await store.delete_config(ANN, author.task_id, "c")
        await relay.forget(author.task_id, "c")
        assert sender.canceled == ["c"]
        await asyncio.sleep(0.05)
        assert len(sender.notices) == 1


@pytest.mark.req("PUSH-09")
async def test_a_config_deleted_while_it_is_claimed_is_not_tried() -> None:
    class Slow(MemoryStore):
        gate = asyncio.Event()
        claiming = asyncio.Event()

        async def claim_deliveries(self, *args: Any) -> Any:
            deliveries = await super().claim_deliveries(*args)
            self.claiming.set()
            await self.gate.wait()
            return deliveries

    sender, store = Pigeonhole(), Slow()
    async with relaying(sender, store) as (relay, _):
        author = await indebted(store, "c", "d", events=2)
        await store.claiming.wait()
        await store.delete_config(ANN, author.task_id, "c")
        await relay.forget(author.task_id, "c")
        store.gate.set()
        await until(lambda: len(numbers(sender, "d")) == 2)
        assert numbers(sender, "c") == []


@pytest.mark.req("PUSH-03", "PAID-02")
async def test_a_replaced_config_goes_on_at_its_new_address() -> None:
    sender = Hanging("c")
    async with relaying(sender) as (relay, store):
        author = await indebted(store, url="https://old.example/")
        await until(lambda: len(sender.notices) == 1)
        sender.hanging.clear()
        await store.put_config(ANN, config(author.task_id, "c", "https://new.example/"))
        relay.wake()
        await settled(store)
        assert sender.canceled == ["c"]  # or the old address would have two at once
        urls = [notice.hook.config.url for notice in sender.notices]
        assert urls == ["https://old.example/", *["https://new.example/"] * 3]
        assert numbers(sender) == [1, 1, 2, 3]


# -- giving up


@pytest.mark.req("PAID-03", "DELV-03")
async def test_a_config_is_parked_after_so_many_attempts(kept: Store, admin: SqlitePushAdmin) -> None:
    sender = Pigeonhole(lambda _: REFUSED)
    with capture_logs() as logs:
        async with relaying(sender, kept, give_up_after=4) as (_, store):
            author = await indebted(store)
            await settled(store)
            found = account(admin, author)
            assert (found.attempts, found.why, found.pending) == (4, "status 500", 3)
            assert found.parked_ms is not None
            await asyncio.sleep(0.05)
            assert numbers(sender) == [1] * 4
    (parked,) = [entry for entry in logs if entry["event"] == "push.parked"]
    assert (parked["task_id"], parked["config_id"], parked["why"], parked["attempts"]) == (
        author.task_id,
        "c",
        "status 500",
        4,
    )
    assert sum(entry["event"] == "push.failed" for entry in logs) == 4


@pytest.mark.req("PAID-03")
async def test_a_config_is_parked_when_it_has_failed_for_so_long() -> None:
    clock = HandClock()

    def fail(_: Notice) -> Outcome:
        clock.advance(40)
        return REFUSED

    sender = Pigeonhole(fail)
    async with relaying(sender, clock=clock, give_up_age=100, timeout=300, retry_first=1e-9) as (_, store):
        await indebted(store)
        await settled(store)
    assert len(sender.notices) == 4  # failing since the first, which took 40 seconds to fail


@pytest.mark.req("PAID-03")
async def test_what_is_final_parks_at_once(kept: Store, admin: SqlitePushAdmin) -> None:
    sender = Pigeonhole(lambda _: Outcome(delivered=False, why="status 410", final=True))
    async with relaying(sender, kept) as (_, store):
        author = await indebted(store)
        await settled(store)
        assert len(sender.notices) == 1
        sender.answer = lambda _: DELIVERED
        assert admin.retry(ConfigFilter(author.task_id)) == 1
        await settled(store)  # without being woken: operators cannot


@pytest.mark.req("PAID-03")
async def test_a_receiver_that_asks_for_time_gets_it(kept: Store, admin: SqlitePushAdmin) -> None:
    sender = Pigeonhole(lambda _: Outcome(delivered=False, why="status 503", retry_after=1_000.0))
    clock = HandClock()
    async with relaying(sender, kept, clock=clock, retry_most=600.0) as (_, store):
        author = await indebted(store)
        await until(lambda: account(admin, author).failed == 1)
        assert account(admin, author).due_ms == clock.now_ms() + 600_000  # bounded by what we are willing to wait


# -- the end, and the beginning after it


@pytest.mark.req("DURA-08", "PAID-01")
async def test_a_drain_lets_attempts_end_and_gives_back_the_rest(kept: Store, admin: SqlitePushAdmin) -> None:
    class Gated(Hanging):
        gate = asyncio.Event()

        async def send(self, notice: Notice) -> Outcome:
            outcome = await super().send(notice)
            await self.gate.wait()
            return outcome

    sender = Gated("hangs")
    async with relaying(sender, kept) as (relay, store):
        author = await indebted(store, "hangs", "ends", events=2)
        await until(lambda: len(sender.notices) == 2)
        draining = asyncio.ensure_future(relay.drain(0.1))
        await asyncio.sleep(0)
        sender.gate.set()
        await draining
        assert len(sender.notices) == 2  # nothing was begun meanwhile
        assert sender.canceled == ["hangs"]
        ends, hangs = account(admin, author, "ends"), account(admin, author, "hangs")
        assert (ends.delivered, ends.pending) == (1, 1)
        assert (hangs.attempts, hangs.failed, hangs.pending, hangs.claimed) == (0, 0, 2, False)

    after = Pigeonhole()
    async with relaying(after, kept):
        await until(lambda: len(after.notices) == 3)
    assert numbers(after, "hangs") == [1, 2]
    assert numbers(after, "ends") == [2]


@pytest.mark.req("PAID-01")
async def test_several_relays_share_one_store() -> None:
    store, senders = MemoryStore(), [Pigeonhole(), Pigeonhole()]
    async with relaying(senders[0], store), relaying(senders[1], store):
        for _ in range(20):
            await indebted(store, events=5)
        await until(lambda: sum(len(sender.notices) for sender in senders) >= 100)
    places = [(notice.task_id, notice.number) for sender in senders for notice in sender.notices]
    assert len(places) == len(set(places)) == 100


@pytest.mark.req("DURA-07", "PAID-01")
async def test_a_store_that_is_away_is_waited_for() -> None:
    class Away(MemoryStore):
        failures = 2

        async def finish_attempt(self, *args: Any) -> bool:
            if self.failures:
                self.failures -= 1
                raise StoreUnavailable("disk full")
            return await super().finish_attempt(*args)

        async def next_due(self) -> int | None:
            if self.failures == 2:
                self.failures -= 1
                raise StoreUnavailable("disk full")
            return await super().next_due()

    sender = Pigeonhole()
    async with relaying(sender, Away()) as (_, store):
        await indebted(store)
        await until(lambda: len(sender.notices) == 3)
        await settled(store)
    assert numbers(sender) == [1, 2, 3]  # nothing twice


@pytest.mark.req("PAID-06", "SECR-03")
async def test_a_secret_that_cannot_be_opened_parks_its_config_and_says_which_key_is_missing(
    kept: Store, admin: SqlitePushAdmin
) -> None:
    sender = Pigeonhole()
    author = await Author(kept).create()
    sealed = config(author.task_id)
    sealed.config.token = Sealing([bytes(32)]).seal("t0k3n", f"{author.task_id}\nc\ntoken")
    await author.chunk("x", configs=[sealed], notify=True)
    with capture_logs() as logs:
        async with relaying(sender, kept) as (_, store):
            await settled(store)
            assert account(admin, author).why == "sealed secret"
    assert not sender.notices
    (told,) = [entry for entry in logs if entry["event"] == "push.unsealable"]
    assert "push.secret_keys lacks the key" in told["why"]


async def test_an_error_of_ours_is_one_failed_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    def break_once(notice: Notice) -> Outcome:
        if notice.attempt == 1 and notice.number == 1:
            raise RuntimeError("unforeseen")
        return DELIVERED

    sender = Pigeonhole(break_once)
    async with relaying(sender) as (_, store):
        await indebted(store)
        await settled(store)
    assert numbers(sender) == [1, 1, 2, 3]


# -- what is told


@pytest.mark.req("HOOK-01", "LPSH-03", "CONF-36")
async def test_each_version_is_told_in_its_own_form() -> None:
    sender = Pigeonhole()
    async with relaying(sender) as (_, store):
        author = Author(store)
        hooks = [config(author.task_id, version)._replace(version=version) for version in ("1.0", "0.3", "draft")]
        await author.commit(author.write(author.first(), head=author.head(), configs=hooks, notify=True))
        await author.chunk("one", artifact="a", append=False, notify=True)
        await author.say(notify=True)
        await author.become(COMPLETED, notify=True)
        await until(lambda: len(sender.notices) == 9)
    bodies = {(notice.hook.version, notice.number): notice.body.decode() for notice in sender.notices}
    assert set(bodies) == {(version, number) for version in ("1.0", "0.3", "draft") for number in (1, 2, 4)}
    types = {notice.hook.version: notice.content_type for notice in sender.notices}
    assert types == {"1.0": "application/a2a+json", "0.3": "application/json", "draft": "application/a2a+json"}
    assert bodies["1.0", 1].startswith('{"task":{')
    assert bodies["1.0", 2].startswith('{"artifactUpdate":{')
    assert bodies["1.0", 4].startswith('{"statusUpdate":{')
    assert '"TASK_STATE_COMPLETED"' in bodies["1.0", 4]
    assert bodies["draft", 4].startswith('{"statusUpdate":{')
    for number in (1, 2, 4):
        assert bodies["0.3", number].startswith('{"kind":"task",')
    assert '"artifacts"' not in bodies["0.3", 1]  # the task as the event left it
    assert '"state":"completed"' not in bodies["0.3", 2]
    assert '"state":"completed"' in bodies["0.3", 4]
    assert '"history":[{' in bodies["0.3", 4]


async def test_a_delivery_is_named_by_what_it_delivers() -> None:
    store = MemoryStore()
    one, other = await indebted(store, "c", "d"), await indebted(store)
    deliveries = await store.claim_deliveries(0, 1, 10, UNLIMITED)
    assert len({delivery_id(delivery) for delivery in deliveries}) == len(deliveries) == 3
    assert {delivery.task_id for delivery in deliveries} == {one.task_id, other.task_id}
    (again, *_) = [
        delivery for delivery in await store.claim_deliveries(1, 2, 10, UNLIMITED) if delivery.task_id == other.task_id
    ]
    (first,) = [delivery for delivery in deliveries if delivery.task_id == other.task_id]
    assert delivery_id(again) == delivery_id(first)
    assert len(delivery_id(first)) == 32


def test_nothing_of_a_hook_is_shown_but_its_ids() -> None:
    hook = config("t-1")
    hook.config.token, hook.config.authentication.credentials = "t0k3n", "s3cr3t"
    hook.config.authentication.scheme = "Bearer"
    assert repr(hook) == str(hook) == "PushConfig(task_id='t-1', id='c', version='1.0')"
    assert isinstance(hook.config, pb.TaskPushNotificationConfig)
