"""Promises about what is removed because it is old: that, and nothing else (spec: KEPT-01, CTX-13)."""

from __future__ import annotations

import asyncio

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.push import FailedAttempt
from a2a_server.ports.records import Receipt
from a2a_server.ports.retention import Deadlines, Removed
from a2a_server.ports.store import ContextQuery, Store, TaskQuery
from tests.conformance.authors import ANN, ASKING, BOB, COMPLETED, UNLIMITED, Author, chunk, config
from tests.support.house import Scope, TaskFilter

OLD, NEW = 1_000, 9_000
THEN = 5_000


async def swept(store: Store, **deadlines: int | bool) -> Removed:
    """One round through everything."""
    removed = Removed()
    while (step := await store.sweep(Deadlines(**deadlines))) is not None:  # type: ignore[arg-type]
        removed = removed.plus(step)
    return removed


async def finished(store: Store, at_ms: int = OLD, *, chunks: int = 2, scope: Scope = ANN) -> Author:
    author = await Author(store, scope=scope).start()
    for number in range(chunks):
        await author.chunk(f"{number};")
    await author.become(COMPLETED, at_ms, end=[1])
    return author


async def total(store: Store, scope: Scope = ANN) -> int:
    return (await store.page(TaskQuery(scope, TaskFilter(), None, 10, include_artifacts=False))).total


async def state_of(store: Store, context_id: str, scope: Scope = ANN) -> dict[str, bytes]:
    return dict((await store.context(ContextQuery(scope, context_id, "", 10, 1000))).state())


class RetentionPromises:
    @pytest.mark.req("KEPT-01")
    async def test_old_finished_tasks_go_with_all_that_is_theirs(self, store: Store) -> None:
        old, new = await finished(store), await finished(store, NEW)
        await old.store.put_config(ANN, config(old.task_id))
        removed = await swept(store, tasks=THEN)
        assert removed == Removed(tasks=1, events=4, configs=1)
        assert await store.load(ANN, old.task_id) is None
        assert await store.entries(old.task_id, 0, 10) == []
        assert await store.configs(ANN, old.task_id, "", 10) is None
        assert await store.get_config(ANN, old.task_id, "c") is None
        assert not await store.put_config(ANN, config(old.task_id))
        assert (await new.load()).number == 4
        assert await total(store) == 1
        assert await swept(store, tasks=THEN) == Removed()

    @pytest.mark.req("KEPT-01")
    async def test_what_is_not_asked_for_stays(self, store: Store) -> None:
        author = await finished(store)
        assert await swept(store) == Removed()
        assert await swept(store, tasks=OLD) == Removed()
        assert (await author.load()).number == 4

    @pytest.mark.req("KEPT-01")
    async def test_unfinished_tasks_stay_however_old(self, store: Store) -> None:
        running, waiting = await Author(store).start(), await Author(store, state=ASKING).create()
        queued = await Author(store).start()
        await queued.become(COMPLETED, OLD)  # its turn has not ended
        assert await swept(store, tasks=THEN, events=THEN) == Removed()
        for author in (running, waiting, queued):
            await author.load()
            assert await store.entries(author.task_id, 0, 1)

    @pytest.mark.req("KEPT-01")
    async def test_a_log_goes_and_the_task_stays(self, store: Store) -> None:
        old, new = await finished(store), await finished(store, NEW)
        before, total_before = await old.load(), await total(store)
        assert await swept(store, events=THEN) == Removed(events=4)
        assert await old.load() == before._replace(log_bytes=0)
        assert await old.texts() == {"a": "0;1;"}
        assert await store.entries(old.task_id, 0, 10) == []
        assert len(await store.entries(new.task_id, 0, 10)) == 4
        assert await total(store) == total_before
        page = await store.page(TaskQuery(ANN, TaskFilter(), None, 10, include_artifacts=True))
        assert before.task in page.tasks
        assert await swept(store, events=THEN) == Removed()
        assert await swept(store, events=NEW + 1) == Removed(events=4)
        assert await swept(store, tasks=THEN) == Removed(tasks=1)

    @pytest.mark.req("KEPT-01", "PAID-01")
    async def test_a_task_waits_for_its_webhooks(self, store: Store) -> None:
        author = await Author(store).start()
        await store.put_config(ANN, config(author.task_id))
        await author.become(COMPLETED, OLD, end=[1], notify=True)
        assert await swept(store, tasks=THEN, events=THEN) == Removed()
        (delivery,) = await store.claim_deliveries(0, 1, 10, UNLIMITED)
        assert await swept(store, tasks=THEN, events=THEN) == Removed()
        assert await store.finish_attempt(delivery, None)
        assert await swept(store, events=THEN) == Removed(events=2)
        assert await swept(store, tasks=THEN) == Removed(tasks=1, configs=1)

    @pytest.mark.req("KEPT-01")
    async def test_nothing_is_waited_for_where_webhooks_are_not_delivered(self, store: Store) -> None:
        author = await Author(store).start()
        await store.put_config(ANN, config(author.task_id))
        await author.become(COMPLETED, OLD, end=[1], notify=True)
        (delivery,) = await store.claim_deliveries(0, 1, 10, UNLIMITED)
        assert await swept(store, tasks=THEN, owed=False) == Removed(tasks=1, events=2, configs=1, webhooks=1)
        assert not await store.finish_attempt(delivery, None)
        assert await store.next_due() is None
        assert await store.count_configs("ann", "hook.example:443", 10) == 0

    @pytest.mark.req("KEPT-01", "PAID-03")
    async def test_parked_configs_go_with_what_they_are_owed(self, store: Store) -> None:
        author = await Author(store).start()
        for name in ("old", "new"):
            await store.put_config(ANN, config(author.task_id, name))
        await author.chunk("x", notify=True)
        deliveries = await store.claim_deliveries(0, 1, 10, UNLIMITED)
        for delivery in deliveries:
            parked_ms = OLD if delivery.hook.config.id == "old" else NEW
            await store.finish_attempt(delivery, FailedAttempt(parked_ms, None))
        assert await swept(store, webhooks=THEN) == Removed(configs=1, webhooks=1)
        hooks = await store.configs(ANN, author.task_id, "", 10)
        assert hooks is not None
        assert [hook.config.id for hook in hooks] == ["new"]

    @pytest.mark.req("KEPT-01", "ONCE-01")
    async def test_expired_receipts_go(self, store: Store) -> None:
        await store.reserve(ANN, Receipt("old", b"f", "a", OLD), 0)
        await store.reserve(BOB, Receipt("new", b"f", "b", NEW), 0)
        assert await swept(store, receipts=THEN) == Removed(receipts=1)
        assert await store.recall(ANN, "old", 0) is None
        assert await store.recall(BOB, "new", 0) is not None

    @pytest.mark.req("KEPT-01", "ONCE-01")
    async def test_a_task_takes_its_receipt_along(self, store: Store) -> None:
        author = Author(store, state=COMPLETED)
        await author.create(receipt=Receipt("k", b"f", author.task_id, NEW))
        await store.reserve(ANN, Receipt("other", b"f", "other", NEW), 0)
        assert await swept(store, tasks=THEN) == Removed(tasks=1, events=1, receipts=1)
        assert await store.recall(ANN, "k", 0) is None
        assert await store.recall(ANN, "other", 0) is not None

    @pytest.mark.req("CTX-13")
    async def test_the_state_of_a_quiet_context_goes(self, store: Store) -> None:
        for context_id, at_ms in (("quiet", OLD), ("busy", NEW)):
            author = await Author(store, context_id=context_id).start(remember={"a": b"1", "b": b"2"})
            await author.become(COMPLETED, at_ms, end=[1])
        waiting = Author(store, context_id="waiting", state=ASKING)
        await waiting.create(remember={"a": b"1"})
        assert await swept(store, contexts=THEN) == Removed(context_values=2)
        assert await state_of(store, "quiet") == {}
        assert await state_of(store, "busy") == {"a": b"1", "b": b"2"}
        assert await state_of(store, "waiting") == {"a": b"1"}
        assert await total(store) == 3

    @pytest.mark.req("CTX-13")
    async def test_a_context_may_outlive_its_tasks(self, store: Store) -> None:
        author = await Author(store).start(remember={"a": b"1"})
        await author.become(COMPLETED, OLD, end=[1])
        assert await swept(store, tasks=THEN) == Removed(tasks=1, events=2)
        assert not await store.has_context(ANN, "context")
        assert await state_of(store, "context") == {"a": b"1"}
        assert await swept(store, contexts=THEN) == Removed(context_values=1)

    @pytest.mark.req("KEPT-01")
    async def test_many_go_in_small_steps(self, store: Store) -> None:
        for scope in (ANN, BOB):
            await asyncio.gather(*(finished(store, OLD + n, scope=scope) for n in range(150)))
        kept = await asyncio.gather(*(finished(store, NEW + n) for n in range(100)))
        most, removed = 0, Removed()
        while (step := await store.sweep(Deadlines(tasks=THEN))) is not None:
            most, removed = max(most, step.tasks), removed.plus(step)
        assert removed == Removed(tasks=300, events=1_200)
        assert most <= 64
        assert (await total(store), await total(store, BOB)) == (100, 0)
        for author in kept:
            await author.load()

    @pytest.mark.req("KEPT-01")
    async def test_long_logs_and_large_artifacts_go(self, store: Store) -> None:
        long, large = await Author(store).start(), await Author(store).start()
        await store.put_config(ANN, config(long.task_id))
        for _ in range(25):
            await long.commit(long.write(*(chunk(long.number + 1 + n, "more ") for n in range(100)), notify=True))
        await large.become(
            COMPLETED, OLD, end=[1], artifacts=pb.Task(artifacts=[pb.Artifact(name="x" * 2**21)]).SerializeToString()
        )
        await long.become(COMPLETED, OLD, end=[1], notify=True)
        removed = await swept(store, tasks=THEN, owed=False)
        assert removed == Removed(tasks=2, events=2_504, configs=1, webhooks=2_501)
        assert await store.load(ANN, long.task_id) is None
        assert await store.load(ANN, large.task_id) is None
        assert await store.next_due() is None
        assert await total(store) == 0

    @pytest.mark.req("KEPT-01")
    async def test_a_removed_id_may_be_given_again(self, store: Store) -> None:
        old = await finished(store)
        await swept(store, tasks=THEN)
        again = await Author(store, old.task_id).create()
        assert (await again.load()).number == 1
