"""A2AError → google.rpc.Status → gRPC's trailers (spec: GRPC-04, ERRS-01, ERRS-03, ERRS-05, ERRS-06, CONF-01)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2 as details
from google.rpc import status_pb2

from a2a_server.errors import A2AError, Reason, Violation
from a2a_server.transport.options import ErrorCodes

DETAILS = "grpc-status-details-bin"
_CODES = {code.value[0]: code for code in grpc.StatusCode}

# A client refuses trailers above 8 KiB (or 16). The message travels twice, once percent-encoded at up to three bytes
# for one, and the details as base64, four for three: 3 * 512 + 4/3 * (512 + 2,560 + 5 * 256) < 7.5 KiB.
_LONGEST_MESSAGE = 512
_LONGEST_VIOLATIONS = 2560
_LONGEST_VALUE = 200
_LONGEST_DESCRIPTION = 400  # of one violation: the names of all states must fit
_MOST_VALUES = 5
_MOST_VIOLATIONS = 100


@dataclass(frozen=True, slots=True)
class Abort:
    """The arguments of `context.abort`."""

    code: grpc.StatusCode
    message: str
    trailers: tuple[tuple[str, str | bytes], ...]


def abort_of(error: A2AError, codes: ErrorCodes = "1.0.1") -> Abort:
    status = status_of(error, codes)
    trailers: list[tuple[str, str | bytes]] = [(DETAILS, status.SerializeToString())]
    if challenge := error.metadata.get("challenge"):
        trailers.append(("www-authenticate", challenge[:_LONGEST_VALUE]))
    return Abort(_CODES[status.code], status.message, tuple(trailers))


def status_of(error: A2AError, codes: ErrorCodes = "1.0.1") -> status_pb2.Status:
    """Say it in Google's words; what would not fit into trailers is cut."""
    reason = error.reason
    code = reason.status if codes == "1.0.1" else reason.status_1_0_0
    status = status_pb2.Status(code=code, message=_clip(error.message, _LONGEST_MESSAGE))
    for detail in _details_of(error):
        status.details.add().Pack(detail)
    return status


def _details_of(error: A2AError) -> Iterable[Message]:
    if error.violations:
        yield _bad_request(error.violations)
    if error.metadata or error.reason is not Reason.INTERNAL:  # whose code says it all already
        yield _info(error)
    if error.retry_after is not None:
        retry = details.RetryInfo()
        retry.retry_delay.FromMilliseconds(round(error.retry_after * 1000))
        yield retry


def _info(error: A2AError) -> details.ErrorInfo:
    values = list(error.metadata.items())[:_MOST_VALUES]
    return details.ErrorInfo(
        reason=error.reason.name,
        domain=error.reason.domain,
        metadata={name: _clip(value, _LONGEST_VALUE) for name, value in values},
    )


def _bad_request(violations: Iterable[Violation]) -> details.BadRequest:
    answer = details.BadRequest()
    room = _LONGEST_VIOLATIONS
    for number, violation in enumerate(violations):
        field = _clip(violation.field, _LONGEST_VALUE)
        description = _clip(violation.description, _LONGEST_DESCRIPTION)
        room -= len(field.encode()) + len(description.encode()) + 8
        if number == _MOST_VIOLATIONS or room < 0:
            break
        answer.field_violations.add(field=field, description=description)
    return answer


def _clip(text: str, longest: int) -> str:
    encoded = text.encode(errors="replace")
    return text if len(encoded) <= longest else encoded[: longest - 3].decode(errors="ignore") + "…"
