"""What the gateway calls: one RPC of one service, wherever it is served (design 5; spec: DOOR-01, DOOR-02)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.names import CURRENT

Metadata = Sequence[tuple[str, str | bytes]]


class Context(NamedTuple):
    """What travels beside a request."""

    metadata: Mapping[str, Sequence[str]]
    """Lower-case names; a name may have several values."""
    timeout: float | None = None
    """How many seconds the client will wait."""
    peer: str = ""
    """The client's address, as far as it can be trusted."""
    binary: Mapping[str, Sequence[bytes]] = MappingProxyType({})
    """Metadata whose names end in -bin."""
    spoken: str = CURRENT
    """The client's version; what it asks for has become a request of 1.0."""


new_context: Final[
    Callable[
        [tuple[Mapping[str, Sequence[str]], float | None, str, Mapping[str, Sequence[bytes]], str]],
        Context,
    ]
] = partial(tuple.__new__, Context)
"""As `new_answer`."""


class Answer(NamedTuple):
    """The answer of a unary call."""

    message: Message
    metadata: Metadata = ()
    trailers: Metadata = ()


new_answer: Final[Callable[[tuple[Message, Metadata, Metadata]], Answer]] = partial(tuple.__new__, Answer)
"""An answer made of all its members at once, which takes a third of the time; every call needs one."""


class Item(Protocol):
    """One message of a stream."""

    @property
    def number(self) -> int:
        """Its position in the task's log; 0 when it has none."""
        ...

    @property
    def wire(self) -> bytes:
        """It, serialised."""
        ...


class Stream(Protocol):
    """The answer of a streaming call."""

    @property
    def metadata(self) -> Metadata:
        """What was sent ahead of the items; complete once the first item is there."""
        ...

    @property
    def items(self) -> AsyncIterator[Sequence[Item]]:
        """Batches of all that is ready. Whoever iterates closes it."""
        ...

    def on_ready(self, take: Callable[[Sequence[Item]], bool]) -> None:
        """Say who may be offered items while somebody waits for them; what it does not take comes out of `items`.

        To be said before the first item is asked for. An upstream need not make use of it.
        """
        ...

    def on_cut(self, cut: Callable[[A2AError], Awaitable[None]]) -> None:
        """Tell the upstream how to end the stream from its side, when it stops."""
        ...


class Upstream(Protocol):
    """Serves calls. Refuses with `A2AError`, or with `StatusError` when the refusal came over a wire."""

    async def unary(self, method: MethodDescriptor, request: Message, context: Context) -> Answer: ...

    async def stream(self, method: MethodDescriptor, request: Message, context: Context) -> Stream: ...

    async def ready(self) -> bool:
        """Whether calls would be served now."""
        ...
