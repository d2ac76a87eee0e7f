"""Every call, whatever door it came through, on its way to the operation that serves it (design 4).

1. A door hands over the request, what it knows about the peer, and the version that is spoken to it.
2. The steps (`steps.py`) settle who calls, in which tenant, with which extensions, and so on.
3. The operation is called with what they have settled, a `Call`.
4. Whatever goes wrong on the way leaves as an `A2AError`; the door turns that into its own form.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias, cast

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError, Message

from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.operations.call import Call, Operation, PackedOperation, StreamOperation, UnaryOperation
from a2a_server.ports.authenticator import Caller, Credentials
from a2a_server.protocol.codec.sizes import MOST_VALUES, read_wire
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.large import LargeRequests
from a2a_server.protocol.names import CURRENT, CURSOR
from a2a_server.protocol.options import SMALL
from a2a_server.transport.open_streams import CallStream, OpenStream, OpenStreams, fail

ReplyMetadata = tuple[tuple[str, str], ...]

_NOTHING: Final = Empty()
_NONE: Final[frozenset[str]] = frozenset()
_NOBODY: Final = Caller()
_NOWHERE: Final = Scope("", _NOBODY.owner)


class Admission:
    """A call while the steps settle it: what its door handed over, and what is known about it so far."""

    __slots__ = (
        "caller",
        "credentials",
        "cursor",
        "extensions",
        "idempotency_key",
        "large",
        "metadata",
        "numbers",
        "request",
        "rpc",
        "schemes",
        "scope",
        "spoken",
        "trace",
        "version",
    )

    def __init__(self, rpc: str, request: Message, credentials: Credentials, spoken: str) -> None:
        self.rpc = rpc
        self.request = request
        self.credentials = credentials
        self.spoken = spoken
        """What the door speaks, or what a gateway says that its client spoke."""
        self.version = spoken
        self.caller = _NOBODY
        self.scope = _NOWHERE
        self.extensions = _NONE
        self.numbers = False
        self.cursor: Sequence[str] = ()
        self.idempotency_key = ""
        self.large = False
        self.schemes: Sequence[str] = ()
        self.trace: Trace | None = None
        self.metadata: ReplyMetadata = ()
        """What the client is told ahead of the answer."""

    def call(self) -> Call:
        return Call(
            self.caller,
            self.scope,
            self.version,
            self.extensions,
            self.idempotency_key,
            self.schemes,
            self.trace,
            self.numbers,
            self.cursor,
            self.large,
        )


Step: TypeAlias = Callable[[Admission], Awaitable[None] | None]
"""Reads the admission and settles its part of it, or refuses the call. One that has to wait returns an awaitable."""


class UnaryReply:
    """The answer of a unary call, as a message or as bytes, and the metadata that goes before it."""

    __slots__ = ("_message", "_wire", "answers", "metadata")

    trailers: ClassVar[ReplyMetadata] = ()
    """The metadata that goes behind it: a gateway's upstream may have some, this server has none."""

    def __init__(self, message: Message | None, wire: bytes, answers: type[Message], metadata: ReplyMetadata) -> None:
        self._message = message
        self._wire = wire
        self.answers = answers
        self.metadata = metadata

    @property
    def message(self) -> Message:
        if self._message is None:
            self._message = self.answers.FromString(self._wire)
        return self._message

    @property
    def wire(self) -> bytes:
        return self._wire if self._message is None else self._message.SerializeToString()


@dataclass(frozen=True, slots=True)
class Stream:
    """The answer of a streaming call. Whoever iterates `items` closes them."""

    items: CallStream
    place: OpenStream
    metadata: ReplyMetadata = ()


class Pipeline:
    """Turns requests into answers of operations; every error that leaves it is an `A2AError`."""

    def __init__(
        self,
        operations: Mapping[str, Operation],
        steps: Sequence[Step],
        streams: OpenStreams,
        *,
        max_values: int = MOST_VALUES,
    ) -> None:
        self._unary = cast("Mapping[str, UnaryOperation]", operations)
        self._streaming = cast("Mapping[str, StreamOperation]", operations)
        self._packed = {
            rpc: cast("PackedOperation", operation)
            for rpc, operation in operations.items()
            if hasattr(operation, "wire")
        }
        self._steps = tuple(steps)
        self._identity = tuple(step for step in steps if getattr(step, "needs_no_request", False))
        self._max_values = max_values
        self._large = LargeRequests()
        self.streams = streams
        self.draining = False

    async def read(self, rpc: str, kind: type[Message], raw: bytes, credentials: Credentials) -> Message:
        """Read a serialised request. It is known who calls before a large one is read, which goes in steps."""
        try:
            if len(raw) <= SMALL and len(raw) <= self._max_values:  # it cannot have more values than bytes
                return kind.FromString(raw)
            await self.identify(rpc, credentials)
            return await self._large.read(read_wire(raw, kind, self._max_values, "transport.max_values"))
        except DecodeError:  # whose own text would say how the server is made
            fault = f"The request is not a well-formed {kind.DESCRIPTOR.full_name}."
            raise A2AError(Reason.INVALID_PARAMS, fault) from None

    async def identify(self, rpc: str, credentials: Credentials) -> str:
        """Refuse a caller whose credentials are not valid, and return its name; anonymous ones have none."""
        try:
            admission = Admission(rpc, _NOTHING, credentials, CURRENT)
            for step in self._identity:
                if (unfinished := step(admission)) is not None:
                    await unfinished
        except Exception as error:  # noqa: BLE001 - as below
            fail(rpc, error)
        return _name(admission.caller)

    async def unary(self, rpc: str, request: Message, credentials: Credentials, *, spoken: str = CURRENT) -> UnaryReply:
        """Call. A door says what is `spoken` to it; a request of 0.3 has already become one of 1.0."""
        try:
            admission = await self._admit(rpc, request, credentials, spoken)
            call, metadata = admission.call(), admission.metadata
            if (packed := self._packed.get(rpc)) is not None:
                return UnaryReply(None, await packed.wire(call, request), packed.answers, metadata)
            message = await self._unary[rpc](call, request)
            return UnaryReply(message, b"", type(message), metadata)
        except Exception as error:  # noqa: BLE001 - nothing unexpected may reach a client
            fail(rpc, error)

    async def stream(
        self,
        rpc: str,
        request: Message,
        credentials: Credentials,
        *,
        shows_numbers: bool = False,
        spoken: str = CURRENT,
    ) -> Stream:
        """Begin a stream. A door that `shows_numbers` by itself honours cursors without the extension (RPLY-02)."""
        try:
            admission = await self._admit(rpc, request, credentials, spoken)
            if CURSOR in credentials.metadata and (shows_numbers or admission.numbers):
                admission.cursor = credentials.metadata[CURSOR]
            call = admission.call()
        except Exception as error:  # noqa: BLE001 - as above
            fail(rpc, error)
        place = OpenStream(_name(call.caller))
        batches = self._streaming[rpc](call, request)
        items = CallStream(rpc, batches, self.streams, place, numbers=admission.numbers)
        return Stream(items, place, admission.metadata)

    async def _admit(self, rpc: str, request: Message, credentials: Credentials, spoken: str) -> Admission:
        if self.draining:
            raise A2AError(Reason.UNAVAILABLE, "The server is stopping.", retry_after=1)
        admission = Admission(rpc, request, credentials, spoken)
        if request.ByteSize() > SMALL:
            admission.large = True
            await asyncio.sleep(0)
        for step in self._steps:
            if (unfinished := step(admission)) is not None:
                await unfinished
        return admission


def _name(caller: Caller) -> str:
    """By what an authenticated caller is counted, whatever connections it has."""
    return f"{caller.tenant}\n{caller.owner}" if caller.authenticated else ""
