"""The call that an operation gets, and the types of operations. They are the same for every door."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from google.protobuf.message import Message

from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.records import Entry

Entries = Sequence[Entry]


class FinalEntries(tuple[Entry, ...]):
    """The last entries of a stream, with the status that closes it (STRM-03, CONF-11)."""

    __slots__ = ()
    ends: Final = True


Sink = Callable[[Entries], bool]
"""Accepts entries at once and returns True, or returns False; then they come by iteration."""


class EventStream(Protocol):
    """The answer of a streaming RPC. Iterate over it for batches, and always close it.

    The operation begins when the first batch is requested. An error that refuses the call is raised there (STRM-07). A
    batch has all entries that are ready. `entry.wire` is the serialised StreamResponse, which all readers of the task
    share.
    """

    def __aiter__(self) -> AsyncIterator[Entries]: ...

    async def __anext__(self) -> Entries: ...

    def deliver_to(self, sink: Sink) -> None:
        """Offer batches to a sink while the caller waits for the next one. A stream may ignore it."""
        ...

    async def aclose(self) -> None: ...


class Call(NamedTuple):
    """One call. The pipeline has determined its version, caller, tenant and extensions."""

    caller: Caller
    scope: Scope
    version: str = "1.0"
    """The client's version: "1.0", "0.3" or "draft". It is stored with push configs."""
    extensions: frozenset[str] = frozenset()
    idempotency_key: str = ""
    schemes: Sequence[str] = ()
    """The authentication schemes of a push config, in the client's order, if its version allows several (CONF-34)."""
    trace: Trace | None = None
    """The caller's trace, for everything that is sent because of this call (TRAC-01)."""
    numbers: bool = False
    """Whether stream events contain their number."""
    cursor: Sequence[str] = ()
    """The number of the last event that the client has seen, as the client sent it."""
    large: bool = False
    """Whether the request is so large that other tasks should run between the steps of its processing (LIMT-01)."""
    peer: str = ""
    """The address that the call came from."""
    door: str = ""


class UnaryOperation(Protocol):
    """An RPC with one answer. The class has the RPC's name.

    If the client streams, the request is an async iterator of messages. A message is read when the operation asks for
    it, so a slow operation slows the client. Errors in a message are raised by the iterator.
    """

    async def __call__(self, call: Call, request: Any, /) -> Message: ...  # noqa: ANN401 - each RPC has its own request type


class SerializedOperation(UnaryOperation, Protocol):
    """A unary operation that has its answer as bytes, without making a message."""

    answers: ClassVar[type[Message]]

    async def wire(self, call: Call, request: Any, /) -> bytes: ...  # noqa: ANN401 - as above


class StreamOperation(Protocol):
    """An RPC with a stream of answers. Its request may be a stream too, as above."""

    def __call__(self, call: Call, request: Any, /) -> EventStream: ...  # noqa: ANN401 - as above


Operation = UnaryOperation | StreamOperation
