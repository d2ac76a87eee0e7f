"""Errors of the HTTP doors as the error that a gRPC client would raise, so that one test reads them all.

Nothing here comes from `gateway`: numbers and names are those of the specification, so that a slip there shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import grpc
from google.protobuf import any_pb2, json_format
from google.rpc import error_details_pb2, status_pb2

Metadata = Sequence[tuple[str, str]]

BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"

# wire-1.0, section 8; below -32009 the numbers are the server's own.
_JSONRPC = {
    -32001: "NOT_FOUND",
    -32002: "FAILED_PRECONDITION",
    -32003: "FAILED_PRECONDITION",
    -32004: "FAILED_PRECONDITION",
    -32005: "INVALID_ARGUMENT",
    -32006: "INTERNAL",
    -32007: "FAILED_PRECONDITION",
    -32008: "FAILED_PRECONDITION",
    -32009: "FAILED_PRECONDITION",
    -32050: "UNAUTHENTICATED",
    -32051: "PERMISSION_DENIED",
    -32052: "RESOURCE_EXHAUSTED",
    -32053: "UNAVAILABLE",
    -32054: "DEADLINE_EXCEEDED",
    -32055: "RESOURCE_EXHAUSTED",
    -32600: "INVALID_ARGUMENT",
    -32602: "INVALID_ARGUMENT",
    -32603: "INTERNAL",
}
_STANDARD = {-32600: "Request payload validation error", -32602: "Invalid parameters", -32603: "Internal error"}
# What several errors share a number for, told apart by their reasons.
_REASONS = {"UNAVAILABLE": "UNAVAILABLE", "BODY_TOO_LARGE": "RESOURCE_EXHAUSTED"}

_NAMED = re.compile(r'\["(?:[^"\\]|\\.)*"\]')
_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")


def of_rest(body: Any, http: int | None, headers: Metadata) -> grpc.aio.AioRpcError:
    """Read `{"error":{code,status,message,details}}` (ERRS-02)."""
    assert list(body) == ["error"], body
    error = body["error"]
    assert set(error) == {"code", "status", "message", "details"}, error
    assert http is None or error["code"] == http, (http, error)
    return _raised(grpc.StatusCode[error["status"]], error["message"], error["details"], headers)


def of_jsonrpc(error: Any, headers: Metadata) -> grpc.aio.AioRpcError:
    """Read a JSON-RPC error object (JRPC-08, ERRS-04)."""
    assert set(error) <= {"code", "message", "data"}, error
    data = error.get("data", [])
    reasons = [detail["reason"] for detail in data if detail["@type"] == ERROR_INFO]
    name = next((_REASONS[reason] for reason in reasons if reason in _REASONS), None) or _JSONRPC[error["code"]]
    return _raised(grpc.StatusCode[name], _own_words(error["code"], error["message"]), data, headers)


def _own_words(code: int, message: str) -> str:
    """What the server adds to the message that the specification gives the code, which the other doors do not have."""
    standard = _STANDARD.get(code, "")
    assert message.startswith(standard), message
    return "Internal error." if message == _STANDARD[-32603] else message.removeprefix(standard).removeprefix(": ")


def _raised(
    code: grpc.StatusCode, message: str, details: Iterable[dict[str, Any]], headers: Metadata
) -> grpc.aio.AioRpcError:
    status = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        packed = json_format.ParseDict(detail, any_pb2.Any())
        if detail["@type"] == BAD_REQUEST:
            status.message = _in_proto_spelling(packed, message)
        status.details.append(packed)
    trailers: list[tuple[str, str | bytes]] = [*_visible(headers)]
    trailers.append(("grpc-status-details-bin", status.SerializeToString()))
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailers), status.message)


def _in_proto_spelling(packed: any_pb2.Any, message: str) -> str:
    """Tests name fields as gRPC does; a door that names them so itself is at fault (ERRS-05)."""
    bad = error_details_pb2.BadRequest.FromString(packed.value)
    for violation in bad.field_violations:
        assert "_" not in _NAMED.sub("", violation.field), violation
        spelled = _HUMP.sub(lambda match: "_" + match.group().lower(), violation.field)
        if message.startswith(violation.field):
            message = spelled + message[len(violation.field) :]
        violation.field = spelled
    packed.Pack(bad)
    return message


def _visible(headers: Metadata) -> Metadata:
    """Everything that a client could compare between two refusals; the time of day tells nothing."""
    return [(name.lower(), value) for name, value in headers if name.lower() != "date"]
