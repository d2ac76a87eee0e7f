"""What the gateway calls: one RPC of one service, in this process or elsewhere (design 5; spec: DOOR-01, DOOR-02)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, Protocol

from google.api import annotations_pb2
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.names import CURRENT

MetadataPairs = Sequence[tuple[str, str | bytes]]


class CallContext(NamedTuple):
    """What goes with a request."""

    metadata: Mapping[str, Sequence[str]]
    """Names are lower-case; one name may have several values."""
    timeout: float | None = None
    """How many seconds the client will wait."""
    peer: str = ""
    """The client's address, as far as it can be trusted."""
    binary: Mapping[str, Sequence[bytes]] = MappingProxyType({})
    """Metadata whose names end in -bin."""
    spoken: str = CURRENT
    """The client's version. The request itself is always one of 1.0."""


class UpstreamAnswer(Protocol):
    """The answer of a unary call."""

    @property
    def message(self) -> Message: ...

    @property
    def wire(self) -> bytes:
        """The same, serialised; may be empty if the gateway itself makes the answer."""
        ...

    @property
    def metadata(self) -> MetadataPairs: ...

    @property
    def trailers(self) -> MetadataPairs: ...


class Answer(NamedTuple):
    """An answer that the gateway itself makes."""

    message: Message
    metadata: MetadataPairs = ()
    trailers: MetadataPairs = ()
    wire: bytes = b""


class StreamItem(Protocol):
    """One message of a stream."""

    @property
    def number(self) -> int:
        """Its position in the task's log; 0 when it has none."""
        ...

    @property
    def wire(self) -> bytes:
        """The serialised message."""
        ...


class UpstreamStream(Protocol):
    """The answer of a streaming call."""

    @property
    def metadata(self) -> MetadataPairs:
        """What the upstream sent before the items. Complete once the first item has arrived."""
        ...

    @property
    def items(self) -> AsyncIterator[Sequence[StreamItem]]:
        """Batches of everything that is ready. Whoever iterates closes it."""
        ...

    def on_ready(self, take: Callable[[Sequence[StreamItem]], bool]) -> None:
        """Register who may be handed items directly while it waits for them; items that it refuses come from `items`.

        Call this before asking for the first item. An upstream may ignore it.
        """
        ...

    def on_cut(self, cut: Callable[[A2AError], Awaitable[None]]) -> None:
        """Register how the upstream ends the stream from its side when it stops."""
        ...


class Upstream(Protocol):
    """Serves calls. Refuses with `A2AError`, or with `StatusError` when the refusal came over a wire."""

    async def identify(self, context: CallContext) -> str:
        """Refuse a caller whose credentials are not valid, and return who it is; "" if that cannot be known.

        Called before a large body is read.
        """
        ...

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer: ...

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamStream: ...

    async def ready(self) -> bool:
        """Whether calls would be served now."""
        ...


@lru_cache(maxsize=256)
def is_read(method: MethodDescriptor) -> bool:
    """Whether the annotation says GET. Such a call changes nothing, so it may be repeated (IDEM-01)."""
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    return bool(rule.WhichOneof("pattern") == "get")
