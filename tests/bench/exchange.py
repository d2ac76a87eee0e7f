"""What load generators of all protocols have in common: calls that begin and end, and connections that carry them."""

from __future__ import annotations

import socket
from collections.abc import Sized
from dataclasses import dataclass
from typing import Protocol


class Broken(Exception):  # noqa: N818 - the bench stops with it
    """The server did not answer as it should."""


@dataclass(slots=True)
class Exchange:
    """One call: when it began, when its first message came, how many have come."""

    begun: float
    first: float = 0.0
    ended: float = 0.0
    messages: int = 0


class Line(Protocol):
    """A connection with calls on it. Blocks only in `receive`."""

    socket: socket.socket

    @property
    def open(self) -> Sized:
        """The calls that have not ended."""
        ...

    def start(self, payload: bytes) -> None:
        """Begin a call; it leaves with the next `flush`."""

    def flush(self) -> None: ...

    def receive(self) -> list[Exchange]:
        """Wait for bytes; the calls that have ended with them."""
        ...

    def close(self) -> None: ...
