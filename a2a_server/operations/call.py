"""What every operation is told about the call it serves, whichever door it came through."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from google.protobuf.message import Message

from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.records import Entry

Entries = Sequence[Entry]


class Ending(tuple[Entry, ...]):
    """Entries after which a stream ends as it should: with the status that closes it (STRM-03, CONF-11)."""

    __slots__ = ()
    ends: Final = True


Sink = Callable[[Entries], bool]
"""Takes entries right away, or says no; then they come by iterating."""


class EventStream(Protocol):
    """The answer of a streaming RPC: iterate over it for batches, and close it whatever happens.

    Nothing happens before the first batch is asked for, and whatever can refuse the call is raised there (STRM-07).
    A batch holds all entries that are ready at once, so that a door can send them at once: `entry.wire` is the
    StreamResponse ready for the wire, shared by all readers of the task.
    """

    def __aiter__(self) -> AsyncIterator[Entries]: ...

    async def __anext__(self) -> Entries: ...

    def deliver_to(self, sink: Sink) -> None:
        """Offer batches to a sink while the next one is being waited for. A stream need not make use of it."""
        ...

    async def aclose(self) -> None: ...


class Call(NamedTuple):
    """One call after the pipeline has settled version, caller, tenant and extensions."""

    caller: Caller
    scope: Scope
    version: str = "1.0"
    """What the client spoke: "1.0", "0.3", or "draft"; what is kept for it may have to remember."""
    extensions: frozenset[str] = frozenset()
    idempotency_key: str = ""
    schemes: Sequence[str] = ()
    """All that a push config offers, in the client's order, where its version has room for several (CONF-34)."""
    trace: Trace | None = None
    """The caller's, for everything that is sent because of this call (TRAC-01)."""
    numbers: bool = False
    """Whether stream events tell their number."""
    cursor: Sequence[str] = ()
    """What the client says to be the last event it has seen, as it says it."""
    large: bool = False
    """Whether the request is so large that others should have the loop between the stages of its work (LIMT-01)."""


class UnaryOperation(Protocol):
    """An RPC with one answer; the class bears the RPC's name."""

    async def __call__(self, call: Call, request: Any, /) -> Message: ...  # noqa: ANN401 - each RPC has its own request type


class PackedOperation(UnaryOperation, Protocol):
    """One whose answer is there as bytes before it is a message."""

    answers: ClassVar[type[Message]]

    async def wire(self, call: Call, request: Any, /) -> bytes: ...  # noqa: ANN401 - as above


class StreamOperation(Protocol):
    """An RPC with a stream of answers."""

    def __call__(self, call: Call, request: Any, /) -> EventStream: ...  # noqa: ANN401 - as above


Operation = UnaryOperation | StreamOperation
