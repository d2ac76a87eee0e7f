"""Tasks that take their first step at once: for the coroutine they must be like any other task."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import pytest

from a2a_server.operations import first_step
from a2a_server.operations.first_step import Adopt, Steps
from a2a_server.operations.standby import Standby

pytestmark = pytest.mark.req("EXEC-01")

VARIABLE = ContextVar("VARIABLE", default="unset")

Begin = Callable[[Steps, Adopt], None]
Started = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


@pytest.fixture(params=["its own", "one that stood by"])
async def begin(request: pytest.FixtureRequest) -> AsyncIterator[Begin]:
    """What begins a turn, in a task of its own or in one that has served before."""
    if request.param == "its own":
        yield first_step.begin
    else:
        standby = await ready()
        yield standby.begin
        standby.close()


@pytest.fixture
def started(begin: Begin) -> Started:
    def start(steps: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        tasks: list[asyncio.Task[None] | None] = []
        begin(steps, tasks.append)
        assert tasks[0] is not None
        return tasks[0]

    return start


async def nothing() -> None:
    """A turn that has nothing to do."""


async def ready() -> Standby:
    """A task stands by from the turn of the loop on that follows the first beginning."""
    standby = Standby()
    standby.begin(nothing(), lambda _: None)
    await asyncio.sleep(0)
    assert lent(standby, nothing()) == lent(standby, nothing())
    return standby


def lent(standby: Standby, steps: Coroutine[Any, Any, None]) -> int:
    """The identity of the task in whose name the steps are taken; whoever keeps the task itself has it for good."""
    tasks: list[int] = []
    standby.begin(steps, lambda task: tasks.append(id(task)))
    return tasks[0]


def all_ids() -> set[int]:
    return set(map(id, asyncio.all_tasks()))


async def test_what_needs_no_waiting_is_done_at_once(begin: Begin) -> None:
    seen = []

    async def steps() -> None:
        seen.append("done")

    begin(steps(), lambda _: None)
    assert seen == ["done"]


async def test_the_task_is_the_same_in_all_steps_and_the_starter_gets_its_own_back(started: Started) -> None:
    seen: list[asyncio.Task[Any] | None] = []

    async def steps() -> None:
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())

    before = asyncio.current_task()
    task = started(steps())
    assert asyncio.current_task() is before
    await task
    assert seen == [task, task]
    assert task is not before


async def test_beginnings_nest(begin: Begin, started: Started) -> None:
    seen: list[asyncio.Task[Any] | None] = []

    async def inner() -> None:
        seen.append(asyncio.current_task())

    async def outer() -> None:
        begin(inner(), lambda _: None)
        seen.append(asyncio.current_task())

    task = started(outer())
    await task
    assert seen[1] is task
    assert seen[0] is not task


async def test_it_begins_where_no_task_runs(started: Started) -> None:
    loop, seen = asyncio.get_running_loop(), loop_future()

    async def steps() -> None:
        seen.set_result(asyncio.current_task())

    loop.call_soon(lambda: started(steps()))
    assert await seen is not None


def loop_future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


async def test_it_waits_and_goes_on_with_what_it_waited_for(started: Started) -> None:
    seen, first, second = [], loop_future(), loop_future()

    async def steps() -> None:
        seen.append(await first)
        await asyncio.sleep(0)
        seen.append(await second)

    task = started(steps())
    first.set_result("one")  # before the loop has turned
    await asyncio.sleep(0.001)
    second.set_result("two")
    await task
    assert seen == ["one", "two"]


async def test_errors_of_what_it_waits_for_reach_it(started: Started) -> None:
    seen, gate = [], loop_future()

    async def steps() -> None:
        try:
            await gate
        except ValueError as error:
            seen.append(str(error))

    task = started(steps())
    await asyncio.sleep(0)
    gate.set_exception(ValueError("bad"))
    await task
    assert seen == ["bad"]


@pytest.mark.parametrize("turns", [0, 1, 2])
@pytest.mark.parametrize("waits", ["future", "shielded", "sleep"])
async def test_a_cancel_hits_it_and_not_its_starter_however_early(started: Started, turns: int, waits: str) -> None:
    seen, gate = [], loop_future()

    async def steps() -> None:
        try:
            if waits == "future":
                await gate
            elif waits == "shielded":
                await asyncio.shield(gate)
            else:
                while True:  # noqa: ASYNC110 - a bare yield is the point
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            seen.append("canceled")
            await asyncio.sleep(0)
            seen.append("cleaned up")
            raise

    task = started(steps())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["canceled", "cleaned up"]
    starter = asyncio.current_task()
    assert starter is not None
    assert starter.cancelling() == 0


async def test_time_limits_and_groups_work_from_the_first_step_on(started: Started) -> None:
    seen = []

    async def never() -> None:
        await loop_future()

    async def fails() -> None:
        raise ValueError("bad")

    async def steps() -> None:
        try:
            async with asyncio.timeout(0.01):
                await never()
        except TimeoutError:
            seen.append("late")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fails())
                await never()
        except* ValueError:
            seen.append("failed")

    await started(steps())
    assert seen == ["late", "failed"]


async def test_its_context_begins_as_the_starters_and_is_its_own(started: Started) -> None:
    seen = []

    async def steps() -> None:
        seen.append(VARIABLE.get())
        token = VARIABLE.set("mine")
        await asyncio.sleep(0)
        seen.append(VARIABLE.get())
        VARIABLE.reset(token)
        seen.append(VARIABLE.get())

    VARIABLE.set("starter's")
    task = started(steps())
    assert VARIABLE.get() == "starter's"
    await task
    assert seen == ["starter's", "mine", "starter's"]


async def test_what_it_raises_is_the_tasks(started: Started) -> None:
    async def steps() -> None:
        await asyncio.sleep(0)
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        await started(steps())


async def test_whoever_cancels_itself_and_returns_is_over_all_the_same(started: Started) -> None:
    seen = []

    async def steps() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        seen.append("returned")

    task = started(steps())
    await asyncio.wait([task])
    assert (seen, task.done()) == (["returned"], True)


# -- a task that stands by


async def test_turns_of_one_step_share_a_task() -> None:
    standby = await ready()
    before = all_ids()
    tasks = {lent(standby, nothing()) for _ in range(5)}
    assert len(tasks) == 1
    assert tasks < before
    assert all_ids() == before
    standby.close()


async def test_who_takes_a_second_step_keeps_the_task_and_the_next_gets_another() -> None:
    standby, gate = await ready(), loop_future()

    async def steps() -> None:
        await gate

    mine = lent(standby, steps())
    for _ in range(3):
        assert lent(standby, nothing()) != mine
        await asyncio.sleep(0)
    assert mine in all_ids()
    gate.set_result(None)
    await asyncio.sleep(0.001)
    assert mine not in all_ids()
    assert lent(standby, nothing()) == lent(standby, nothing())
    standby.close()


async def test_a_task_that_was_lent_is_taken_back() -> None:
    standby = await ready()
    shown: list[bool] = []
    standby.begin(nothing(), lambda task: shown.append(task is not None))
    assert shown == [True, False]
    standby.close()


async def _keep(task: asyncio.Task[None], kept: list[Any]) -> None:
    kept.append(task)


async def _watch(task: asyncio.Task[None], kept: list[Any]) -> None:
    kept.append(weakref.ref(task))


async def _call_back(task: asyncio.Task[None], kept: list[Any]) -> None:
    task.add_done_callback(lambda done: kept.append(done.done()))


async def _name(task: asyncio.Task[None], _: list[Any]) -> None:
    task.set_name("mine")


async def _write(task: asyncio.Task[None], _: list[Any]) -> None:
    task.mood = "fine"  # type: ignore[attr-defined]


async def _cancel(task: asyncio.Task[None], _: list[Any]) -> None:
    task.cancel()


async def _cancel_and_take_back(task: asyncio.Task[None], _: list[Any]) -> None:
    task.cancel()
    task.uncancel()


@pytest.mark.parametrize("deed", [_keep, _watch, _call_back, _name, _write, _cancel, _cancel_and_take_back])
async def test_a_task_that_a_turn_has_left_something_at_is_not_lent_again(
    deed: Callable[[asyncio.Task[None], list[Any]], Coroutine[Any, Any, None]],
) -> None:
    standby, kept = await ready(), list[Any]()

    async def steps() -> None:
        task = asyncio.current_task()
        assert task is not None
        await deed(task, kept)

    mine = lent(standby, steps())
    assert mine in all_ids()
    assert lent(standby, nothing()) != mine
    (task,) = [task for task in asyncio.all_tasks() if id(task) == mine]
    await asyncio.wait([task], timeout=1)
    assert task.done()
    if deed is _call_back:
        await asyncio.sleep(0)
        assert kept == [True]
    standby.close()


async def test_an_error_that_nobody_handles_leaves_no_task_behind() -> None:
    standby = await ready()
    before = all_ids()

    async def steps() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        standby.begin(steps(), lambda _: None)
    await asyncio.sleep(0)
    assert len(all_ids()) == len(before) - 1
    standby.close()


async def test_beginnings_within_a_lent_task_get_tasks_of_their_own() -> None:
    standby, inner = await ready(), list[int]()

    async def steps() -> None:
        inner.extend([lent(standby, nothing()), id(asyncio.current_task())])

    outer = lent(standby, steps())
    assert inner[0] != outer
    assert inner[1] == outer
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 2  # one stands by, and this one
    standby.close()


async def test_contexts_do_not_outlive_their_turn() -> None:
    standby, seen = await ready(), []

    async def steps() -> None:
        seen.append(VARIABLE.get())
        VARIABLE.set("mine")

    VARIABLE.set("starter's")
    lent(standby, steps())
    lent(standby, steps())
    assert seen == ["starter's", "starter's"]
    standby.close()


async def test_nobody_stands_by_when_the_server_has_stopped() -> None:
    standby = await ready()
    standby.close()
    lent(standby, nothing())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_turn_that_is_over_is_not_kept() -> None:
    standby = await ready()
    coroutine = nothing()
    gone = weakref.ref(coroutine)
    lent(standby, coroutine)
    del coroutine
    gc.collect()
    assert gone() is None
    standby.close()
