"""A task that stands by, so that a turn of a single step costs none (spec: EXEC-01).

To make a task, schedule it, and find that nothing is left for it to do, takes the twentieth part of a send. So one task
waits, and lends its name to each turn for the first step. If that was all, it waits on; otherwise it goes on with that
turn, as `first_step` has it, and another takes its place. Nothing of a turn may be left at a task that waits on: if an
agent kept it, named it or cancelled it in its step, it ends as its own would have ended.
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task  # documented, in "Extending"
from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from gc import get_referents
from sys import getrefcount
from typing import Any
from weakref import getweakrefcount

from a2a_server.operations.first_step import NAME, OVER, Adopt, Steps, begin, first


class Standby:
    """One per server."""

    def __init__(self) -> None:
        self._waiting: _Understudy | None = None
        self._coming = False
        self._closed = False

    def begin(self, steps: Steps, adopt: Adopt) -> None:
        """Take a coroutine's first step here and now; its task is shown before, and taken back if it was the last."""
        understudy, self._waiting = self._waiting, None
        if understudy is None:
            begin(steps, adopt)
            self._summon()
        elif understudy.begin(steps, adopt):
            self._return(understudy)

    def _summon(self) -> None:
        """Have a task wait from the next turn of the loop on."""
        if not self._coming and not self._closed:
            self._coming = True
            _Understudy(self._arrive)

    def _arrive(self, understudy: _Understudy) -> None:
        self._coming = False
        self._return(understudy)

    def _return(self, understudy: _Understudy) -> None:
        if self._waiting is None and not self._closed:
            self._waiting = understudy
        else:  # beginnings nest
            understudy.dismiss()

    def close(self) -> None:
        self._closed = True
        if self._waiting is not None:
            self._waiting.dismiss()
            self._waiting = None


class _Understudy:
    """A task that waits for a part."""

    def __init__(self, ready: Callable[[_Understudy], None]) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._ready = ready
        self._called: asyncio.Future[None] = loop.create_future()
        self._steps: Steps | None = None
        self._waits_for: Any = None
        self._context = Context()
        self._task = asyncio.Task(self._wait(), loop=loop, name=NAME, context=self._context)

    def begin(self, steps: Steps, adopt: Adopt) -> bool:
        """Take the first step; whether it was the only one, and nothing of it is left here.

        Who keeps the task is counted, and what the task keeps: attributes that were given to it, and callbacks.
        """
        loop, task, context = self._loop, self._task, copy_context()
        before = getrefcount(task), getweakrefcount(task), len(get_referents(task))
        starter = asyncio.current_task(loop)
        adopt(task)
        if starter is not None:
            _leave_task(loop, starter)
        _enter_task(loop, task)
        try:
            waits_for = context.run(first, steps)
        except BaseException:
            self.dismiss()
            raise
        finally:
            _leave_task(loop, task)
            if starter is not None:
                _enter_task(loop, starter)
        if waits_for is OVER:
            adopt(None)
            after = getrefcount(task), getweakrefcount(task), len(get_referents(task))
            if before == after and not self._called.done() and task.get_name() == NAME:
                return True
        else:
            self._steps, self._waits_for, self._context = steps, waits_for, context
        self.dismiss()
        return False

    def dismiss(self) -> None:
        """Let the task go on with what it has begun, or end."""
        if not self._called.done():
            self._called.set_result(None)

    async def _wait(self) -> None:
        self._ready(self)
        canceled: asyncio.CancelledError | None = None
        try:
            await self._called
        except asyncio.CancelledError as error:  # by whoever was faster than the loop
            if self._steps is None:
                raise
            canceled = error
        if self._steps is not None:
            await _Rest(self._steps, self._waits_for, self._context, canceled)


class _Rest:
    """All steps but the first, in their own context."""

    __slots__ = ("_canceled", "_context", "_steps", "_waits_for")

    def __init__(
        self,
        steps: Steps,
        waits_for: Any,  # noqa: ANN401 - whatever the loop knows
        context: Context,
        canceled: asyncio.CancelledError | None,
    ) -> None:
        self._steps = steps
        self._waits_for = waits_for
        self._context = context
        self._canceled = canceled

    def __await__(self) -> Generator[Any, Any, None]:
        steps, waits_for, run = self._steps, self._waits_for, self._context.run
        try:
            # The task does not know what the coroutine waits for, and we do.
            if self._canceled is not None and (waits_for is None or not waits_for.cancel()):
                waits_for = run(steps.throw, self._canceled)
            while True:
                try:
                    sent = yield waits_for
                except BaseException as error:  # noqa: BLE001 - whatever it is, it is for the coroutine
                    waits_for = run(steps.throw, error)
                else:
                    waits_for = run(steps.send, sent)
        except StopIteration:
            return
