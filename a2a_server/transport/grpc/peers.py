"""Bounds how many connections one address has at the gRPC door (spec: LIMT-01).

gRPC bounds all connections together, but not those of one address, and hands none of them out. Linux lists the sockets
of a process in /proc. So this looks there once a second, and shuts down what an address has too many. It can do so
safely: it works on a duplicate of the descriptor, so that the socket it has checked is the one it shuts down.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger(__name__)

_OPEN: Final = Path("/proc/self/fd")
_SECONDS_BETWEEN_LOOKS: Final = 1.0
_SECONDS_BETWEEN_LINES: Final = 60.0


class Peers:
    """The connections of a listening port, by the address of their client."""

    def __init__(self, port: int, most: int) -> None:
        self._port = port
        self._most = most
        self._known: dict[str, str] = {}
        """The client's address of each socket that was there at the last look; empty for those of other ports."""
        self._told: dict[str, float] = {}

    async def keep(self) -> None:
        """Keep the bound for as long as this runs."""
        while _OPEN.is_dir():
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            with suppress(OSError):  # no descriptor is left for the look itself
                await asyncio.to_thread(self._look)

    def _look(self) -> None:
        names = os.listdir(_OPEN)  # noqa: PTH208 - a Path for each would be slow
        if len(names) <= self._most:
            return
        now: dict[str, str] = {}
        new: dict[str, str] = {}
        for name in names:
            with suppress(OSError):  # it has been closed meanwhile
                link = os.readlink(f"{_OPEN}/{name}")  # noqa: PTH115 - as above
                if link in self._known:
                    now[link] = self._known[link]
                elif link.startswith("socket:"):
                    new[link] = name
        counts = Counter(now.values())
        for link, name in new.items():
            with suppress(OSError), socket.socket(fileno=os.dup(int(name))) as copy:
                now[link] = self._peer(copy)
                counts[now[link]] += 1
                if now[link] and counts[now[link]] > self._most:
                    copy.shutdown(socket.SHUT_RDWR)
                    self._tell(now[link])
        self._known = now

    def _peer(self, copy: socket.socket) -> str:
        """Return the address of the client; empty if the socket is none of this port's connections."""
        is_ours = copy.family in (socket.AF_INET, socket.AF_INET6) and copy.getsockname()[1] == self._port
        try:
            return str(copy.getpeername()[0]) if is_ours else ""
        except OSError:  # it listens
            return ""

    def _tell(self, address: str) -> None:
        """Say so, at most once a minute for each address."""
        now = time.monotonic()
        if now - self._told.get(address, -_SECONDS_BETWEEN_LINES) >= _SECONDS_BETWEEN_LINES:
            self._told = {one: when for one, when in self._told.items() if now - when < _SECONDS_BETWEEN_LINES}
            self._told[address] = now
            log.warning("grpc.too_many_connections", peer=address, most=self._most)
