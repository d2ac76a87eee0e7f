"""This server's session: alive as long as it can say so to the store in time (spec: DURA-03, DURA-04, SCAL-03).

1. The session's id is a public key, so that letters to it can be sealed for this process alone.
2. Heartbeats keep it alive. The store's clock says when it is over; our own clock says so a little earlier.
3. When it is over, all turns here are given up: others may run them by now. A new session begins at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from math import inf

import structlog
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from a2a_server.ports.replicas import Replicas
from a2a_server.ports.store import StoreUnavailable
from a2a_server.protocol.errors import A2AError, Reason

logger = structlog.get_logger()

_BEATS = 4
"""Heartbeats in the time that one of them lasts."""
_EARLY = 0.1
"""The part of that time by which our own clock ends the session before the store's does."""
_RETRY = 0.25


class Session:
    """The right of this server to run turns. Without `replicas` nobody can take it away."""

    def __init__(self, replicas: Replicas | None = None, seconds: float = 10.0, address: str = "") -> None:
        """`address` is where other servers reach this one, if they do."""
        self._replicas = replicas
        self._address = address
        self._seconds = seconds
        self._beating: asyncio.Task[None] | None = None
        self.key = X25519PrivateKey.generate()
        self.id = _id_of(self.key)
        self.until = inf if replicas is None else 0.0
        """When it is over by our own clock, `time.monotonic`; 0 if the store does not know of it.

        No new work may begin after that. A server that was stopped sees at once that it was for too long.
        """

    async def begin(self, on_lost: Callable[[], None]) -> None:
        """Begin, and keep alive. Whenever the session is over, `on_lost` is called, and a new one begins."""
        if self._replicas is not None:
            await self._beat(self._replicas)
            self._beating = asyncio.create_task(self._keep(self._replicas, on_lost), name="session")

    async def end(self) -> None:
        """Leave what is not finished to others, at once."""
        if self._beating is None or self._replicas is None:
            return
        self._beating.cancel()
        await asyncio.gather(self._beating, return_exceptions=True)
        try:
            await self._replicas.end_session(self.id)
        except StoreUnavailable:
            logger.warning("store.unavailable", during="the end of the session")

    async def _keep(self, replicas: Replicas, on_lost: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(self._seconds / _BEATS if self.until else _RETRY)
            lived = self.until
            if not await self._beat(replicas) and lived:
                logger.warning("session.lost", session=self.id)
                on_lost()
                self.key = X25519PrivateKey.generate()
                self.id = _id_of(self.key)

    async def _beat(self, replicas: Replicas) -> bool:
        """Whether the session lives on."""
        if not await self._said(replicas):
            self.until = 0.0
        return self.until > 0

    async def _said(self, replicas: Replicas) -> bool:
        """Say that it lives, and return whether it does. While it may, a store that is away is asked again."""
        now = time.monotonic
        while True:
            asked = now()
            patience = self.until - asked if self.until else self._seconds
            try:
                async with asyncio.timeout(max(patience, 0)):
                    known = await replicas.beat(self.id, self._seconds, self._address)
            except TimeoutError:
                return False
            except StoreUnavailable:
                known = None
            if known is not None:
                self.until = asked + self._seconds * (1 - _EARLY)
                return known and now() < self.until
            if not self.until or now() + _RETRY >= self.until:
                return False
            await asyncio.sleep(_RETRY)


def _id_of(key: X25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def lost_touch() -> A2AError:
    """What clients hear of turns that were given up, and while no new ones can begin."""
    text = "The server has lost touch with its database. Another one goes on with the task; get it or subscribe to it."
    return A2AError(Reason.UNAVAILABLE, text, retry_after=1)
