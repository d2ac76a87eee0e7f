"""Sockets for addresses that may be called, and for no others (spec: SSRF-01, PAID-04).

The library asks for a socket with the very address that it then connects to. Nothing lies in between: no name that
could be looked up again, no spelling of a literal, no redirect and no resolver that has changed its mind.
"""

from __future__ import annotations

import errno
import socket
from ipaddress import ip_address
from weakref import WeakSet

from aiohttp import AddrInfoType

from a2a_server.domain.addresses import Addresses


class RefusedAddressError(OSError):
    """The address may not be called. All are alike, so that many of them are reported as one."""

    def __init__(self) -> None:
        super().__init__(errno.EACCES, "webhooks may not go to this address")


class Sockets:
    """Makes sockets, and knows whether many of them are open."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._made: WeakSet[socket.socket] = WeakSet()  # the transports' own

    def __call__(self, info: AddrInfoType) -> socket.socket:
        family, kind, proto, _, address = info
        if self._is_refused(str(address[0])):
            raise RefusedAddressError
        made = socket.socket(family, kind, proto)
        self._made.add(made)
        return made

    def more_than(self, count: int) -> bool:
        """Whether so many are open; closed ones may linger a while, as garbage of their transports."""
        return len(self._made) > count and sum(made.fileno() >= 0 for made in self._made) > count

    def _is_refused(self, text: str) -> bool:
        try:
            return bool(self._addresses.refusal(ip_address(text)))
        except ValueError:  # no address in the one spelling that is judged
            return True
