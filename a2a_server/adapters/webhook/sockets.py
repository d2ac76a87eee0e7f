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
    """Makes sockets, and knows how many of them are open."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._made: WeakSet[socket.socket] = WeakSet()  # transports drop theirs when they close

    def __call__(self, info: AddrInfoType) -> socket.socket:
        family, kind, proto, _, address = info
        if self._is_refused(str(address[0])):
            raise RefusedAddressError
        made = socket.socket(family, kind, proto)
        self._made.add(made)
        return made

    @property
    def open(self) -> int:
        return len(self._made)

    def _is_refused(self, text: str) -> bool:
        try:
            return bool(self._addresses.refusal(ip_address(text)))
        except ValueError:  # no address in the one spelling that is judged
            return True
