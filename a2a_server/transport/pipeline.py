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
from functools import partial
from typing import ClassVar, Final, NoReturn, TypeAlias, cast

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError, Message

from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.operations.call import (
    Call,
    EventStream,
    Operation,
    SerializedOperation,
    StreamOperation,
    UnaryOperation,
)
from a2a_server.ports.authenticator import Caller, Credentials
from a2a_server.ports.journal import AccessLog, Audit
from a2a_server.protocol.codec.sizes import MOST_VALUES, read_wire
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.large import LargeRequests
from a2a_server.protocol.names import CURRENT, CURSOR
from a2a_server.protocol.options import SMALL
from a2a_server.transport.call_watch import Watch, WatchedBatches, denial_of, record_of, watched, watched_failure
from a2a_server.transport.open_streams import CallStream, OpenStream, OpenStreams, Requests, all_of, fail

ReplyMetadata = tuple[tuple[str, str], ...]

_NOTHING: Final = Empty()
_NONE: Final[frozenset[str]] = frozenset()
_NOBODY: Final = Caller()
_NOWHERE: Final = Scope("", _NOBODY.owner)
_DENIALS: Final = frozenset({401, 403, 429})


class Admission:
    """A call while the steps settle it: what its door handed over, and what is known about it so far."""

    __slots__ = (
        "allowance",
        "caller",
        "credentials",
        "cursor",
        "extensions",
        "idempotency_key",
        "large",
        "leave",
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
        self.allowance: ReplyMetadata = ()
        """What the client may still ask for, as headers. It is told with every answer, errors too."""
        self.leave: Callable[[], None] | None = None
        """Says that a unary call is over, or that a stream has begun."""

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
            self.credentials.peer,
            self.credentials.door,
        )


Step: TypeAlias = Callable[[Admission], Awaitable[None] | None]
"""Reads the admission and settles its part of it, or refuses the call. One that has to wait returns an awaitable."""


class UnaryReply:
    """The answer of a unary call, as a message or as bytes, and the metadata that goes before it."""

    __slots__ = ("_message", "_wire", "answers", "headers", "metadata")

    trailers: ClassVar[ReplyMetadata] = ()
    """The metadata that goes behind it: a gateway's upstream may have some, this server has none."""

    def __init__(
        self,
        message: Message | None,
        wire: bytes,
        answers: type[Message],
        metadata: ReplyMetadata,
        headers: ReplyMetadata = (),
    ) -> None:
        self._message = message
        self._wire = wire
        self.answers = answers
        self.metadata = metadata
        self.headers = headers
        """What goes with it under names of its own: headers of HTTP, trailing metadata of gRPC."""

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

    items: EventStream
    place: OpenStream
    metadata: ReplyMetadata = ()


class Pipeline:
    """Turns requests into answers of operations; every error that leaves it is an `A2AError`."""

    def __init__(  # noqa: PLR0913 - what a server has, by keyword
        self,
        operations: Mapping[str, Operation],
        steps: Sequence[Step],
        streams: OpenStreams,
        *,
        max_values: int = MOST_VALUES,
        audit: Audit | None = None,
        access: AccessLog | None = None,
    ) -> None:
        self._unary = cast("Mapping[str, UnaryOperation]", operations)
        self._streaming = cast("Mapping[str, StreamOperation]", operations)
        self._packed = {
            rpc: cast("SerializedOperation", operation)
            for rpc, operation in operations.items()
            if hasattr(operation, "wire")
        }
        self._steps = tuple(steps)
        self._identity = tuple(step for step in steps if getattr(step, "needs_no_request", False))
        self._max_values = max_values
        self._large = LargeRequests()
        self._audit = audit
        self._access = access
        self.streams = streams
        self.leaving = False
        """Whether balancers should send no more calls; those that come are still taken."""
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
            error = A2AError(Reason.INVALID_PARAMS, fault)
            if self._access is not None:
                self._tell(Admission(rpc, _NOTHING, credentials, CURRENT), error.reason.name, 0.0, None)
            raise error from None

    def identify(self, rpc: str, credentials: Credentials) -> Awaitable[str]:
        """Refuse a caller whose credentials are not valid, and return its name; anonymous ones have none."""
        admission = Admission(rpc, _NOTHING, credentials, CURRENT)
        name = self._identify(admission)
        return name if self._access is None else watched_failure(name, partial(self._tell, admission))

    async def _identify(self, admission: Admission) -> str:
        try:
            for step in self._identity:
                if (unfinished := step(admission)) is not None:
                    await unfinished
        except Exception as error:  # noqa: BLE001 - as below
            self._refuse(admission, error)
        return _name(admission.caller)

    def unary(
        self,
        rpc: str,
        request: Message,
        credentials: Credentials,
        *,
        spoken: str = CURRENT,
        rest: Requests | None = None,
    ) -> Awaitable[UnaryReply]:
        """Call. A door says what is `spoken` to it; a request of 0.3 has already become one of 1.0.

        If the client streams, `rest` is what follows the first message, and the operation gets an iterator of them all.
        """
        admission = Admission(rpc, request, credentials, spoken)
        reply = self._reply(admission, rest)
        return reply if self._access is None else watched(reply, partial(self._tell, admission))

    async def _reply(self, admission: Admission, rest: Requests | None) -> UnaryReply:
        rpc, request = admission.rpc, admission.request
        try:
            await self._admit(admission)
            call, metadata, headers = admission.call(), admission.metadata, admission.allowance
            if rest is not None:
                message = await self._unary[rpc](call, all_of(request, rest, call.scope.tenant))
                return UnaryReply(message, b"", type(message), metadata, headers)
            if (packed := self._packed.get(rpc)) is not None:
                return UnaryReply(None, await packed.wire(call, request), packed.answers, metadata, headers)
            message = await self._unary[rpc](call, request)
            return UnaryReply(message, b"", type(message), metadata, headers)
        except Exception as error:  # noqa: BLE001 - nothing unexpected may reach a client
            self._refuse(admission, error)
        finally:
            if admission.leave is not None:
                admission.leave()

    async def stream(  # noqa: PLR0913 - what a door knows, by keyword
        self,
        rpc: str,
        request: Message,
        credentials: Credentials,
        *,
        shows_numbers: bool = False,
        spoken: str = CURRENT,
        rest: Requests | None = None,
    ) -> Stream:
        """Begin a stream. A door that `shows_numbers` by itself honours cursors without the extension (RPLY-02)."""
        admission = Admission(rpc, request, credentials, spoken)
        if self._access is None:
            return await self._begin(admission, rest, shows_numbers=shows_numbers)
        watch = Watch(partial(self._tell, admission))
        try:
            stream = await self._begin(admission, rest, shows_numbers=shows_numbers)
        except BaseException as error:
            watch.failed(error)
            watch.end()
            raise
        return Stream(WatchedBatches(stream.items, watch), stream.place, stream.metadata)

    async def _begin(self, admission: Admission, rest: Requests | None, *, shows_numbers: bool) -> Stream:
        metadata = admission.credentials.metadata
        try:
            await self._admit(admission)
            if CURSOR in metadata and (shows_numbers or admission.numbers):
                admission.cursor = metadata[CURSOR]
            call = admission.call()
        except Exception as error:  # noqa: BLE001 - as above
            self._refuse(admission, error)
        finally:
            if admission.leave is not None:
                admission.leave()
        place = OpenStream(_name(call.caller))
        asked = admission.request if rest is None else all_of(admission.request, rest, call.scope.tenant)
        batches = self._streaming[admission.rpc](call, asked)
        items = CallStream(partial(self._refuse, admission), batches, self.streams, place, numbers=admission.numbers)
        return Stream(items, place, admission.metadata + in_metadata(admission.allowance))

    async def _admit(self, admission: Admission) -> None:
        if self.draining:
            raise A2AError(Reason.UNAVAILABLE, "The server is stopping.", retry_after=1)
        if admission.request.ByteSize() > SMALL:
            admission.large = True
            await asyncio.sleep(0)
        for step in self._steps:
            if (unfinished := step(admission)) is not None:
                await unfinished

    def _refuse(self, admission: Admission, error: Exception) -> NoReturn:
        """End a call that failed. Who is denied is told to the audit, here and nowhere else (SECR-01)."""
        if self._audit is not None and isinstance(error, A2AError) and error.reason.http() in _DENIALS:
            self._audit.tell(denial_of(admission, error.reason))
        fail(admission.rpc, error, admission.allowance)

    def _tell(self, call: Admission, outcome: str, seconds: float, events: int | None) -> None:
        """Tell the access log of a call that has ended."""
        if self._access is not None:
            self._access.ended(record_of(call, outcome, seconds, events))


def in_metadata(headers: Sequence[tuple[str, str]]) -> ReplyMetadata:
    """Headers under the names that gRPC has for them."""
    return tuple([(name.lower(), value) for name, value in headers])


def _name(caller: Caller) -> str:
    """By what an authenticated caller is counted, whatever connections it has."""
    return f"{caller.tenant}\n{caller.owner}" if caller.authenticated else ""
