"""Promises about one task: creation, stale writers, the log, the two halves of the snapshot."""

from __future__ import annotations

import asyncio

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.records import Entry, Receipt, StoredTurn, TaskHead, Write
from a2a_server.ports.store import StaleWrite, Store
from tests.conformance.authors import (
    ANN,
    ANN_ELSEWHERE,
    BOB,
    COMPLETED,
    HERE,
    Author,
    More,
    chunk,
    config,
    fresh,
    message,
    status,
)
from tests.support.house import Scope


class TaskPromises:
    async def test_a_task_is_read_as_it_was_created(self, store: Store) -> None:
        author = await Author(store).create()
        record = await author.load()
        assert (record.task, record.number, record.epoch) == (author.task(), 1, 0)
        assert record.state == b""

    async def test_what_was_never_created_is_absent(self, store: Store) -> None:
        assert await store.load(ANN, "nowhere") is None
        assert await store.entries("nowhere", 0, 10) == []

    async def test_a_creation_with_a_claim_begins_the_first_epoch(self, store: Store) -> None:
        author = await Author(store).start()
        assert (await author.load()).epoch == 1

    async def test_a_task_is_created_once(self, store: Store) -> None:
        author = await Author(store, context_id="first").create()
        with pytest.raises(StaleWrite):
            await Author(store, author.task_id, context_id="second").create()
        assert (await author.load()).task.context_id == "first"
        assert len(await store.entries(author.task_id, 0, 10)) == 1

    async def test_another_scope_cannot_create_a_task_of_the_same_id(self, store: Store) -> None:
        author = await Author(store).create()
        with pytest.raises(StaleWrite):
            await Author(store, author.task_id, BOB).create()
        assert await store.load(BOB, author.task_id) is None

    async def test_what_does_not_exist_cannot_be_written(self, store: Store) -> None:
        with pytest.raises(StaleWrite):
            await Author(store, number=4).chunk("lost")

    @pytest.mark.parametrize("expected", [0, 1, 3, 99])
    async def test_a_stale_writer_changes_nothing(self, store: Store, expected: int) -> None:
        author = await Author(store).start()
        await author.chunk("kept")
        before = await author.load()
        entry = Entry(expected + 1, b"lost", chunk(1, "lost").event)
        with pytest.raises(StaleWrite):
            await store.commit(_everything(author, entry, expected=expected))
        assert await author.load() == before
        assert len(await store.entries(author.task_id, 0, 10)) == 2
        assert await store.configs(ANN, author.task_id, "", 10) == []
        assert await store.recall(ANN, author.task_id, 0) is None
        assert not await store.has_context(ANN, "another")

    @pytest.mark.parametrize(("epoch", "claims"), [(0, False), (2, False), (0, True), (1, True), (3, True)])
    async def test_only_the_stored_epoch_writes_and_only_the_next_one_claims(
        self,
        store: Store,
        epoch: int,
        claims: bool,  # noqa: FBT001 - a row of a table
    ) -> None:
        author = await Author(store).start()
        before = await author.load()
        more: More = {"claim": HERE, "epoch": epoch} if claims else {"epoch": epoch}
        with pytest.raises(StaleWrite):
            await author.chunk("lost", **more)
        assert await author.load() == before

    async def test_a_claim_ends_the_epoch_before(self, store: Store) -> None:
        old = await Author(store).start()
        new = Author(store, old.task_id, number=1, epoch=1)
        await new.chunk("new", claim=HERE)
        old.number = 2  # it knows the log, and still may not write
        with pytest.raises(StaleWrite):
            await old.chunk("old")
        await new.chunk("er")
        assert await new.texts() == {"a": "newer"}

    async def test_of_two_who_claim_at_once_exactly_one_wins(self, store: Store) -> None:
        first = await Author(store).create()
        rivals = [Author(store, first.task_id, number=1) for _ in range(8)]
        verdicts = await asyncio.gather(*(_attempt(rival, f"{n}") for n, rival in enumerate(rivals)))
        assert sum(verdicts) == 1
        assert await first.texts() == {"a": str(verdicts.index(True))}

    async def test_writers_who_retry_lose_nothing(self, store: Store) -> None:
        """Fifty writers, one task: each tries until its chunk is in."""
        author = await Author(store).create()
        await asyncio.gather(*(_insist(store, author.task_id, f"<{n}>") for n in range(50)))
        text = (await author.texts())["a"]
        assert sorted(text[1:-1].split("><"), key=int) == [str(n) for n in range(50)]
        entries = await store.entries(author.task_id, 0, 100)
        assert [entry.number for entry in entries] == list(range(1, 52))

    async def test_many_tasks_are_written_at_once(self, store: Store) -> None:
        authors = [Author(store) for _ in range(40)]
        await asyncio.gather(*(author.start() for author in authors))
        for text in "abc":
            await asyncio.gather(*(author.chunk(text) for author in authors))
        assert [await author.texts() for author in authors] == [{"a": "abc"}] * 40

    async def test_one_write_does_several_things(self, store: Store) -> None:
        author = Author(store)
        await author.commit(author.write(author.first(), chunk(2, "x"), status(3), message(4), head=author.head()))
        assert (await author.load()).number == 4
        assert [entry.number for entry in await store.entries(author.task_id, 0, 10)] == [1, 2, 3, 4]

    async def test_a_write_without_entries_is_a_write(self, store: Store) -> None:
        author = await Author(store).create()
        await author.commit(author.write(state=b"saved"))
        record = await author.load()
        assert (record.number, record.state) == (1, b"saved")

    # -- the log

    async def test_entries_come_back_in_order_and_byte_for_byte(self, store: Store) -> None:
        author = await Author(store).create()
        written = [chunk(2, "x"), status(3), message(4)]
        await author.commit(author.write(*written, head=author.head()))
        assert await store.entries(author.task_id, 1, 10) == written

    async def test_entries_are_bounded_on_both_sides(self, store: Store) -> None:
        author = await Author(store).create()
        await author.commit(author.write(*(chunk(n, "x") for n in range(2, 21))))
        other = await Author(store).create()  # its log must not leak into this one
        await other.chunk("y")
        cases = {(0, 3): [1, 2, 3], (5, 2): [6, 7], (18, 10): [19, 20], (20, 10): [], (99, 10): [], (3, 0): []}
        for (after, limit), numbers in cases.items():
            assert [entry.number for entry in await store.entries(author.task_id, after, limit)] == numbers

    # -- the two halves

    async def test_a_chunk_shows_before_any_snapshot_of_it(self, store: Store) -> None:
        author = await Author(store).create()
        await author.chunk("one ")
        await author.chunk("two", artifact="b")
        await author.chunk("three")
        assert await author.texts() == {"a": "one three", "b": "two"}

    async def test_the_tail_is_folded_after_the_snapshot(self, store: Store) -> None:
        author = await Author(store).create()
        await author.chunk("never read again")
        snapshot = pb.Task(artifacts=[pb.Artifact(artifact_id="a", parts=[pb.Part(text="snapshot ")])])
        await author.chunk("included", artifacts=snapshot.SerializeToString())
        await author.chunk("tail")
        assert await author.texts() == {"a": "snapshot tail"}

    async def test_a_status_between_chunks_loses_neither(self, store: Store) -> None:
        author = await Author(store).create()
        await author.chunk("one ")
        await author.become(COMPLETED, 2_000)
        await author.chunk("two")
        await author.say()
        record = await author.load()
        assert (record.task.status.state, record.number) == (COMPLETED, 5)
        assert await author.texts() == {"a": "one two"}

    async def test_only_the_head_says_what_status_and_history_are(self, store: Store) -> None:
        """The head never lags, so the log's statuses and messages are not folded a second time."""
        author = await Author(store).create()
        await author.commit(author.write(message(2), status(3, COMPLETED), chunk(4, "x"), head=author.head()))
        task = (await author.load()).task
        assert task.status == author.task().status
        assert not task.history

    async def test_a_replaced_artifact_starts_anew(self, store: Store) -> None:
        author = await Author(store).create()
        await author.chunk("old")
        await author.chunk("new", append=False)
        assert await author.texts() == {"a": "new"}

    async def test_agent_state_stays_until_it_is_replaced(self, store: Store) -> None:
        author = await Author(store).create(state=b"one")
        await author.chunk("x")
        assert (await author.load()).state == b"one"
        await author.chunk("y", state=b"")
        assert (await author.load()).state == b""

    async def test_what_is_read_belongs_to_the_reader(self, store: Store) -> None:
        author = await Author(store).create(configs=[config("t")])
        await author.chunk("x")
        for _ in range(2):
            task = (await author.load()).task
            assert (task.id, len(task.artifacts)) == (author.task_id, 1)
            task.Clear()
            (entry,) = await store.entries(author.task_id, 1, 10)
            assert entry.event.artifact_update.artifact.artifact_id == "a"
            entry.event.Clear()

    async def test_what_was_written_is_no_longer_the_writers(self, store: Store) -> None:
        entry, hook = chunk(2, "x"), config("t")
        author = await Author(store).create()
        hook.config.task_id = author.task_id
        await author.commit(author.write(entry, configs=[hook]))
        entry.event.Clear()
        hook.config.Clear()
        assert await author.texts() == {"a": "x"}
        assert await store.get_config(ANN, author.task_id, "c") == config(author.task_id)

    # -- scopes

    @pytest.mark.req("AUTZ-02", "AUTZ-03", "TENA-05")
    @pytest.mark.parametrize("scope", [BOB, ANN_ELSEWHERE])
    async def test_what_lies_outside_the_scope_is_absent(self, store: Store, scope: Scope) -> None:
        author = await Author(store).start()
        await store.put_config(ANN, config(author.task_id))
        assert await store.load(scope, author.task_id) is None
        assert not await store.put_config(scope, config(author.task_id, "mine"))
        assert await store.get_config(scope, author.task_id, "c") is None
        assert await store.configs(scope, author.task_id, "", 10) is None
        assert not await store.delete_config(scope, author.task_id, "c")
        with pytest.raises(StaleWrite):
            await Author(store, author.task_id, scope, number=1, epoch=1).chunk("lost")
        assert await author.texts() == {}
        assert await store.configs(ANN, author.task_id, "", 10) == [config(author.task_id)]

    @pytest.mark.req("AUTZ-03", "TENA-05")
    async def test_a_context_is_its_callers(self, store: Store) -> None:
        context = fresh("context")
        await Author(store, context_id=context).create()
        assert await store.has_context(ANN, context)
        assert not await store.has_context(BOB, context)
        assert not await store.has_context(ANN_ELSEWHERE, context)
        assert not await store.has_context(ANN, "another")

    async def test_ids_may_be_any_text(self, store: Store) -> None:
        odd = "ä'\"\\%_;--\U0001f600" + "x" * 1_000
        author = await Author(store, odd, context_id=odd).create()
        assert (await author.load()).task == author.task()
        assert await store.has_context(ANN, odd)


class WritePromises:
    """A `Write` that cannot be meant is none."""

    def test_entries_must_follow_what_is_expected(self) -> None:
        with pytest.raises(ValueError, match="entries end at 5, not at 3 \\+ 1"):
            Write(scope=ANN, task_id="t", expected=3, epoch=0, entries=[chunk(5, "x")])

    def test_a_creation_has_a_first_entry_and_a_head(self) -> None:
        with pytest.raises(ValueError, match="'t' cannot be created"):
            Write(scope=ANN, task_id="t", expected=0, epoch=0, entries=[chunk(1, "x")])


async def _attempt(author: Author, text: str) -> bool:
    try:
        await author.chunk(text, claim=HERE)
    except StaleWrite:
        return False
    return True


async def _insist(store: Store, task_id: str, text: str) -> None:
    author = Author(store, task_id)
    while True:
        author.number = (await author.load()).number
        try:
            return await author.chunk(text)
        except StaleWrite:
            continue


def _everything(author: Author, entry: Entry, *, expected: int) -> Write:
    """A write that touches all there is, or a creation where nothing is expected."""
    task_id = author.task_id
    return Write(
        scope=ANN,
        task_id=task_id,
        expected=expected,
        epoch=2,
        entries=[entry],
        head=TaskHead(b"", "another", COMPLETED, 9_000),
        artifacts=b"",
        claim=HERE,
        begin=[StoredTurn(2, b"lost")],
        end=[1],
        state=b"lost",
        configs=[config(task_id)],
        notify=True,
        receipt=Receipt(task_id, b"", task_id, 9_000),
    )
