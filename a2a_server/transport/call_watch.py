"""What the audit and the access log are told of calls (spec: SECR-01, OPER-08); nothing runs where neither wants it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence, Sized
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from google.rpc import code_pb2, error_details_pb2

from a2a_server.ports.journal import AuditEvent, AuditKind, CallRecord
from a2a_server.protocol.errors import A2AError, Reason, StatusError
from a2a_server.protocol.names import REQUEST_ID

if TYPE_CHECKING:  # which imports this module
    from a2a_server.transport.pipeline import Admission

T = TypeVar("T")
B_co = TypeVar("B_co", bound=Sized, covariant=True)

Told = Callable[[str, float, int | None], None]
"""Takes the outcome, the seconds, and the number of events."""


class Watch:
    """One call, from its beginning to its end, which is told once."""

    __slots__ = ("_began", "_tell", "events", "outcome")

    def __init__(self, tell: Told) -> None:
        self._tell: Told | None = tell
        self._began = time.perf_counter()
        self.events: int | None = None
        self.outcome = "CANCELLED"

    def failed(self, error: BaseException) -> None:
        self.outcome = outcome_of(error)

    def end(self) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(self.outcome, time.perf_counter() - self._began, self.events)


def outcome_of(error: BaseException) -> str:
    """Name an error by its reason, as clients are told it."""
    if isinstance(error, A2AError):
        return error.reason.name
    if isinstance(error, StatusError):
        info = error_details_pb2.ErrorInfo()
        reasons = [info.reason for detail in error.status.details if detail.Unpack(info)]
        return reasons[0] if reasons else str(code_pb2.Code.Name(error.status.code))
    return "INTERNAL" if isinstance(error, Exception) else "CANCELLED"


async def watched(answer: Awaitable[T], tell: Told) -> T:
    """As a `Watch` does it, written out: there is one for every call."""
    began, outcome = time.perf_counter(), "CANCELLED"
    try:
        found = await answer
    except Exception as error:
        outcome = outcome_of(error)
        raise
    else:
        outcome = "OK"
        return found
    finally:
        tell(outcome, time.perf_counter() - began, None)


async def watched_failure(answer: Awaitable[T], tell: Told) -> T:
    """As above for what only precedes a call: that it went well is not told."""
    watch = Watch(tell)
    try:
        return await answer
    except Exception as error:
        watch.failed(error)
        watch.end()
        raise


class Batches(Protocol[B_co]):
    """What a stream consists of."""

    async def __anext__(self) -> B_co: ...

    async def aclose(self) -> None: ...


class WatchedBatches(Generic[B_co]):
    """Batches of a stream, counted; its end is told when it is closed."""

    def __init__(self, batches: Any, watch: Watch) -> None:  # noqa: ANN401 - see `Batches`
        self._batches: Batches[B_co] = batches
        self._watch = watch
        watch.events = 0

    def deliver_to(self, sink: Callable[[Any], bool]) -> None:
        """Pass it on, and count what the sink takes."""
        batches: Any = self._batches
        batches.deliver_to(self.counting(sink))

    def counting(self, sink: Callable[[Any], bool]) -> Callable[[Any], bool]:
        def take(batch: Sequence[object]) -> bool:
            taken = sink(batch)
            if taken:
                self._count(batch)
            return taken

        return take

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> B_co:
        try:
            batch = await anext(self._batches)
        except StopAsyncIteration:
            self._watch.outcome = "OK"
            raise
        except Exception as error:
            self._watch.failed(error)
            raise
        self._count(batch)
        return batch

    def _count(self, batch: Sized) -> None:
        self._watch.events = (self._watch.events or 0) + len(batch)
        if getattr(batch, "ends", False):
            self._watch.outcome = "OK"

    async def aclose(self) -> None:
        try:
            await self._batches.aclose()
        finally:
            self._watch.end()


def record_of(call: Admission, outcome: str, seconds: float, events: int | None) -> CallRecord:
    known, caller = call.credentials, call.caller
    ids = known.metadata.get(REQUEST_ID)
    return CallRecord(
        call.rpc,
        known.door,
        call.version,
        caller.owner if caller.authenticated else "",
        call.scope.tenant,
        known.peer,
        outcome,
        seconds,
        events,
        "" if call.trace is None else call.trace.parent,
        ids[0] if ids else "",
    )


def denial_of(call: Admission, reason: Reason) -> AuditEvent:
    owner = call.caller.owner if call.caller.authenticated else ""
    known = call.credentials
    return AuditEvent(
        AuditKind.CALL_DENIED, owner, call.caller.tenant, known.peer, known.door, rpc=call.rpc, reason=reason.name
    )
