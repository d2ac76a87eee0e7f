"""Promises about contexts: what their tasks said, and the state that they share (spec: AGNT-06)."""

from __future__ import annotations

import random

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import ContextMemory
from a2a_server.ports.store import ContextQuery, StaleWrite, Store
from tests.conformance.authors import ANN, ANN_ELSEWHERE, ASKING, BOB, COMPLETED, HERE, WORKING, Author, fresh
from tests.support.house import Scope

LARGE = 2**30


async def remembered(  # noqa: PLR0913 - as many as the query has
    store: Store, context: str, scope: Scope = ANN, *, without: str = "", limit: int = 100, max_bytes: int = LARGE
) -> ContextMemory:
    return await store.context(ContextQuery(scope, context, without, limit, max_bytes))


class Speaker(Author):
    """An author whose task holds messages: those of the history, and with `last` one in the status."""

    said: tuple[str, ...] = ()
    last = ""

    def task(self) -> pb.Task:
        task = super().task()
        for text in self.said:
            task.history.add(parts=[pb.Part(text=text)])
        if self.last:
            task.status.message.parts.add(text=self.last)
        return task


def speaker(store: Store, context: str, status_ms: int, *said: str, last: str = "", scope: Scope = ANN) -> Speaker:
    author = Speaker(store, scope=scope, context_id=context, status_ms=status_ms, state=COMPLETED)
    author.said, author.last = said, last
    return author


def words(memory: ContextMemory) -> list[str]:
    return [message.parts[0].text for message in memory.history()]


class ContextPromises:
    added = 0
    """As for lists."""

    @pytest.mark.req("AGNT-06")
    async def test_a_context_tells_what_its_other_tasks_said_newest_last(self, store: Store) -> None:
        context = fresh("context")
        third = await speaker(store, context, 3_000, "five", last="six").create()
        await speaker(store, context, 1_000, "one", "two").create()
        await speaker(store, context, 2_000, "three", last="four").create()
        own = await speaker(store, context, 4_000, "mine").create()
        memory = await remembered(store, context, without=own.task_id)
        assert words(memory) == ["one", "two", "three", "four", "five", "six"]
        assert words(await remembered(store, context, without=third.task_id)) == ["one", "two", "three", "four", "mine"]
        assert words(await remembered(store, fresh("context"))) == []

    @pytest.mark.req("AGNT-06")
    async def test_tasks_of_the_same_time_are_in_the_order_of_their_creation(self, store: Store) -> None:
        context, order = fresh("context"), random.Random(1984)
        texts = [f"{number}" for number in range(20)]
        for text in texts:
            author = speaker(store, context, 1_000, text)
            author.task_id = f"{order.random()}"
            await author.create()
        assert words(await remembered(store, context)) == texts

    @pytest.mark.req("AGNT-06")
    async def test_a_question_that_waits_was_said_and_progress_was_not(self, store: Store) -> None:
        context = fresh("context")
        for state, at_ms, text in ((WORKING, 1_000, "looking"), (ASKING, 2_000, "which?")):
            author = speaker(store, context, at_ms, last=text)
            author.state = state
            await author.create()
        assert words(await remembered(store, context)) == ["which?"]

    @pytest.mark.req("AGNT-06", "AUTZ-03")
    async def test_nobody_sees_the_context_of_another(self, store: Store) -> None:
        context = fresh("context")
        for scope, text in ((ANN, "mine"), (BOB, "theirs"), (ANN_ELSEWHERE, "elsewhere")):
            await speaker(store, context, 1_000, text, scope=scope).create(remember={"who": text.encode()})
        for scope, text in ((ANN, "mine"), (BOB, "theirs"), (ANN_ELSEWHERE, "elsewhere")):
            memory = await remembered(store, context, scope)
            assert words(memory) == [text]
            assert memory.state() == {"who": text.encode()}
            (task,) = await memory.tasks()
            assert [message.parts[0].text for message in task.history] == [text]

    @pytest.mark.req("AGNT-06")
    async def test_its_tasks_come_with_their_artifacts(self, store: Store) -> None:
        context = fresh("context")
        for at_ms in (1_000, 2_000):
            author = await speaker(store, context, at_ms, f"at {at_ms}").create()
            await author.chunk(f"made {at_ms}")
        own = await speaker(store, context, 500).create()
        await own.chunk("x" * 10_000)
        tasks = await (await remembered(store, context, without=own.task_id, max_bytes=5_000)).tasks()
        assert [task.artifacts[0].parts[0].text for task in tasks] == ["made 1000", "made 2000"]

    @pytest.mark.req("AGNT-06", "LIMT-01")
    async def test_a_context_is_bounded(self, store: Store) -> None:
        context = fresh("context")
        for number in range(5):
            author = await speaker(store, context, number, f"q{number}", f"a{number}").create()
            await author.chunk("y" * 1_000)
        assert words(await remembered(store, context, limit=3)) == ["a3", "q4", "a4"]
        two = 2 * (len(author.head().task) + self.added)
        assert words(await remembered(store, context, max_bytes=two)) == ["q3", "a3", "q4", "a4"]
        assert len(await (await remembered(store, context, limit=3)).tasks()) == 3
        assert len(await (await remembered(store, context, max_bytes=2_500)).tasks()) == 2
        (newest,) = await (await remembered(store, context, max_bytes=10)).tasks()
        assert newest.history[0].parts[0].text == "q4"
        assert words(await remembered(store, context, max_bytes=5)) == []

    @pytest.mark.req("AGNT-06")
    async def test_tasks_of_a_context_share_values_by_their_names(self, store: Store) -> None:
        context = fresh("context")
        one = await Author(store, context_id=context).start(remember={"a": b"1", "b": b"2"})
        two = await Author(store, context_id=context).create()
        memory = await remembered(store, context)
        assert memory.state() == {"a": b"1", "b": b"2"}
        await two.chunk("x", remember={"b": b"3", "c": b"4", "\0": b""})
        await one.commit(one.write(remember={"a": None, "gone": None}))
        assert (await remembered(store, context)).state() == {"b": b"3", "c": b"4", "\0": b""}
        await store.close()
        await store.open()
        assert (await remembered(store, context)).state() == {"b": b"3", "c": b"4", "\0": b""}

    @pytest.mark.req("AGNT-06", "DURA-03")
    async def test_a_write_that_is_refused_changes_no_context(self, store: Store) -> None:
        context = fresh("context")
        author = await Author(store, context_id=context).start(remember={"a": b"1"})
        with pytest.raises(StaleWrite):
            await store.commit(author.write(expected=7, remember={"a": b"2"}, claim=HERE))
        assert (await remembered(store, context)).state() == {"a": b"1"}

    @pytest.mark.req("AGNT-06")
    async def test_a_task_that_moved_to_another_state_is_where_it_belongs(self, store: Store) -> None:
        context = fresh("context")
        first, second = speaker(store, context, 1_000, "first"), speaker(store, context, 2_000, "second")
        await first.create()
        await second.create()
        await first.become(COMPLETED, 3_000)
        assert words(await remembered(store, context)) == ["second", "first"]
