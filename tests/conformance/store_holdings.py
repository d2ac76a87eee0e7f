"""Promises about how much of an owner is stored: everything that counts, from when it is there until it is gone."""

from __future__ import annotations

import asyncio

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.push import FailedAttempt
from a2a_server.ports.records import Receipt
from a2a_server.ports.retention import Deadlines, Holdings, Removed
from a2a_server.ports.store import Repeated, StaleWrite, Store
from tests.conformance.authors import ANN, ANN_ELSEWHERE, BOB, COMPLETED, UNLIMITED, Author, config
from tests.conformance.store_retention import OLD, THEN, swept
from tests.support.house import Scope

NOTHING = Holdings(0, 0)


async def log_of(author: Author) -> int:
    """How many bytes the log has."""
    return sum(len(entry.wire) for entry in await author.store.entries(author.task_id, 0, 2_000))


def size(hook: pb.TaskPushNotificationConfig) -> int:
    return len(hook.SerializeToString())


async def told_at_length(store: Store, chunks: int) -> Author:
    """A task with a long log that was finished long ago."""
    author = await Author(store).start()
    await author.commit(author.write(*(author.next_chunk(n, "x" * 300) for n in range(chunks))))
    artifacts = pb.Task(artifacts=[pb.Artifact(artifact_id="a")]).SerializeToString()
    await author.become(COMPLETED, OLD, end=[1], artifacts=artifacts)
    return author


class HoldingPromises:
    @pytest.mark.req("LIMT-02")
    async def test_all_of_a_task_counts(self, store: Store) -> None:
        author, hook = Author(store), config("t")
        artifacts = pb.Task(artifacts=[pb.Artifact(artifact_id="a")]).SerializeToString()
        await author.start(artifacts=artifacts, state=b"four", configs=[hook])
        counted = len(author.head().task) + await log_of(author) + len(artifacts) + 4 + size(hook.config)
        assert await store.holdings("ann") == Holdings(1, counted)
        assert (await author.load()).log_bytes == await log_of(author)

    @pytest.mark.req("LIMT-02")
    async def test_what_is_rewritten_counts_once(self, store: Store) -> None:
        author = await Author(store).start()
        for number in range(3):
            await author.chunk("x" * 50, artifacts=b"", state=b"s" * number)
            await author.say()
            await author.become(COMPLETED if number == 2 else author.state, 1_000_000 * number)
            counted = len(author.head().task) + number + await log_of(author)
            assert await store.holdings("ann") == Holdings(1, counted)
        assert (await author.load()).log_bytes == await log_of(author)

    @pytest.mark.req("LIMT-02")
    async def test_chunks_are_counted_with_the_next_status_at_the_latest(self, store: Store) -> None:
        author = await Author(store).start()
        before = (await store.holdings("ann")).bytes
        log = await log_of(author)
        for _ in range(5):
            await author.chunk("x" * 100)
        grown = await log_of(author) - log
        assert before <= (await store.holdings("ann")).bytes <= before + grown
        assert (await author.load()).log_bytes == log + grown
        await author.become(author.state)
        assert (await store.holdings("ann")).bytes == before + await log_of(author) - log

    @pytest.mark.req("LIMT-02", "TENA-05")
    async def test_owners_are_apart_and_tenants_can_be_added_up(self, store: Store) -> None:
        await Author(store).create()
        await Author(store, scope=ANN_ELSEWHERE, context_id="a longer context").create()
        await Author(store, scope=BOB).create()
        here, there = await store.holdings("ann", ANN.tenant), await store.holdings("ann", ANN_ELSEWHERE.tenant)
        assert here.tasks == there.tasks == 1
        assert here.bytes < there.bytes
        assert await store.holdings("ann") == Holdings(2, here.bytes + there.bytes)
        assert (await store.holdings("bob")).tasks == 1
        assert await store.holdings("ann", "nowhere") == await store.holdings("nobody") == NOTHING

    @pytest.mark.req("LIMT-02")
    async def test_an_owner_in_very_many_tenants_is_added_up_as_well(self, store: Store) -> None:
        await asyncio.gather(*(Author(store, scope=Scope(f"t{n}", "ann")).create() for n in range(700)))
        assert (await store.holdings("ann")).tasks == 700

    @pytest.mark.req("LIMT-02")
    async def test_a_write_that_is_refused_counts_for_nothing(self, store: Store) -> None:
        receipt = Receipt("key", b"print", "other", 1 << 60)
        await store.reserve(ANN, receipt, 0)
        author = await Author(store).create()
        before = await store.holdings("ann")
        with pytest.raises(StaleWrite):
            await Author(store, author.task_id).create()
        with pytest.raises(StaleWrite):
            await Author(store, author.task_id, BOB).create(state=b"state")
        with pytest.raises(Repeated):
            await Author(store).create(receipt=receipt)
        with pytest.raises(StaleWrite):
            await author.say(epoch=7, state=b"state")
        assert await store.holdings("ann") == before
        assert await store.holdings("bob") == NOTHING

    @pytest.mark.req("LIMT-02", "PUSH-03", "PUSH-10")
    async def test_push_configs_count_until_they_are_deleted(self, store: Store) -> None:
        author = await Author(store).create()
        before = (await store.holdings("ann")).bytes
        short, long = config(author.task_id), config(author.task_id, url="https://hook.example/" + "x" * 100)
        for hook in (short, long, short, long):
            await store.put_config(ANN, hook)
            assert (await store.holdings("ann")).bytes == before + size(hook.config)
        await store.delete_config(BOB, author.task_id, "c")
        await store.delete_config(ANN, author.task_id, "other")
        assert (await store.holdings("ann")).bytes == before + size(long.config)
        await store.delete_config(ANN, author.task_id, "c")
        assert (await store.holdings("ann")).bytes == before

    @pytest.mark.req("LIMT-02", "CTX-13")
    async def test_states_of_contexts_count_until_they_are_removed(self, store: Store) -> None:
        author = await Author(store).create(remember={"a": b"12345", "b": b"12"})
        task = len(author.head().task) + await log_of(author)
        assert (await store.holdings("ann")).bytes == task + 7
        await author.commit(author.write(remember={"a": b"1", "b": None, "c": b"123"}))
        assert await store.holdings("ann") == Holdings(1, task + 4)
        await author.become(COMPLETED, OLD)
        assert (await swept(store, tasks=THEN)).tasks == 1
        assert await store.holdings("ann") == Holdings(0, 4)
        assert (await swept(store, contexts=THEN)).context_values == 2
        assert await store.holdings("ann") == NOTHING

    @pytest.mark.req("LIMT-02", "KEPT-01")
    @pytest.mark.parametrize("chunks", [2, 1_200])
    async def test_a_task_that_is_removed_makes_room(self, store: Store, chunks: int) -> None:
        """Also one so long that it is removed in several steps: with the first step it makes all its room."""
        author = await told_at_length(store, chunks)
        await store.put_config(ANN, config(author.task_id))
        other = await Author(store).create()
        left = Holdings(1, len(other.head().task) + await log_of(other))
        assert (await store.holdings("ann")).bytes > left.bytes + chunks * 300
        while not (await store.sweep(Deadlines(tasks=THEN)) or Removed()).tasks:
            pass
        assert await store.holdings("ann") == left
        await swept(store, tasks=THEN)
        assert await store.holdings("ann") == left

    @pytest.mark.req("LIMT-02", "KEPT-01")
    @pytest.mark.parametrize("chunks", [2, 1_200])
    async def test_a_log_that_is_removed_makes_room(self, store: Store, chunks: int) -> None:
        author = await told_at_length(store, chunks)
        log, before = await log_of(author), await store.holdings("ann")
        assert (await swept(store, events=THEN)).events == chunks + 2
        assert await store.holdings("ann") == Holdings(1, before.bytes - log)
        assert (await swept(store, tasks=THEN)).tasks == 1
        assert await store.holdings("ann") == NOTHING

    @pytest.mark.req("LIMT-02", "KEPT-01")
    async def test_parked_configs_that_are_swept_away_make_room(self, store: Store) -> None:
        author = await Author(store).create()
        await author.commit(author.write(author.next_chunk(0, "x"), configs=[config(author.task_id)], notify=True))
        await author.become(author.state)
        before = (await store.holdings("ann")).bytes
        (delivery,) = await store.claim_deliveries(OLD, OLD + 1, 10, UNLIMITED)
        await store.finish_attempt(delivery, FailedAttempt(OLD, None, "gone"))
        assert (await store.holdings("ann")).bytes == before
        assert (await swept(store, webhooks=THEN)).configs == 1
        assert (await store.holdings("ann")).bytes == before - size(config(author.task_id).config)
