"""What every binding offers: a call and a stream of any RPC, by its descriptor."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """Bounds on what other agents send."""

    answer_bytes: int = 64 * 2**20
    event_bytes: int = 16 * 2**20
    card_bytes: int = 2**20


class CallTerms(NamedTuple):
    """What goes with one call."""

    metadata: Pairs = ()
    """Headers, or metadata of gRPC: the version, extensions, the trace, what the caller adds."""
    timeout: float | None = None
    """Seconds for the whole call; of a stream, until its end."""
    begin: float | None = None
    """Seconds for a stream over HTTP to begin."""


class NumberedEvent(NamedTuple):
    number: int
    """Of the event in the task's log, as a2ad tells it; 0 if it is unknown."""
    message: Message


class Binding(Protocol):
    """One interface of an agent. Raises `CallError`."""

    async def call(self, method: MethodDescriptor, request: Message, terms: CallTerms) -> Message:
        """Make a call that has one answer."""
        ...

    def stream(
        self, method: MethodDescriptor, request: Message, terms: CallTerms
    ) -> AsyncGenerator[NumberedEvent, None]:
        """Yield the events as they come. Closing the generator ends the call."""
        ...

    async def close(self) -> None:
        """End all calls, and close the connections."""
        ...
