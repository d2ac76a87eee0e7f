"""Promises about lists: order, filters, paging, totals (spec: LIST)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.store import Store, TaskPage, TaskQuery
from tests.conformance.authors import (
    ANN,
    ANN_ELSEWHERE,
    ASKING,
    BOB,
    COMPLETED,
    HERE,
    WORKING,
    Author,
    fresh,
)
from tests.support.house import Position, Scope, TaskFilter

EVERYTHING = TaskFilter()

# One store serves all examples, each in a scope of its own; and each engine's class calls the same test.
walks = settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)


async def page(
    store: Store,
    scope: Scope = ANN,
    wanted: TaskFilter = EVERYTHING,
    after: Position | None = None,
    limit: int = 100,
) -> TaskPage:
    return await store.page(TaskQuery(scope, wanted, after, limit, include_artifacts=False))


async def ids(store: Store, scope: Scope = ANN, wanted: TaskFilter = EVERYTHING) -> list[str]:
    return [task.id for task in (await page(store, scope, wanted)).tasks]


@dataclass(frozen=True)
class Step:
    """One thing that happens to one of a few tasks: it is created, or gets another status."""

    task: int
    state: int
    status_ms: int
    context: int


steps = st.lists(
    st.builds(
        Step,
        task=st.integers(0, 9),
        state=st.sampled_from([WORKING, COMPLETED, ASKING]),
        status_ms=st.integers(1, 4),
        context=st.integers(0, 1),
    ),
    max_size=24,
)
filters = st.builds(
    TaskFilter,
    context_id=st.sampled_from(["", "context-0", "context-1", "context-2"]),
    state=st.sampled_from([0, WORKING, COMPLETED, ASKING]),
    since_ms=st.none() | st.integers(0, 5),
)


class ListPromises:
    added = 0
    """How many bytes a stored value has more than what was written."""

    @pytest.mark.req("LIST-05")
    async def test_the_newest_status_comes_first(self, store: Store) -> None:
        tasks = [await Author(store, status_ms=ms).create() for ms in (2_000, 1_000, 3_000)]
        assert await ids(store) == [tasks[2].task_id, tasks[0].task_id, tasks[1].task_id]
        await tasks[1].become(COMPLETED, 4_000)
        assert (await ids(store))[0] == tasks[1].task_id

    @pytest.mark.req("LIST-06")
    async def test_equal_times_are_ordered_by_id(self, store: Store) -> None:
        names = ["b", "a", "Z", "é", "z", "\U0001f600", "0"]
        for name in names:
            await Author(store, name).create()
        assert await ids(store) == sorted(names, reverse=True)

    @pytest.mark.req("LIST-01", "AUTZ-03", "TENA-05")
    async def test_lists_and_totals_end_at_the_scope(self, store: Store) -> None:
        await Author(store).create()
        mine = await Author(store, scope=BOB).create()
        await Author(store, scope=ANN_ELSEWHERE).create()
        result = await page(store, BOB)
        assert ([task.id for task in result.tasks], result.total) == ([mine.task_id], 1)
        assert await page(store, Scope("acme", "nobody")) == TaskPage([], 0, more=False)

    @pytest.mark.req("LIST-02")
    async def test_filters_combine(self, store: Store) -> None:
        one = await Author(store, "1", context_id="x", state=WORKING).create()
        await Author(store, "2", context_id="x", state=COMPLETED).create()
        await Author(store, "3", context_id="y", state=WORKING).create()
        assert await ids(store, ANN, TaskFilter("x")) == ["2", "1"]
        assert await ids(store, ANN, TaskFilter(state=WORKING)) == ["3", "1"]
        assert await ids(store, ANN, TaskFilter("x", WORKING)) == ["1"]
        await one.become(COMPLETED)
        assert await ids(store, ANN, TaskFilter("x", WORKING)) == []
        assert (await page(store, ANN, TaskFilter(state=COMPLETED))).total == 2

    @pytest.mark.req("LIST-03")
    async def test_a_time_includes_itself(self, store: Store) -> None:
        for ms in (1_000, 2_000, 3_000):
            await Author(store, str(ms), status_ms=ms).create()
        result = await page(store, ANN, TaskFilter(since_ms=2_000))
        assert ([task.id for task in result.tasks], result.total) == (["3000", "2000"], 2)

    @pytest.mark.req("LIST-11")
    async def test_the_total_counts_all_pages(self, store: Store) -> None:
        for number in range(5):
            await Author(store, str(number), status_ms=number).create()
        result = await page(store, after=Position(3, "3"), limit=2)
        assert ([task.id for task in result.tasks], result.total) == (["2", "1"], 5)

    async def test_a_position_need_not_be_a_task(self, store: Store) -> None:
        for number in (1, 2, 4):
            await Author(store, str(number), status_ms=number).create()
        assert [task.id for task in (await page(store, after=Position(3, "gone"))).tasks] == ["2", "1"]

    async def test_artifacts_are_listed_when_asked_for(self, store: Store) -> None:
        author = await Author(store).create()
        await author.chunk("tail")
        with_artifacts = await store.page(TaskQuery(ANN, EVERYTHING, None, 10, include_artifacts=True))
        assert list(with_artifacts.tasks) == [(await author.load()).task]
        assert list((await page(store)).tasks) == [author.task()]

    @pytest.mark.req("LIST-07", "LIST-11")
    async def test_a_page_ends_before_it_would_have_too_many_bytes(self, store: Store) -> None:
        """Of artifacts that are stored as a whole, and of chunks that follow."""
        scope = Scope("acme", fresh("walker"))
        authors = [await Author(store, str(ms), scope=scope, status_ms=ms).create() for ms in (5, 4, 3, 2, 1)]
        for author, shelved in zip(authors, (900, 900, 0, 0, 70_000), strict=True):
            whole = pb.Task(artifacts=[pb.Artifact(artifact_id="a", parts=[pb.Part(text="x" * shelved)])])
            await author.chunk("x" * shelved, artifacts=whole.SerializeToString())
        await authors[2].chunk("x" * 900)
        sizes = {author.task_id: len((await author.load()).task.SerializeToString()) for author in authors}
        two, some = sizes["5"] + sizes["4"] + 4 * self.added, 2_100 + 4 * self.added

        async def pages(max_bytes: int, *, artifacts: bool = True) -> list[list[str]]:
            walked: list[list[str]] = []
            after = None
            while True:
                found = await store.page(TaskQuery(scope, EVERYTHING, after, 4, artifacts, max_bytes))
                assert found.total == 5
                walked.append([task.id for task in found.tasks])
                assert [len(task.artifacts) for task in found.tasks] == [artifacts] * len(found.tasks)
                if not found.more:
                    return walked
                after = Position(int(walked[-1][-1]), walked[-1][-1])

        assert await pages(some) == [["5", "4"], ["3", "2"], ["1"]]
        assert await pages(two) == [["5", "4"], ["3", "2"], ["1"]]
        assert await pages(two - 1) == [["5"], ["4"], ["3", "2"], ["1"]]
        assert await pages(1) == [["5"], ["4"], ["3"], ["2"], ["1"]]
        assert await pages(100_000) == [["5", "4", "3", "2"], ["1"]]
        assert await pages(some, artifacts=False) == [["5", "4", "3", "2"], ["1"]]

    @pytest.mark.req("LIST-11")
    async def test_a_page_without_artifacts_has_a_bound_as_well(self, store: Store) -> None:
        scope = Scope("acme", fresh("walker"))
        authors = [await Author(store, str(ms), scope=scope, status_ms=ms).create() for ms in (3, 2, 1)]
        both = sum(len(author.task().SerializeToString()) + self.added for author in authors[:2])
        for most, shown in ((both, ["3", "2"]), (both - 1, ["3"])):
            found = await store.page(TaskQuery(scope, EVERYTHING, None, 10, include_artifacts=False, max_bytes=most))
            assert ([task.id for task in found.tasks], found.total, found.more) == (shown, 3, True)

    @walks
    @given(history=steps, wanted=filters, size=st.integers(1, 5))
    @pytest.mark.req("LIST-02", "LIST-03", "LIST-05", "LIST-06", "LIST-11")
    async def test_walks_agree_with_a_naive_model(
        self, store: Store, history: list[Step], wanted: TaskFilter, size: int
    ) -> None:
        scope = Scope("acme", fresh("walker"))
        tasks = await _lived(store, scope, history)
        passing = [
            (task.status_ms, task.task_id)
            for task in tasks
            if wanted.context_id in {"", task.context_id}
            and wanted.state in {0, task.state}
            and (wanted.since_ms is None or task.status_ms >= wanted.since_ms)
        ]
        walked: list[tuple[int, str]] = []
        while True:
            after = Position(*walked[-1]) if walked else None
            result = await page(store, scope, wanted, after, size)
            assert result.total == len(passing)
            assert len(result.tasks) == min(size, len(passing) - len(walked))
            assert result.more == (len(walked) + len(result.tasks) < len(passing))
            if not result.tasks:
                break
            walked += [(task.status.timestamp.ToMilliseconds(), task.id) for task in result.tasks]
        assert walked == sorted(passing, reverse=True)

    # -- what has waited too long

    async def test_waiting_tasks_come_oldest_first_whoever_owns_them(self, store: Store) -> None:
        for name, scope, ms in (("a", ANN, 3_000), ("b", BOB, 1_000), ("c", ANN_ELSEWHERE, 2_000), ("d", ANN, 4_000)):
            await Author(store, name, scope, state=ASKING, status_ms=ms).create()
        await Author(store, "e", state=WORKING, status_ms=500).create()
        waiting = await store.waiting_since(ASKING, 4_000, 10)
        assert list(waiting) == [(BOB, "b"), (ANN_ELSEWHERE, "c"), (ANN, "a")]
        assert list(await store.waiting_since(ASKING, 4_000, 2)) == [(BOB, "b"), (ANN_ELSEWHERE, "c")]

    async def test_only_who_was_asked_waits(self, store: Store) -> None:
        for state in (WORKING, COMPLETED):
            await Author(store, state=state).create()
            assert list(await store.waiting_since(state, 9_000, 10)) == []

    async def test_a_task_with_a_live_turn_does_not_wait(self, store: Store) -> None:
        author = await Author(store, state=ASKING).start(HERE)
        assert list(await store.waiting_since(ASKING, 9_000, 10)) == []
        await author.commit(author.write(end=[1]))
        assert list(await store.waiting_since(ASKING, 9_000, 10)) == [(ANN, author.task_id)]
        await author.become(COMPLETED)
        assert list(await store.waiting_since(ASKING, 9_000, 10)) == []


async def _lived(store: Store, scope: Scope, history: list[Step]) -> list[Author]:
    authors: dict[int, Author] = {}
    names = [fresh("walked") for _ in range(10)]
    for step in history:
        if author := authors.get(step.task):
            await author.become(step.state, step.status_ms)
        else:
            author = Author(store, names[step.task], scope, f"context-{step.context}", step.state, step.status_ms)
            authors[step.task] = await author.create()
    return list(authors.values())
