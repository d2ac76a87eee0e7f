"""The error catalogue (spec: ERRS-01, ERRS-03, ERRS-05, ERRS-06, CONF-01): one row per error, and no other table.

An error is raised as `A2AError`, becomes a `google.rpc.Status` here, and gets its final form in the door that sends it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, unique
from typing import Final, Literal, NoReturn

from google.protobuf.message import Message
from google.rpc import code_pb2 as code
from google.rpc import error_details_pb2 as details
from google.rpc import status_pb2

from a2a_server.protocol.names import (
    RATE_HEADER,
    RATE_LIMIT_HEADER,
    RATE_POLICY_HEADER,
    RATE_REMAINING_HEADER,
    RATE_RESET_HEADER,
)

A2A_DOMAIN = "a2a-protocol.org"
"""`ErrorInfo.domain` of the errors that the protocol names."""

SERVER_DOMAIN = "a2a-server"
"""`ErrorInfo.domain` of our own errors."""

ErrorCodes = Literal["1.0.1", "1.0.0"]
"""The patch version whose codes are used; checkers built for 1.0.0 expect its codes."""

RATE_HEADERS: Final = {
    header.lower(): header
    for header in (RATE_LIMIT_HEADER, RATE_REMAINING_HEADER, RATE_RESET_HEADER, RATE_HEADER, RATE_POLICY_HEADER)
}
"""What limited callers are told with every answer, by the names that gRPC metadata has for it (LIMT-04)."""

_A2A_CODES = range(-32009, -32000)
_VERSION = re.compile(r"([0-9]+\.[0-9]+)(\.[0-9]+)?")

# A gRPC client refuses trailers above 8 KiB (or 16). The message travels twice, once percent-encoded at up to three
# bytes for one, and the details as base64, four for three: 3 * 512 + 4/3 * (512 + 2,560 + 5 * 256) < 7.5 KiB.
_LONGEST_MESSAGE = 512
_LONGEST_VIOLATIONS = 2560
LONGEST_VALUE = 200
LONGEST_CHALLENGE = 1000  # which names URLs and scopes, and comes without violations
_LONGEST_DESCRIPTION = 400  # of one violation: the names of all states must fit
_MOST_VALUES = 5
_MOST_VIOLATIONS = 100


@dataclass(frozen=True, slots=True)
class Row:
    """The codes of one error in gRPC, JSON-RPC and HTTP, and those of 1.0.0 where they differ (CONF-01)."""

    status: int
    jsonrpc: int
    http: int
    status_1_0_0: int | None = None
    http_1_0_0: int | None = None


@unique
class Reason(Enum):
    """One row per error: the codes in gRPC, JSON-RPC and HTTP."""

    TASK_NOT_FOUND = Row(code.NOT_FOUND, -32001, 404)
    TASK_NOT_CANCELABLE = Row(code.FAILED_PRECONDITION, -32002, 400, http_1_0_0=409)
    PUSH_NOTIFICATION_NOT_SUPPORTED = Row(code.FAILED_PRECONDITION, -32003, 400, code.UNIMPLEMENTED)
    UNSUPPORTED_OPERATION = Row(code.FAILED_PRECONDITION, -32004, 400, code.UNIMPLEMENTED)
    CONTENT_TYPE_NOT_SUPPORTED = Row(code.INVALID_ARGUMENT, -32005, 400, http_1_0_0=415)
    INVALID_AGENT_RESPONSE = Row(code.INTERNAL, -32006, 500, http_1_0_0=502)
    EXTENDED_AGENT_CARD_NOT_CONFIGURED = Row(code.FAILED_PRECONDITION, -32007, 400)
    EXTENSION_SUPPORT_REQUIRED = Row(code.FAILED_PRECONDITION, -32008, 400)
    VERSION_NOT_SUPPORTED = Row(code.FAILED_PRECONDITION, -32009, 400, code.UNIMPLEMENTED)

    # Not in the protocol's table. The official SDK has it under this name, in the protocol's domain.
    INVALID_PARAMS = Row(code.INVALID_ARGUMENT, -32602, 400)
    # Our own. Upstream counts up from -32001 and will not reach these numbers soon (CONF-59).
    UNAUTHENTICATED = Row(code.UNAUTHENTICATED, -32050, 401)
    PERMISSION_DENIED = Row(code.PERMISSION_DENIED, -32051, 403)
    OVERLOADED = Row(code.RESOURCE_EXHAUSTED, -32052, 429)
    SLOW_READER = Row(code.UNAVAILABLE, -32053, 503)
    DEADLINE_EXCEEDED = Row(code.DEADLINE_EXCEEDED, -32054, 504)
    QUOTA_EXCEEDED = Row(code.RESOURCE_EXHAUSTED, -32055, 429)  # like OVERLOADED, but waiting does not help
    UNAVAILABLE = Row(code.UNAVAILABLE, -32603, 503)
    INTERNAL = Row(code.INTERNAL, -32603, 500)
    # Faults of JSON-RPC's envelope and of HTTP, found before there is a call.
    PARSE_ERROR = Row(code.INVALID_ARGUMENT, -32700, 400)
    INVALID_REQUEST = Row(code.INVALID_ARGUMENT, -32600, 400)
    METHOD_NOT_FOUND = Row(code.UNIMPLEMENTED, -32601, 404)
    PATH_NOT_FOUND = Row(code.NOT_FOUND, -32601, 404)
    METHOD_NOT_ALLOWED = Row(code.UNIMPLEMENTED, -32600, 405)
    NOT_ACCEPTABLE = Row(code.INVALID_ARGUMENT, -32600, 406)
    REQUEST_TIMEOUT = Row(code.DEADLINE_EXCEEDED, -32600, 408)
    BODY_TOO_LARGE = Row(code.RESOURCE_EXHAUSTED, -32600, 413)
    URI_TOO_LONG = Row(code.INVALID_ARGUMENT, -32600, 414)
    ENCODING_NOT_SUPPORTED = Row(code.INVALID_ARGUMENT, -32600, 415)
    EXPECTATION_FAILED = Row(code.INVALID_ARGUMENT, -32600, 417)
    MISDIRECTED_REQUEST = Row(code.PERMISSION_DENIED, -32600, 421)
    HEADERS_TOO_LARGE = Row(code.RESOURCE_EXHAUSTED, -32600, 431)

    @property
    def jsonrpc_code(self) -> int:
        return self.value.jsonrpc

    def status(self, codes: ErrorCodes = "1.0.1") -> int:
        """Return the number of `google.rpc.Code`."""
        row = self.value
        return row.status if codes == "1.0.1" or row.status_1_0_0 is None else row.status_1_0_0

    def http(self, codes: ErrorCodes = "1.0.1") -> int:
        row = self.value
        return row.http if codes == "1.0.1" or row.http_1_0_0 is None else row.http_1_0_0

    @property
    def is_a2a(self) -> bool:
        """Whether the protocol names this error. Such errors always carry an `ErrorInfo` (ERRS-03)."""
        return self.jsonrpc_code in _A2A_CODES

    @property
    def sdk_type(self) -> str:
        """The official SDKs' class for it, whose name their 0.3 clients expect; empty if there is none."""
        if not (self.is_a2a or self in _SDK_REASONS):
            return ""
        return "".join(word.title() for word in self.name.split("_")) + "Error"

    @property
    def domain(self) -> str:
        return A2A_DOMAIN if self.is_a2a or self is Reason.INVALID_PARAMS else SERVER_DOMAIN


_SDK_REASONS = frozenset({Reason.INVALID_PARAMS, Reason.INVALID_REQUEST, Reason.METHOD_NOT_FOUND, Reason.INTERNAL})


@dataclass(frozen=True, slots=True)
class Violation:
    """One fault of a request: the field, spelt as in the proto (`message.parts[0]`), and what would be right."""

    field: str
    description: str


class A2AError(Exception):
    """A refusal or failure with a reason from the catalogue. The client sees `message`."""

    def __init__(  # noqa: PLR0913 - by keyword
        self,
        reason: Reason,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        violations: Sequence[Violation] = (),
        retry_after: float | None = None,
        told: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.retry_after = retry_after
        self.told = told
        """Headers that go with it; over gRPC, trailing metadata."""


def refuse(violations: Sequence[Violation], *, more: bool = False, reason: Reason = Reason.INVALID_PARAMS) -> NoReturn:
    """Raise one error that lists all faults (ERRS-05); `more` = there may be more than these."""
    raise A2AError(reason, summary(violations, more=more), violations=violations)


def summary(violations: Sequence[Violation], *, more: bool = False) -> str:
    """Say in one sentence what is wrong."""
    count, least, head = len(violations), "At least " if more else "", violations[0]
    return f"{head.field}: {head.description}" if count == 1 else f"{least}{count} fields of the request are wrong."


def task_not_found(task_id: str, config_id: str = "") -> A2AError:
    """Return the error for tasks that are unknown, purged or another caller's, or for their configs (PUSH-07)."""
    if not config_id:
        return A2AError(Reason.TASK_NOT_FOUND, "Task not found.", metadata={"taskId": task_id[:200]})
    metadata = {"taskId": task_id[:200], "configId": config_id[:200]}
    return A2AError(Reason.TASK_NOT_FOUND, "Push notification config not found.", metadata=metadata)


def deadline_exceeded(seconds: float) -> A2AError:
    """Return the error for a client whose deadline has passed; work on its task continues (GEN-07)."""
    text = f"There was no answer within {seconds:g} seconds. Work on a task goes on; get it or subscribe to it."
    return A2AError(Reason.DEADLINE_EXCEEDED, text)


def version_not_supported(text: str, asked: Sequence[str], supported: str) -> A2AError:
    """Return the error for a request that asks for other versions; in the text `{requested}` stands for them."""
    requested = ",".join(dict.fromkeys(asked))[:100]
    metadata = {"requestedVersion": requested, "supportedVersions": supported}
    return A2AError(Reason.VERSION_NOT_SUPPORTED, text.replace("{requested}", requested), metadata=metadata)


def major_minor(value: str) -> str:
    """Drop the patch of a version, which plays no part (VERS-04); what is no version stays as it is."""
    match = _VERSION.fullmatch(value)
    return match[1] if match else value


def status_of(error: A2AError, codes: ErrorCodes = "1.0.1") -> status_pb2.Status:
    """Turn an error into a `google.rpc.Status`, shortened to what fits into trailers."""
    status, message = status_pb2.Status(code=error.reason.status(codes)), error.message
    for detail in _details_of(error):
        status.details.add().Pack(detail)
        if isinstance(detail, details.BadRequest) and len(detail.field_violations) < len(error.violations):
            message += f" The first {len(detail.field_violations)} are listed."
    status.message = _clip(message, _LONGEST_MESSAGE)
    return status


def _details_of(error: A2AError) -> Iterable[Message]:
    if error.violations:
        yield _bad_request(error.violations)
    if error.metadata or error.reason is not Reason.INTERNAL:  # an internal error has no details
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
        metadata={
            name: _clip(value, LONGEST_CHALLENGE if name == "challenge" else LONGEST_VALUE) for name, value in values
        },
    )


def _bad_request(violations: Iterable[Violation]) -> details.BadRequest:
    answer = details.BadRequest()
    room = _LONGEST_VIOLATIONS
    for number, violation in enumerate(violations):
        field = _clip(violation.field, LONGEST_VALUE)
        description = _clip(violation.description, _LONGEST_DESCRIPTION)
        room -= len(field.encode()) + len(description.encode()) + 8
        if number == _MOST_VIOLATIONS or room < 0:
            break
        answer.field_violations.add(field=field, description=description)
    return answer


def _clip(text: str, longest: int) -> str:
    encoded = text.encode(errors="replace")  # bytes of a header may be lone surrogates
    return encoded.decode() if len(encoded) <= longest else encoded[: longest - 3].decode(errors="ignore") + "…"


class StatusError(Exception):
    """An error that an upstream in another process has answered with."""

    def __init__(
        self,
        status: status_pb2.Status,
        trailers: Sequence[tuple[str, str | bytes]] = (),
        metadata: Sequence[tuple[str, str | bytes]] = (),
    ) -> None:
        super().__init__(status.message)
        self.status = status
        self.trailers = trailers
        self.metadata = metadata
        """What the upstream sent before the error."""
