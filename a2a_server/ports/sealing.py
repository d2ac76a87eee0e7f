"""Secrets of push configs at rest: what the store is given instead of them (spec: PAID-06, SECR-03)."""

from __future__ import annotations

from typing import Protocol


class Unsealable(Exception):  # noqa: N818 - a verdict, not a malfunction
    """A stored secret cannot be read with the keys there are; the message is for the operator."""


class Sealer(Protocol):
    """Turns short texts into others that can be stored. What it was given without keys it can still open with some."""

    def seal(self, text: str, place: str) -> str:
        """`place` names where the text will stand; it opens nowhere else. An empty text stays empty."""
        ...

    def open(self, sealed: str, place: str) -> str:
        """The text again. One that was never sealed is returned as it is. Raises `Unsealable`."""
        ...
