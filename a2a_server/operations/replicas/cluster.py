"""What a server does because of the others that share its store (spec: DURA-04, SCAL-01).

1. It keeps its session alive. When that is over, it gives up its turns.
2. It answers the letters of other sessions.
3. A few times per second it looks for turns that nobody has any more, and for events of which no wake-up told it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from a2a_server.operations.replicas.elsewhere import TurnsElsewhere
from a2a_server.operations.replicas.letters import LOOK
from a2a_server.operations.replicas.session import lost_touch
from a2a_server.operations.services import Services
from a2a_server.operations.turns.recovery import Recovery
from a2a_server.operations.turns.registry import LiveTurns
from a2a_server.operations.turns.sending import Sending
from a2a_server.ports.replicas import Replicas
from a2a_server.ports.store import StoreUnavailable

logger = structlog.get_logger()


class Cluster:
    """One of several servers on one store."""

    def __init__(
        self, replicas: Replicas, services: Services, live_turns: LiveTurns, recovery: Recovery, sending: Sending
    ) -> None:
        self._replicas = replicas
        self._services = services
        self._live_turns = live_turns
        self._recovery = recovery
        grace = max(served.limits.cancel_grace for served in services.agents)
        self.elsewhere = TurnsElsewhere(replicas, services.session, services.log, live_turns, sending.join, grace)
        sending.elsewhere = self.elsewhere
        self._looking: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin the session. Takeovers begin with it."""
        await self._services.session.begin(self._lost)
        self.elsewhere.start()
        for look in (self._recovery.settle, self._look):
            self._looking.append(asyncio.create_task(_keep_looking(look), name="cluster"))

    async def stop_looking(self) -> None:
        """Take nothing over any more."""
        for task in self._looking:
            task.cancel()
        await asyncio.gather(*self._looking, return_exceptions=True)

    async def leave(self) -> None:
        """Hand over what is not finished."""
        await self.elsewhere.stop()
        await self._services.session.end()

    def _lost(self) -> None:
        for live in self._live_turns:
            live.give_up(lost_touch())

    async def _look(self) -> None:
        await self._services.log.look(self._replicas, lambda task_id: self._live_turns.find(task_id) is not None)


async def _keep_looking(look: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(LOOK)
        try:
            await look()
        except StoreUnavailable:
            logger.warning("store.unavailable", during="looking for what others have left or written")
        except Exception:
            logger.exception("cluster.look_failed")  # the next look may succeed
