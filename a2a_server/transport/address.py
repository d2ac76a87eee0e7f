"""HOST:PORT, and whether it can be listened on (spec: DOOR-09)."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
from contextlib import suppress
from dataclasses import dataclass

HIGHEST_PORT = 65535
_ADDRESS = re.compile(r"(?:\[(?P<bracketed>[^][/@\s]+)]|(?P<host>[^][:/@\s]+)):(?P<port>[0-9]{1,5})")
"""A slash or an @ belongs to a URL."""
WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - to be recognised
BACKLOG = 512
"""How many connections may wait to be accepted."""


class StartError(Exception):
    """The server cannot start; the message tells the operator why."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a door listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `host ":" port`, `"[" ipv6 "]:" port`; port 0 lets the system choose."""
        found = _ADDRESS.fullmatch(text)
        if found is None or int(found["port"]) > HIGHEST_PORT:
            raise ValueError("must be HOST:PORT, such as 127.0.0.1:50051 or [::1]:50051")
        return cls(found["bracketed"] or found["host"], int(found["port"]))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        with suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return False

    def listen(self, door: str) -> socket.socket:
        """Take the port. Connections wait until they are accepted."""
        self.check_free(door)
        return self._bound(door)

    def reserve(self, door: str) -> socket.socket:
        """Keep the port for processes that `share` it. Connections go to those alone."""
        self.check_free(door)
        reserved = self.share(door)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # from now on `check_free` fails for others
        return reserved

    def share(self, door: str) -> socket.socket:
        """Bind to a port that other processes of this user have, too. Connections come as soon as it listens."""
        return self._bound(door, shared=True)

    def _bound(self, door: str, *, shared: bool = False) -> socket.socket:
        family, _, _, _, sockaddr = socket.getaddrinfo(
            self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self.host == "::":  # all addresses means those of IPv4, too
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            if shared:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(sockaddr)
            if not shared:
                listener.listen(BACKLOG)  # a port that is only bound can be bound again
            listener.setblocking(False)  # noqa: FBT003 - socket has it so
        except OSError as error:
            listener.close()
            raise StartError(f"{door}: cannot listen on {self}: {error.strerror}") from None
        return listener

    def check_free(self, door: str) -> None:
        """Raise `StartError` when another process listens here, on any address the host name stands for.

        gRPC would only say that it failed, and if a name has two addresses, one of them would be enough for it.
        """
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except OSError:
            raise StartError(f"{door}: {self.host} is not a known host name or address") from None
        for family, kind, protocol, _, sockaddr in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(sockaddr)
                    probe.listen(1)
                except OSError as error:
                    if why := _WHY.get(error.errno or 0):
                        raise StartError(f"{door}: {self} {why}") from None


def reachable(address: Address) -> Address:
    """Replace a wildcard, which no client can connect to, by the name of this host."""
    return Address(socket.gethostname(), address.port) if address.host in WILDCARDS else address


_WHY = {
    errno.EADDRINUSE: "is already in use by another process; stop it or choose another port",
    errno.EACCES: "needs more privileges; choose a port above 1023",
    errno.EADDRNOTAVAIL: "is not an address of this machine",
}
