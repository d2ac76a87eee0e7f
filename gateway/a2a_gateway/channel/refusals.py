"""What a failed gRPC call means to the gateway (spec: GRPC-04, ERRS-06, ERRS-07)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
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

ABSENT = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
"""What gRPC says when nobody answers."""

_TOO_LARGE = "message larger than max"
_TOO_MUCH = "metadata size exceeds"
_HERE, _HERE_TOO = "CLIENT: ", "Stream removed"
"""How gRPC marks what this end of the call has found."""


def refusal_of(
    error: grpc.aio.AioRpcError, seconds: float | None, told: Callable[[MetadataPairs], MetadataPairs] = tuple
) -> A2AError | StatusError:
    """Take an error apart. `seconds` is what the call was given, `told` what of metadata a client should know."""
    trailers = [pair for pair in pairs(error.trailing_metadata()) if pair[0] != STATUS_DETAILS]
    metadata = told(pairs(error.initial_metadata()))
    status = _detailed(error)
    if status is None and (own := _own(error, seconds)) is not None:
        return StatusError(status_of(own), trailers, metadata) if trailers or metadata else own
    said = status or status_pb2.Status(code=error.code().value[0], message=error.details() or "")
    return StatusError(_discreet(said), trailers, metadata)


def _own(error: grpc.aio.AioRpcError, seconds: float | None) -> A2AError | None:
    """What gRPC has found, or the upstream's gRPC, in words that are for clients."""
    code, text = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE:
        return away()  # gRPC's own text names the addresses it has tried
    if code is grpc.StatusCode.DEADLINE_EXCEEDED and seconds is not None:
        return deadline_exceeded(seconds)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in text:
        return _too_large(text)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_MUCH in text:
        return _too_much(text)
    return None


def _discreet(status: status_pb2.Status) -> status_pb2.Status:
    """What an upstream says to nobody in particular is for the log: servers put there what their code has raised."""
    if status.code not in _FAILED or any(packed.TypeName() == _INFO for packed in status.details):
        return status
    incident = secrets.token_hex(8)
    text = status.message[:_LONGEST_TEXT]
    log.error("upstream.failed", incident=incident, code=code_pb2.Code.Name(status.code), text=text)
    return status_of(A2AError(Reason.INTERNAL, "Internal error.", metadata={"incident": incident}))


def is_answer(error: grpc.aio.AioRpcError) -> bool:
    """Whether the upstream itself has refused; what gRPC finds out at this end has no details."""
    return error.code() not in ABSENT or _detailed(error) is not None


def away() -> A2AError:
    """Nobody is there, or nobody that serves."""
    return A2AError(Reason.UNAVAILABLE, "The agent's server cannot be reached now.", retry_after=1)


def garbled(kind: str) -> A2AError:
    """The upstream says something that is not in the protocol."""
    return A2AError(Reason.INTERNAL, f"The agent's server did not answer with a well-formed {kind}.")


def _too_large(text: str) -> A2AError:
    if _HERE in text:
        return A2AError(Reason.INTERNAL, "The answer is larger than this gateway takes.")
    return A2AError(Reason.BODY_TOO_LARGE, "The request is larger than the agent's server takes.")


def _too_much(text: str) -> A2AError:
    if text.startswith(_HERE_TOO):
        return A2AError(Reason.INTERNAL, "The answer's metadata is more than this gateway takes.")
    return A2AError(Reason.HEADERS_TOO_LARGE, "The headers are more than the agent's server takes.")


def _detailed(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    for name, value in pairs(error.trailing_metadata()):
        if name == STATUS_DETAILS and isinstance(value, bytes):
            try:
                status = status_pb2.Status.FromString(value)
            except DecodeError:
                return None
            return status if status.code else None
    return None


def pairs(metadata: grpc.aio.Metadata | None) -> MetadataPairs:
    """As plain pairs, in order."""
    return tuple(metadata or ())
