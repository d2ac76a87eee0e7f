"""The port for other servers: each says which logs it follows, and is told what is written to them here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import grpc

from a2a_proto.peers_pb2 import Asked, Growth, Told
from a2a_proto.peers_pb2_grpc import PeerServicer, add_PeerServicer_to_server
from a2a_server.adapters.peers.identity import PeerTls
from a2a_server.ports.records import Entry

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[AsyncIterator[Asked], AsyncIterator[Told]]

LONGEST_MESSAGE: Final = 16 * 1024 * 1024
MOST_PEERS: Final = 100
"""How many servers follow one, and how many one follows. What others write is found by looking into the store."""
_MOST_FOLLOWED: Final = 100_000
"""Logs that one server may follow here. Of more it is not told."""
_MOST_BYTES: Final = 4 * 1024 * 1024
"""Entries that wait to be sent to one server. Of further ones it is told the number."""
_KEEP_ALIVE: Final = 10_000
_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", LONGEST_MESSAGE),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_concurrent_streams", 4),
    ("grpc.server_handshake_timeout_ms", 5_000),
    ("grpc.max_allowed_incoming_connections", 2 * MOST_PEERS),
    ("grpc.keepalive_time_ms", _KEEP_ALIVE),
    ("grpc.keepalive_timeout_ms", _KEEP_ALIVE),
)


class PeerDoor(PeerServicer):
    """Answers other servers."""

    def __init__(self, tls: PeerTls | None) -> None:
        """Without `tls` whoever reaches the port is believed."""
        self.id = uuid4().hex
        self._tls = tls
        self._followers: dict[str, set[Follower]] = {}
        self._server = grpc.aio.server(maximum_concurrent_rpcs=MOST_PEERS, options=_OPTIONS)
        add_PeerServicer_to_server(self, self._server)

    def listen(self, address: str) -> int:
        """Take the port; a `RuntimeError` if that does not work."""
        if self._tls is None:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, self._tls.server_credentials())

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)

    def tell(self, task_id: str, number: int, entries: Sequence[Entry]) -> None:
        """Tell those who follow the log. Never waits."""
        for follower in self._followers.get(task_id, ()):
            follower.add(task_id, number, entries)

    async def Follow(  # noqa: N802 - the name of the RPC
        self, request_iterator: AsyncIterator[Asked], context: Context
    ) -> AsyncIterator[Told]:
        await self._check(context)
        follower = Follower(self._followers)
        reading = asyncio.create_task(follower.read(request_iterator), name="peer")

        def over(_: object) -> None:
            reading.cancel()
            follower.close()

        context.add_done_callback(over)  # type: ignore[arg-type]  # a function, whatever the stubs say
        yield Told(server=self.id)
        while (told := await follower.next()) is not None:
            yield told

    async def _check(self, context: Context) -> None:
        """Refuse a certificate of the right authority that is not for servers."""
        if self._tls is not None and self._tls.name:
            named = context.auth_context().get("x509_subject_alternative_name", ())
            if self._tls.name.encode() not in named:
                text = f"The certificate does not name {self._tls.name}."
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, text)


@dataclass(slots=True)
class _Due:
    """What is to be told of one log."""

    number: int
    entries: list[Entry]
    size: int


class Follower:
    """One other server: what it follows, and what it is to be told."""

    def __init__(self, followers: dict[str, set[Follower]]) -> None:
        self._followers = followers
        self._followed: set[str] = set()
        self._due: dict[str, _Due] = {}
        self._bytes = 0
        self._pong = 0
        self._ready = asyncio.Event()
        self._over = False

    async def read(self, asked: AsyncIterator[Asked]) -> None:
        """Take what it asks for, until it asks no more."""
        try:
            async for one in asked:
                self._take(one)
        finally:
            self.close()

    def _take(self, asked: Asked) -> None:
        for task_id in asked.follow:
            if len(self._followed) < _MOST_FOLLOWED:
                self._followed.add(task_id)
                self._followers.setdefault(task_id, set()).add(self)
        for task_id in asked.forget:
            self._forget(task_id)
        if asked.ping:
            self._pong = asked.ping
            self._ready.set()

    def _forget(self, task_id: str) -> None:
        self._followed.discard(task_id)
        others = self._followers.get(task_id, set())
        others.discard(self)
        if not others:
            self._followers.pop(task_id, None)

    def close(self) -> None:
        """Follow nothing any more."""
        for task_id in tuple(self._followed):
            self._forget(task_id)
        self._over = True
        self._ready.set()

    def add(self, task_id: str, number: int, entries: Sequence[Entry]) -> None:
        """Tell it soon. Entries for which there is no room are left out, and so are those before them."""
        size = sum(len(entry.wire) for entry in entries)
        if self._bytes + size > _MOST_BYTES:
            entries, size = (), 0
        due = self._due.get(task_id)
        if due is not None and due.entries and entries and due.entries[-1].number + 1 == entries[0].number:
            due.number, due.size = number, due.size + size
            due.entries += entries
        else:
            if due is not None:
                self._bytes -= due.size
            self._due[task_id] = _Due(number, list(entries), size)
        self._bytes += size
        self._ready.set()

    async def next(self) -> Told | None:
        """All that is to be told by now; None at the end."""
        await self._ready.wait()
        self._ready.clear()
        if self._over:
            return None
        told = Told(
            logs=(
                Growth(task_id=task_id, number=due.number, entries=[entry.wire for entry in due.entries])
                for task_id, due in self._due.items()
            ),
            pong=self._pong,
        )
        self._due, self._bytes, self._pong = {}, 0, 0
        return told
