"""Keeps an agent's lifespan open while a server runs (spec: AGNT-07).

It has an asyncio task of its own: what is opened is closed in the same task, as cancel scopes want it, and one that
hangs holds up neither a signal nor the stop.
"""

from __future__ import annotations

import asyncio

import structlog

from a2a_server.ports.agent import AgentPort, HasLifespan

log = structlog.get_logger(__name__)

_REMINDER = 10.0
"""After how many seconds the log says, again and again, that the server waits."""
_LEAST = 0.5
"""How long closing may take at least, in seconds, also when turns have used up the grace period."""
_LAST_STEPS = 0.25


class LifespanFailed(Exception):  # noqa: N818 - a verdict on the agent
    """The agent could not open what it needs. Its `__cause__` is what the author's code raised."""


class AgentLife:
    """One agent, while one server runs."""

    def __init__(self, agent: AgentPort | HasLifespan, grace: float, tenant: str = "") -> None:
        """`tenant` tells it from the other agents, if there are some."""
        self._agent = agent
        self._what = f'the lifespan of the agent "{tenant}"' if tenant else "the agent's lifespan"
        self._grace = grace
        self._until: float | None = None
        self._stop = asyncio.Event()
        self._opened: asyncio.Future[AgentPort] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> AgentPort:
        """The agent whose turns have what the lifespan yields."""
        if not isinstance(self._agent, HasLifespan):
            return self._agent
        loop = asyncio.get_running_loop()
        self._task, began = loop.create_task(self._live(self._agent)), loop.time()
        while not (await asyncio.wait([self._opened], timeout=_REMINDER))[0]:
            log.warning("agent.opening", waits_for=self._what, seconds=round(loop.time() - began))
        return self._opened.result()

    def draining(self) -> None:
        """The grace period begins. Closing has what is left of it."""
        self._until = asyncio.get_running_loop().time() + self._grace

    async def close(self) -> None:
        if self._task is None:
            return
        self._stop.set()
        if not self._opened.done():
            self._task.cancel()
        left = self._grace if self._until is None else self._until - asyncio.get_running_loop().time()
        if not (await asyncio.wait([self._task], timeout=max(left, _LEAST)))[0]:
            log.warning("agent.closing_gave_up", why=f"{self._what} does not end", seconds=max(left, _LEAST))
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_LAST_STEPS)

    async def _live(self, agent: HasLifespan) -> None:
        try:
            async with agent.living() as living:
                self._opened.set_result(living)
                await self._stop.wait()
        except BaseException as error:
            if self._opened.done():
                log.exception("agent.closing_failed")
                return
            failure = LifespanFailed(f"{self._what} failed")
            failure.__cause__ = error
            self._opened.set_exception(failure)
            self._opened.exception()  # the start may have been given up
