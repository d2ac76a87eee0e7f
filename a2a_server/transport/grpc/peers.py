"""Bounds how many connections one address has at the gRPC door (spec: LIMT-01).

gRPC bounds all connections together, but not those of one address, and hands none of them out. Linux lists the sockets
of a process in /proc. So this looks there once a second, and shuts down what an address has too many. It can do so
safely: it works on a duplicate of the descriptor, so that the socket it has checked is the one it shuts down.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger(__name__)

_OPEN: Final = Path("/proc/self/fd")
_RECEIVED: Final = slice(128, 136)
"""Where Linux tells in `TCP_INFO` how many bytes have come: `tcpi_bytes_received`."""
_WAITING: Final = slice(24, 28)
"""Where it tells of a socket that listens how many connections wait to be accepted: `tcpi_unacked`."""
_LOOKS_AT_QUEUE: Final = 100
_SECONDS_BETWEEN_QUEUE_LOOKS: Final = 0.001
_SECONDS_BETWEEN_LOOKS: Final = 1.0
_SECONDS_BETWEEN_LINES: Final = 60.0


class Peers:
    """The connections of a listening port, by the address of their client."""

    def __init__(self, port: int, most: int) -> None:
        self._port = port
        self._most = most
        self._known: dict[str, str] = {}
        """The client's address of each socket that was there at the last look; empty for those of other ports."""
        self._told: dict[tuple[str, str], float] = {}

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
                    self._tell("grpc.too_many_connections", now[link], most=self._most)
        self._known = now

    def _peer(self, copy: socket.socket) -> str:
        """Return the address of the client; empty if the socket is none of this port's connections."""
        try:
            return str(copy.getpeername()[0]) if _is_open(copy, self._port) else ""
        except OSError:  # it listens
            return ""

    def cut(self, unread: Mapping[str, int]) -> None:
        """Shut down the connections of clients, by gRPC's names for them, and say how much they have left unread."""
        for copy in connections(self._port):
            host, port = copy.getpeername()[:2]
            host = host.removeprefix("::ffff:")
            peer = f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"
            if peer in unread:
                with suppress(OSError):  # it has been closed meanwhile
                    copy.shutdown(socket.SHUT_RDWR)
                self._tell("grpc.answers_unread", host, bytes=unread[peer])

    def _tell(self, event: str, address: str, **fields: int) -> None:
        """Say so, at most once a minute for each address."""
        now, told = time.monotonic(), (event, address)
        if now - self._told.get(told, -_SECONDS_BETWEEN_LINES) >= _SECONDS_BETWEEN_LINES:
            self._told = {one: when for one, when in self._told.items() if now - when < _SECONDS_BETWEEN_LINES}
            self._told[told] = now
            log.warning(event, peer=address, **fields)


def bytes_from(port: int) -> Counter[int] | None:
    """Return how much the connections of a port have brought, by the port of the client; None if nobody can tell."""
    brought: Counter[int] = Counter()
    try:
        for copy in connections(port):
            told = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.stop)
            brought[copy.getpeername()[1]] += int.from_bytes(told[_RECEIVED], sys.byteorder)
    except (OSError, AttributeError):  # another system, or no descriptor is left
        return None
    return brought


def connections(port: int) -> Iterator[socket.socket]:
    """Look at the connections of a port, one after another."""
    return _sockets(lambda copy: _is_open(copy, port))


def has_connections(port: int) -> bool:
    """Whether a port has connections; no, where nobody can tell."""
    return _OPEN.is_dir() and any(True for _ in connections(port))


def stop_listening(port: int) -> None:
    """Accept no more connections of a port. gRPC could do that alone by ending all calls of those it has."""
    for copy in _sockets(lambda copy: _listens(copy, port)) if _OPEN.is_dir() else ():
        for _ in range(_LOOKS_AT_QUEUE):
            if not int.from_bytes(copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _WAITING.stop)[_WAITING]):
                break
            time.sleep(_SECONDS_BETWEEN_QUEUE_LOOKS)
        copy.shutdown(socket.SHUT_RDWR)


def _sockets(wanted: Callable[[socket.socket], bool]) -> Iterator[socket.socket]:
    """Duplicate the sockets of this process that are wanted, one after another."""
    for name in os.listdir(_OPEN):  # noqa: PTH208 - as above
        try:
            if not os.readlink(f"{_OPEN}/{name}").startswith("socket:"):  # noqa: PTH115 - as above
                continue
            with socket.socket(fileno=os.dup(int(name))) as copy:
                if wanted(copy):
                    yield copy
        except OSError as error:
            if error.errno in {errno.EMFILE, errno.ENFILE}:
                raise  # any other has been closed meanwhile, or listens


def _listens(copy: socket.socket, port: int) -> bool:
    return bool(copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)) and copy.getsockname()[1] == port


def _is_open(copy: socket.socket, port: int) -> bool:
    """Whether a socket is a connection of a port; an `OSError` says that it is none."""
    inet = copy.family in {socket.AF_INET, socket.AF_INET6}
    return inet and copy.getsockname()[1] == port and bool(copy.getpeername())
