"""The port of wake-ups: tells other servers what they follow, and finds those that this one has to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from a2a_server.adapters.peers.door import MOST_PEERS, PeerDoor
from a2a_server.adapters.peers.identity import PeerTls
from a2a_server.adapters.peers.link import PeerLink
from a2a_server.ports.records import Entry
from a2a_server.ports.replicas import Replicas
from a2a_server.ports.store import StoreUnavailable
from a2a_server.ports.wakeups import Listener, Wakeups

log = structlog.get_logger(__name__)

_LOOK: Final = 1.0
"""Seconds between two looks for other servers."""
_AGAIN: Final = 1.0
"""Seconds until a task that goes on is canceled once more."""


class PeerWakeups:
    """Carries hints and entries between servers, straight from one to another."""

    def __init__(
        self, local: Wakeups, replicas: Replicas, tls: PeerTls | None = None, *, look_every: float = _LOOK
    ) -> None:
        """`local` wakes the listeners of this process; `replicas` knows the other servers."""
        self.address = ""
        self._local = local
        self._replicas = replicas
        self._tls = tls
        self._look_every = look_every
        self._door = PeerDoor(tls)
        self._wanted: dict[str, Listener] = {}
        self._links: dict[PeerLink, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    def listen_at(self, address: str) -> int:
        """Take a port for the others; a `RuntimeError` if that does not work."""
        return self._door.listen(address)

    async def start(self, address: str) -> None:
        """Answer the others, who reach this server at `address`, and find them."""
        self.address = address
        await self._door.start()
        await self._try_own()
        self._looking = asyncio.create_task(self._look(), name="peers")

    async def close(self) -> None:
        await _end([*([self._looking] if self._looking else []), *self._links.values()])
        await self._door.stop()

    @property
    def round_trips(self) -> Mapping[str, float]:
        """The seconds that the last ping to each connected server took, by its address."""
        return {link.address: link.round_trip for link in self._links if link.round_trip is not None}

    # -- the port

    def tell(self, task_id: str, number: int, entries: Sequence[Entry]) -> None:
        self._local.tell(task_id, number, entries)
        self._door.tell(task_id, number, entries)

    def listen(self, task_id: str, listener: Listener) -> None:
        self._local.listen(task_id, listener)

    def ask_others(self, task_id: str, listener: Listener) -> None:
        asked = task_id in self._wanted
        self._wanted[task_id] = listener  # a task may get another listener before the one before it has left
        if not asked:
            for link in self._links:
                link.change(task_id, follow=True)

    def forget(self, task_id: str, listener: Listener) -> None:
        self._local.forget(task_id, listener)
        if self._wanted.get(task_id) is listener:
            del self._wanted[task_id]
            for link in self._links:
                link.change(task_id, follow=False)

    # -- the others

    async def _try_own(self) -> None:
        """See whether this server is reached where it says it is."""
        link = PeerLink(self.address, self._tls, (), self._local.tell, not_id=None)
        trying = asyncio.create_task(link.keep(), name="peers")
        await link.tried.wait()
        await _end([trying])

    async def _look(self) -> None:
        while True:
            try:
                await self._meet(set(await self._replicas.addresses()) - {self.address})
            except StoreUnavailable:
                pass  # those that were there go on
            except Exception:
                log.exception("peers.look_failed")  # the next look may succeed
            await asyncio.sleep(self._look_every)

    async def _meet(self, addresses: set[str]) -> None:
        """Have a connection to each of these, and to no others."""
        gone = [self._links.pop(link) for link in tuple(self._links) if link.address not in addresses]
        await _end(gone)
        known = {link.address for link in self._links}
        for address in sorted(addresses - known)[: MOST_PEERS - len(known)]:
            link = PeerLink(address, self._tls, self._wanted, self._local.tell, self._door.id)
            self._links[link] = asyncio.create_task(link.keep(), name="peers")


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel until all have ended: gRPC may take a cancellation for the end of its call, and then it is lost."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_AGAIN)
    await asyncio.gather(*tasks, return_exceptions=True)
