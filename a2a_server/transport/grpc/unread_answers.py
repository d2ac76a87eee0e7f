"""Bounds what large gRPC answers take that nobody reads, and closes the connections of clients that go on so (LIMT-01).

gRPC keeps an answer until its client has read it, and nothing but the end of the connection makes it let go.

1. A large answer, or item of a stream, counts from when it is handed to gRPC until gRPC is done with it. Where there is
   no room, a further one is refused. Addresses share the room.
2. A client that has not read one for long loses its connection. So its room comes back.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import takewhile

from a2a_server.domain.scope import Shares
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.transport.grpc.peers import Peers
from a2a_server.transport.grpc.servicer import Context


class UnreadAnswers:
    """The large answers that gRPC keeps."""

    def __init__(self, most: int) -> None:
        self._room = Shares(most)
        self._held: dict[object, tuple[float, str, int]] = {}
        """Since when, for which client, and how much; the oldest stands first."""
        self._writing: set[asyncio.Future[None]] = set()

    def hold(self, peer: str, size: int) -> Callable[[object], None]:
        """Count an answer, and return what lets go of it. One alone always fits."""
        memory, address, key = 2 * size, peer.rpartition(":")[0], object()  # gRPC keeps it, and so does Python
        if self._room.taken and memory > self._room.room(address):
            text = f"Clients leave too much unread: {self._room.places} bytes (transport.max_unsent_bytes)."
            raise A2AError(Reason.OVERLOADED, f"{text} Try again later.", retry_after=1)
        self._room.take(address, memory)
        self._held[key] = (time.monotonic(), peer, memory)

        def let_go(_: object) -> None:
            del self._held[key]
            self._room.leave(address, memory)

        return let_go

    async def write(self, context: Context, item: bytes, peer: str) -> None:
        """Write an item of a stream. It counts until gRPC is done with it, also when the stream is cut meanwhile."""
        let_go = self.hold(peer, len(item))
        writing = asyncio.ensure_future(context.write(item))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        writing.add_done_callback(let_go)
        await asyncio.shield(writing)

    async def keep(self, peers: Peers, patience: float) -> None:
        """Close the connections of clients that leave an answer unread for so long, for as long as this runs."""
        while True:
            await asyncio.sleep(patience / 8)
            unread = self._unread_since(time.monotonic() - patience)
            if unread:
                with suppress(OSError):  # no descriptor is left for looking
                    await asyncio.to_thread(peers.cut, unread)

    def _unread_since(self, line: float) -> Counter[str]:
        unread: Counter[str] = Counter()
        for _, peer, memory in takewhile(lambda held: held[0] < line, self._held.values()):
            unread[peer] += memory
        return unread
