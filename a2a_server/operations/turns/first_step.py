"""A task that takes its first step at once, in the midst of whoever starts it (spec: EXEC-01).

Most turns end in their first step. Taken here and now, what they have said is there when the starter goes on, and
nobody has to be woken. An agent notices nothing: `asyncio.current_task()` is the task that goes on with the second
step, that has a context of its own, and that a cancel hits. (Python 3.12 has eager tasks for this.)
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task  # documented, in "Extending"
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from typing import Any, Final

Steps = Coroutine[Any, Any, None]

_OVER: Final = object()


def begin(steps: Steps, adopt: Callable[[asyncio.Task[None]], None]) -> None:
    """Run a coroutine to where it first waits, or to its end; its task, which is shown before, does the rest."""
    loop = asyncio.get_running_loop()
    starter = asyncio.current_task(loop)
    context = copy_context()
    waits_for: list[Any] = []
    rest = _carry_on(steps, waits_for)
    task = asyncio.Task(rest, loop=loop, name="turn", context=context)
    adopt(task)
    if starter is not None:
        _leave_task(loop, starter)
    _enter_task(loop, task)
    try:
        if (wanted := context.run(_first, steps)) is not _OVER:
            waits_for.append(wanted)
            rest.send(None)  # or a cancel that comes before the loop turns would end it unbegun
    finally:
        _leave_task(loop, task)
        if starter is not None:
            _enter_task(loop, starter)


def _first(steps: Steps) -> Any:  # noqa: ANN401 - whatever the loop knows
    """What a coroutine waits for first, or _OVER: `send` would raise that, for the price of five such calls."""
    return next(steps.__await__(), _OVER)


async def _carry_on(steps: Steps, waits_for: list[Any]) -> None:
    """What is left of the coroutine when it has taken its first step, and waits for something; else nothing."""
    if waits_for:
        await _Rest(steps, waits_for.pop())  # or it would be kept as long as the turn


class _Rest:
    """All steps but the first, with a pause in front of them: up to there by hand, from there on by the task."""

    __slots__ = ("_steps", "_waits_for")

    def __init__(self, steps: Steps, waits_for: Any) -> None:  # noqa: ANN401 - whatever the loop knows
        self._steps = steps
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, None]:
        steps, waits_for, self._waits_for = self._steps, self._waits_for, None
        try:
            try:
                yield
            except asyncio.CancelledError as canceled:
                # By whoever was faster than the loop. The task does not know yet what it waits for, and we do.
                if waits_for is None or not waits_for.cancel(*canceled.args):
                    waits_for = steps.throw(canceled)
            while True:
                try:
                    sent = yield waits_for
                except BaseException as error:  # noqa: BLE001 - whatever it is, it is for the coroutine
                    waits_for = steps.throw(error)
                else:
                    waits_for = steps.send(sent)
        except StopIteration:
            return
