"""Turns the failure of a gRPC call into an error for the client and a line in the log, and knows when to try again.

Serves DOOR-01, DOOR-07, GRPC-04, ERRS-06, ERRS-07 and IDEM-01.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import grpc
import structlog
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, status_pb2
from google.rpc.error_details_pb2 import ErrorInfo

from a2a_gateway.upstream import MetadataPairs
from a2a_server.protocol.errors import A2AError, Reason, StatusError, deadline_exceeded, status_of
from a2a_server.protocol.names import STATUS_DETAILS

log = structlog.get_logger(__name__)

_FAILED: Final = frozenset({code_pb2.UNKNOWN, code_pb2.INTERNAL})
_INFO: Final = ErrorInfo.DESCRIPTOR.full_name
_LONGEST_TEXT: Final = 1000
_LONGEST_REASON: Final = 300

NO_ANSWER = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
"""The codes that gRPC itself reports when the upstream does not answer."""


def client_error(
    error: grpc.aio.AioRpcError, seconds: float | None, told: Callable[[MetadataPairs], MetadataPairs] = tuple
) -> A2AError | StatusError:
    """Turn a gRPC error into one for the client.

    `seconds` is the timeout of the call; `told` chooses the metadata that the client gets.
    """
    trailers = [pair for pair in pairs(error.trailing_metadata()) if pair[0] != STATUS_DETAILS]
    metadata = told(pairs(error.initial_metadata()))
    status = _sent_status(error)
    if status is None and (reworded := _for_grpc_error(error, seconds)) is not None:
        return StatusError(status_of(reworded), trailers, metadata) if trailers or metadata else reworded
    said = status or status_pb2.Status(code=error.code().value[0], message=error.details() or "")
    return StatusError(_hide_text(said), trailers, metadata)


def _for_grpc_error(error: grpc.aio.AioRpcError, seconds: float | None) -> A2AError | None:
    """Reword an error that gRPC itself reports, on this side or the upstream's; None for other errors."""
    code, text = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE:
        return unreachable()  # gRPC's own text names the addresses that it has tried
    if code is grpc.StatusCode.DEADLINE_EXCEEDED and seconds is not None:
        return deadline_exceeded(seconds)
    return _too_large(text) if code is grpc.StatusCode.RESOURCE_EXHAUSTED else None


def _too_large(text: str) -> A2AError | None:
    """Find out from gRPC's text what was too large, and which side has refused it."""
    if "message larger than max" in text:
        if "CLIENT: " in text:
            return A2AError(Reason.INTERNAL, "The answer is larger than this gateway accepts.")
        return A2AError(Reason.BODY_TOO_LARGE, "The request is larger than the agent's server accepts.")
    if "metadata size exceeds" in text:
        if text.startswith("Stream removed"):
            return A2AError(Reason.INTERNAL, "The answer's metadata is larger than this gateway accepts.")
        return A2AError(Reason.HEADERS_TOO_LARGE, "The headers are larger than the agent's server accepts.")
    return None


def _hide_text(status: status_pb2.Status) -> status_pb2.Status:
    """Log an unexpected error and hide its text, because servers often put the text of an exception there."""
    if status.code not in _FAILED or any(packed.TypeName() == _INFO for packed in status.details):
        return status
    incident = secrets.token_hex(8)
    text = status.message[:_LONGEST_TEXT]
    log.error("upstream.failed", incident=incident, code=code_pb2.Code.Name(status.code), text=text)
    return status_of(A2AError(Reason.INTERNAL, "Internal error.", metadata={"incident": incident}))


def is_answer(error: grpc.aio.AioRpcError) -> bool:
    """Whether the upstream itself has answered. Errors that gRPC reports on this side have no details."""
    return error.code() not in NO_ANSWER or _sent_status(error) is not None


def unreachable() -> A2AError:
    """Return the error for an upstream that does not answer."""
    return A2AError(Reason.UNAVAILABLE, "The agent's server cannot be reached now.", retry_after=1)


def malformed(kind: str) -> A2AError:
    """Return the error for an answer that is not well-formed."""
    return A2AError(Reason.INTERNAL, f"The agent's server did not answer with a well-formed {kind}.")


def _sent_status(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    packed = next((value for name, value in pairs(error.trailing_metadata()) if name == STATUS_DETAILS), None)
    try:
        status = status_pb2.Status.FromString(packed) if isinstance(packed, bytes) else None
    except DecodeError:
        return None
    return status if status is not None and status.code else None


def pairs(metadata: grpc.aio.Metadata | None) -> MetadataPairs:
    return tuple(metadata or ())


@dataclass(slots=True, eq=False)
class Reachability:
    """Logs once when an address becomes unreachable, and once when it answers again.

    The log is for the operator. Clients see neither the address nor gRPC's reason.
    """

    _address: str
    _is_away: bool = False

    def answered(self) -> None:
        if self._is_away:
            self._is_away = False
            log.warning("upstream.back", address=self._address)

    def lost(self, reason: str) -> None:
        if not self._is_away:
            self._is_away = True
            log.warning("upstream.unavailable", address=self._address, reason=reason[:_LONGEST_REASON])

    def failed(self, error: grpc.aio.AioRpcError) -> None:
        """Note the failure of a call. Only UNAVAILABLE from gRPC itself means that the address is unreachable."""
        if is_answer(error):
            self.answered()
        elif error.code() is grpc.StatusCode.UNAVAILABLE:
            self.lost(error.details() or "")


FIRST_PAUSE = 0.05
"""How many seconds to wait before the second attempt. The pause doubles before each further one."""


def pauses(attempts: int) -> Iterator[float]:
    """Yield the pause after each attempt; 0 after the last. It is random, so that callers do not all return at once."""
    for number in range(attempts - 1):
        yield FIRST_PAUSE * 2**number * random.uniform(0.8, 1.2)  # noqa: S311 - only to spread
    yield 0.0
