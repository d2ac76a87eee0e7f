"""The upstream, which the gateway calls: in this process or elsewhere (design 5; spec: DOOR-01, DOOR-02)."""

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
MessageStream = AsyncIterator[Message]
"""The messages of a client that streams."""


class CallContext(NamedTuple):
    """What is sent with a request."""

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
    rest: MessageStream | None = None
    """The messages after the first one, if the client streams. The upstream reads them when it wants them."""
    certificate: bytes = b""
    """The client's certificate (DER), whose key it has proven to have; empty without mutual TLS."""
    via: str = ""
    """The address at the other end of the connection: the client's, or a proxy's."""
    door: str = "rest"
    """The binding that the client uses: rest or jsonrpc."""


class UpstreamAnswer(Protocol):
    """The answer of a unary call."""

    @property
    def message(self) -> Message: ...

    @property
    def wire(self) -> bytes:
        """The serialised message. It may be empty if the gateway itself made the answer."""
        ...

    @property
    def metadata(self) -> MetadataPairs: ...

    @property
    def trailers(self) -> MetadataPairs: ...

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """HTTP headers to send as they are."""
        ...


class Answer(NamedTuple):
    """An answer that the gateway itself has made."""

    message: Message
    metadata: MetadataPairs = ()
    trailers: MetadataPairs = ()
    wire: bytes = b""
    headers: Sequence[tuple[str, str]] = ()


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
        """Register a function that may get items directly, instead of from `items`. It returns False to refuse them.

        Refused items come from `items`. Call this before asking for the first item. An upstream may ignore it.
        """
        ...

    def on_cut(self, cut: Callable[[A2AError], Awaitable[None]]) -> None:
        """Register how the upstream can end the stream when it stops."""
        ...


class Upstream(Protocol):
    """Serves calls. It refuses them with `A2AError`, or with `StatusError` if the error came over a channel."""

    async def identify(self, context: CallContext) -> str:
        """Return the caller's name; "" if it cannot be known. Raise an error if the credentials are not valid.

        The gateway calls this before it reads a large body.
        """
        ...

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer: ...

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamStream: ...

    async def ready(self) -> bool:
        """Whether calls would be served now."""
        ...


async def nothing() -> MessageStream:
    """Yield no messages, for a client that sends only one."""
    none: Sequence[Message] = ()
    for message in none:
        yield message


@lru_cache(maxsize=256)
def is_read(method: MethodDescriptor) -> bool:
    """Whether the annotation says GET. Such a call changes nothing, so it may be repeated (IDEM-01)."""
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    return bool(rule.WhichOneof("pattern") == "get")
