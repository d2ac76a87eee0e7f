"""Tasks that take their first step at once: for the coroutine they must be like any other task."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

import pytest

from a2a_server.operations.turns.first_step import begin

pytestmark = pytest.mark.req("EXEC-01")

VARIABLE = ContextVar("VARIABLE", default="unset")


def started(steps: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    tasks: list[asyncio.Task[None]] = []
    begin(steps, tasks.append)
    (task,) = tasks
    return task


async def test_what_needs_no_waiting_is_done_at_once() -> None:
    seen = []

    async def steps() -> None:
        seen.append("done")

    task = started(steps())
    assert seen == ["done"]
    await task


async def test_the_task_is_the_same_in_all_steps_and_the_starter_gets_its_own_back() -> None:
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


async def test_beginnings_nest() -> None:
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


async def test_it_begins_where_no_task_runs() -> None:
    loop, seen = asyncio.get_running_loop(), loop_future()

    async def steps() -> None:
        seen.set_result(asyncio.current_task())

    loop.call_soon(lambda: started(steps()))
    assert await seen is not None


def loop_future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


async def test_it_waits_and_goes_on_with_what_it_waited_for() -> None:
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


async def test_errors_of_what_it_waits_for_reach_it() -> None:
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
async def test_a_cancel_hits_it_and_not_its_starter_however_early(turns: int, waits: str) -> None:
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


def finish(gate: asyncio.Future[Any], result: object) -> weakref.ref[object]:
    gate.set_result(result)
    return weakref.ref(result)


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_a_cancel_says_why_however_early(turns: int) -> None:
    """By that text libraries tell their own cancels from those of others."""
    seen: list[Any] = []

    async def steps() -> None:
        try:
            await loop_future()
        except asyncio.CancelledError as canceled:
            seen.extend(canceled.args)
            raise

    task = started(steps())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel("because")
    await asyncio.wait([task])
    assert seen == ["because"]


async def test_what_it_waited_for_first_is_not_kept_for_as_long_as_it_works() -> None:
    class Loaded:
        """As large as a model may be."""

    gates, later = [loop_future()], loop_future()

    async def steps() -> None:
        await gates[0]
        await later

    task = started(steps())
    kept = finish(gates.pop(), Loaded())
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()
    assert kept() is None
    later.set_result(None)
    await task


async def test_time_limits_and_groups_work_from_the_first_step_on() -> None:
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


async def test_its_context_begins_as_the_starters_and_is_its_own() -> None:
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


async def test_what_it_raises_is_the_tasks() -> None:
    async def steps() -> None:
        await asyncio.sleep(0)
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        await started(steps())


async def test_whoever_cancels_itself_and_returns_is_over_all_the_same() -> None:
    seen = []

    async def steps() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        seen.append("returned")

    task = started(steps())
    await asyncio.wait([task])
    assert (seen, task.done()) == (["returned"], True)
