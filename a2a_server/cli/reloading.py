"""Restarts the server when the agent's code changes: `a2ad serve --reload` (spec: AGNT-09).

1. One worker serves, under a `Supervisor`. Another one, its successor, has imported all but the agent, which is most of
   a start.
2. When a file of `AgentCode` changes, or at SIGHUP, the successor reads settings and agent. If it cannot, it says why
   and ends, and the worker goes on.
3. The worker drains and ends, as at every stop. The successor begins only then, because a store in a file is for one
   process. Connections that are made in between are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

import click
import structlog

from a2a_server.cli.agent_code import AgentCode
from a2a_server.cli.loading import PROGRAM
from a2a_server.cli.supervisor import Supervisor, supervise
from a2a_server.cli.worker import BEGIN, LOAD, STOP, Worker
from a2a_server.settings import Settings

log = structlog.get_logger(__name__)


def serve_reloading(settings: Settings, read: Callable[[], Settings]) -> None:
    """Serve until a signal comes. `read` reads the settings anew."""
    if settings.workers > 1:
        raise click.UsageError(f"--reload: is for one process, and workers = {settings.workers}; choose one of them")
    if settings.store == "memory:":
        raise click.UsageError("--reload: each change would lose the tasks in memory; use --store sqlite:///a2a.db")
    if settings.agent.startswith(PROGRAM):
        raise click.UsageError("--reload: a program needs none, because each turn starts it anew")
    supervise(settings, read, Developed)


class Developed(Supervisor):
    """The one worker of an agent whose code changes, and its successor."""

    option = "--reload"
    develops = True

    def __init__(self, settings: Settings, at: Mapping[str, str], read: Callable[[], Settings]) -> None:
        super().__init__(settings, at, read)
        self._code = AgentCode(*([table.agent for table in settings.agents] or [settings.agent]))
        self._next: Worker | None = None

    async def _reload_on_hangup(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._code.watch(self._hangup), name="code")
            await self._prepare()
            await super()._reload_on_hangup()

    async def _prepare(self) -> None:
        if not self._stop.is_set():
            with suppress(OSError):  # the next reload tries again, and reports it
                self._next = await self._start(1)

    async def _reload(self) -> None:
        """Let the successor serve. A further change of the code comes before whatever a worker does now."""
        self._settings = self._reread()
        new, self._next = self._next, None
        if new is None or new.process.returncode is not None:
            new = await self._start(1)
        try:
            await self._succeed(new)
        finally:
            await self._prepare()

    async def _succeed(self, new: Worker) -> None:
        new.tell(LOAD)
        if not await self._comes(new.loaded):
            new.kill()
            return
        if not new.loaded.result():
            raise click.ClickException(f"the new worker did not start ({new.end}); the old one goes on")
        old, self._workers[1] = self._workers[1], new
        old.tell(STOP)
        await old.ends_within(old.drain_seconds)
        new.tell(BEGIN)
        if await self._comes(new.greeting) and new.greeting.result() is not None:
            log.info("workers.reloaded", workers=1)

    async def _comes(self, answer: asyncio.Future[bool] | asyncio.Future[str | None]) -> bool:
        """Whether an answer comes before the next reason to reload."""
        changed = asyncio.create_task(self._hangup.wait())
        try:
            await asyncio.wait([answer, changed], return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        return answer.done()
