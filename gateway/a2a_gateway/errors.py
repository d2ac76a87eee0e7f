"""Turns a google.rpc.Status into errors for REST, JSON-RPC and stream frames (spec: ERRS, CONF-01, CONF-05)."""

from __future__ import annotations

import base64
import math
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import structlog
from aiohttp import hdrs
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.json_format import Error as JsonError
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from google.rpc import code_pb2 as code
from google.rpc import error_details_pb2 as details
from google.rpc import status_pb2

from a2a_gateway.upstream import MetadataPairs
from a2a_server.protocol.errors import A2A_DOMAIN, SERVER_DOMAIN, A2AError, ErrorCodes, Reason, StatusError, status_of
from a2a_server.protocol.names import CHALLENGE, CHALLENGE_HEADER

log = structlog.get_logger(__name__)

Headers = Sequence[tuple[str, str]]

_UNEXPECTED: Final = 500, Reason.INTERNAL
_BY_CODE: Final[Mapping[int, tuple[int, Reason]]] = {
    code.CANCELLED: (503, Reason.UNAVAILABLE),  # google.api.http has 499, which is not a standard status
    code.INVALID_ARGUMENT: (400, Reason.INVALID_PARAMS),
    code.DEADLINE_EXCEEDED: (504, Reason.DEADLINE_EXCEEDED),
    code.NOT_FOUND: (404, Reason.TASK_NOT_FOUND),  # calls name nothing but tasks
    code.ALREADY_EXISTS: (409, Reason.INTERNAL),
    code.PERMISSION_DENIED: (403, Reason.PERMISSION_DENIED),
    code.UNAUTHENTICATED: (401, Reason.UNAUTHENTICATED),
    code.RESOURCE_EXHAUSTED: (429, Reason.OVERLOADED),
    code.FAILED_PRECONDITION: (400, Reason.UNSUPPORTED_OPERATION),
    code.ABORTED: (409, Reason.INTERNAL),
    code.OUT_OF_RANGE: (400, Reason.INVALID_PARAMS),
    code.UNIMPLEMENTED: (501, Reason.UNSUPPORTED_OPERATION),
    code.UNAVAILABLE: (503, Reason.UNAVAILABLE),
}
"""The HTTP status of google.api.http and the nearest reason, for statuses without a reason of the catalogue."""
_NAMES: Final = {number: name for name, number in code.Code.items()}
STANDARD_TEXTS = {
    -32700: "Invalid JSON payload",
    -32600: "Request payload validation error",
    -32601: "Method not found",
    -32602: "Invalid parameters",
    -32603: "Internal error",
}
_INFO = f"type.googleapis.com/{details.ErrorInfo.DESCRIPTOR.full_name}"
_DOMAINS = frozenset({A2A_DOMAIN, SERVER_DOMAIN})
_KEY_OR_WORD = re.compile(r'\["(?:[^"\\]|\\.)*"\]|_([a-z0-9])')


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call, with all that the bindings need to write it."""

    http: int
    code: int
    """The number of the `google.rpc.Code`."""
    message: str
    details: list[dict[str, Any]]
    jsonrpc: int
    reason: Reason
    """The row of the catalogue, or the nearest one for an error that is not in it."""
    headers: Headers = ()

    def rest(self) -> bytes:
        """Return the body for REST (ERRS-02). Its `code` is the HTTP status."""
        return orjson.dumps({"error": {**self.status(), "details": self.details}})

    def status(self) -> dict[str, Any]:
        """Return everything except the details."""
        return {"code": self.http, "status": _NAMES.get(self.code, "UNKNOWN"), "message": self.message}

    def ndjson(self) -> bytes:
        """Return the last line of a stream in grpc-gateway's form. Its `code` is gRPC's number (DOOR-11)."""
        return orjson.dumps({"error": {"code": self.code, "message": self.message, "details": self.details}})

    def jsonrpc_error(self) -> dict[str, Any]:
        """Return the error object of JSON-RPC (ERRS-04, JRPC-08). A code with a standard text begins with that text."""
        error: dict[str, Any] = {
            "code": self.jsonrpc,
            "message": with_standard_text(STANDARD_TEXTS, self.jsonrpc, self.message),
        }
        if self.details:
            error["data"] = self.details
        return error


def with_standard_text(standard: Mapping[int, str], number: int, own: str) -> str:
    """Return the standard text of an error code, if it has one, followed by our own text."""
    first = standard.get(number, "")
    return ": ".join(filter(None, (first, "" if own.rstrip(".") == first else own)))


def failure_of(error: A2AError | StatusError, codes: ErrorCodes = "1.0.1", form: type[Failure] = Failure) -> Failure:
    """Turn an error into what the bindings write."""
    if isinstance(error, A2AError):
        return _failure(status_of(error, codes), (), codes, form)
    return _failure(error.status, error.trailers, codes, form)


def explain(error: Exception, codes: ErrorCodes = "1.0.1", form: type[Failure] = Failure) -> Failure:
    """Turn any error into what the bindings write. Details of unexpected errors go to the log only (ERRS-07)."""
    if isinstance(error, A2AError | StatusError):
        return failure_of(error, codes, form)
    incident = secrets.token_hex(8)
    log.error("gateway.failed", incident=incident, exc_info=error)
    return failure_of(A2AError(Reason.INTERNAL, "Internal error.", metadata={"incident": incident}), codes, form)


def _failure(status: status_pb2.Status, trailers: MetadataPairs, codes: ErrorCodes, form: type[Failure]) -> Failure:
    shown, headers = [], []
    reason: Reason | None = None
    informed = False
    message = status.message
    for packed in status.details:
        known = _unpacked(packed)
        if isinstance(known, details.ErrorInfo):
            informed = True
            reason = (Reason.__members__.get(known.reason) if known.domain in _DOMAINS else None) or reason
            if challenge := known.metadata.get("challenge"):
                headers.append((CHALLENGE_HEADER, "".join(filter(str.isprintable, challenge))))
        elif isinstance(known, details.RetryInfo):
            seconds = known.retry_delay.seconds + known.retry_delay.nanos / 1e9
            headers.append((hdrs.RETRY_AFTER, str(max(math.ceil(seconds), 0))))
        elif isinstance(known, details.BadRequest):
            message = with_json_names(known, message, json_path)
            packed.Pack(known)
        shown.append(_detail(packed))
    if not any(name == CHALLENGE_HEADER for name, _ in headers):
        headers += [(CHALLENGE_HEADER, str(value)) for name, value in trailers if name == CHALLENGE]
    http, nearest = (reason.http(codes), reason) if reason else _BY_CODE.get(status.code, _UNEXPECTED)
    if not informed:  # clients decide by the reason, whoever chose it (CONF-05)
        shown.append({"@type": _INFO, "reason": nearest.name, "domain": nearest.domain})
    return form(
        http=http,
        code=reason.status(codes) if reason else status.code,
        message=message,
        details=shown,
        jsonrpc=nearest.jsonrpc_code,
        reason=nearest,
        headers=headers,
    )


def with_json_names(bad: details.BadRequest, message: str, spell: Callable[[str], str]) -> str:
    """Rename the fields, also where the message begins with a field. Return the message."""
    for violation in bad.field_violations:
        field = spell(violation.field)
        if message.startswith(violation.field):
            message = field + message[len(violation.field) :]
        violation.field = field
    return message


def json_path(field: str) -> str:
    """Turn `message.message_id` into `message.messageId`. Keys in brackets and quotes are the client's, and stay."""
    return _KEY_OR_WORD.sub(lambda match: match[1].upper() if match[1] else match[0], field)


_DETAILS = {kind.DESCRIPTOR.full_name: kind for kind in (details.ErrorInfo, details.RetryInfo, details.BadRequest)}


def _unpacked(packed: Packed) -> details.ErrorInfo | details.RetryInfo | details.BadRequest | None:
    kind = _DETAILS.get(packed.TypeName())
    if kind is None:
        return None
    try:
        return kind.FromString(packed.value)
    except DecodeError:
        return None


def _detail(packed: Packed) -> dict[str, Any]:
    """Write a detail as ProtoJSON writes an Any. One that is unknown or broken is written as its bytes."""
    try:
        return MessageToDict(packed)
    except (TypeError, JsonError, DecodeError):
        return {"@type": packed.type_url, "value": base64.b64encode(packed.value).decode()}
