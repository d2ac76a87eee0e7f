"""Why a call to another agent has no answer (spec: ERRS, CLI-38, CLI-39, OP-05, OP-06).

`CallError` is the base of them all, and is raised as one of its kinds below. Each binding reads its own form of errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.json_format import Error as JsonError
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from a2a_server.protocol.errors import A2A_DOMAIN, Reason
from a2a_server.protocol.names import STATUS_DETAILS

Details = Sequence[Mapping[str, Any]]

_INFO: Final = error_details_pb2.ErrorInfo.DESCRIPTOR.full_name
_LONGEST: Final = 2000
"""Characters of a message that is not ours."""


class CallError(Exception):
    """A call that failed."""

    def __init__(
        self, message: str, *, reason: Reason | None = None, code: str | int | None = None, details: Details = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        """The row of the error catalogue, or the nearest one; None if the agent said nothing that it has."""
        self.code = code
        """The transport's own: a number of JSON-RPC, an HTTP status, the name of a gRPC status; None if we noticed."""
        self.details = details
        """As JSON, each with its `@type`."""

    @property
    def name(self) -> str:
        """The error's name in A2A, such as `TaskNotFoundError`; empty for what A2A does not name."""
        return self.reason.sdk_type if self.reason else ""


class AgentError(CallError):
    """The agent has answered with an error, or its answer cannot be used."""


class UnreachableError(CallError):
    """Nobody answers: the name is unknown, the connection or TLS fails, or the server is not available."""


class CardNotFoundError(CallError):
    """The reference leads to no agent card."""


class CardInvalidError(CallError):
    """The agent card is not well-formed, or is larger than allowed."""


class CredentialsMissingError(CallError):
    """The agent demands credentials, and none were sent."""


class AuthenticationError(CallError):
    """The agent has refused the credentials that were sent."""


class CallTimeoutError(CallError):
    """There was no answer in the time that the caller allows."""


class NoTransportError(CallError):
    """The card offers no binding that the client speaks, or is allowed to use."""


def timed_out(seconds: float | None) -> CallTimeoutError:
    return CallTimeoutError("There was no answer in time." if seconds is None else f"No answer within {seconds:g} s.")


def invalid_answer(text: str) -> AgentError:
    """Return the error for an answer that is not what the protocol says."""
    return AgentError(text, reason=Reason.INVALID_AGENT_RESPONSE)


_BY_NAME: Final = MappingProxyType({reason.sdk_type: reason for reason in Reason if reason.sdk_type})
_BY_NUMBER: Final[Mapping[int, Reason]] = MappingProxyType(
    {reason.jsonrpc_code: reason for reason in Reason if reason.jsonrpc_code != Reason.INVALID_REQUEST.jsonrpc_code}
    | {
        Reason.INVALID_REQUEST.jsonrpc_code: Reason.INVALID_REQUEST,
        Reason.INTERNAL.jsonrpc_code: Reason.INTERNAL,
        Reason.METHOD_NOT_FOUND.jsonrpc_code: Reason.METHOD_NOT_FOUND,
    }
)
"""Where several errors share a number, the one that the number was made for."""
_BY_HTTP: Final = MappingProxyType(
    {
        400: Reason.INVALID_PARAMS,
        401: Reason.UNAUTHENTICATED,
        403: Reason.PERMISSION_DENIED,
        409: Reason.TASK_NOT_CANCELABLE,  # this one and the next are those of 1.0.0 and of the SDK of 0.3
        415: Reason.CONTENT_TYPE_NOT_SUPPORTED,
        422: Reason.INVALID_PARAMS,
        429: Reason.OVERLOADED,
        500: Reason.INTERNAL,
        501: Reason.UNSUPPORTED_OPERATION,
        502: Reason.UNAVAILABLE,
        503: Reason.UNAVAILABLE,
        504: Reason.UNAVAILABLE,
    }
)
_BY_STATUS: Final = MappingProxyType(
    {
        "INVALID_ARGUMENT": Reason.INVALID_PARAMS,
        "UNAUTHENTICATED": Reason.UNAUTHENTICATED,
        "PERMISSION_DENIED": Reason.PERMISSION_DENIED,
        "NOT_FOUND": Reason.TASK_NOT_FOUND,  # calls name nothing but tasks
        "UNIMPLEMENTED": Reason.UNSUPPORTED_OPERATION,
        "FAILED_PRECONDITION": Reason.UNSUPPORTED_OPERATION,
        "RESOURCE_EXHAUSTED": Reason.OVERLOADED,
        "UNAVAILABLE": Reason.UNAVAILABLE,
        "INTERNAL": Reason.INTERNAL,
        "UNKNOWN": Reason.INTERNAL,
    }
)
_UNMET: Final = MappingProxyType(
    {
        "CancelTask": Reason.TASK_NOT_CANCELABLE,
        "GetAgentCard": Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED,
    }
)
"""What FAILED_PRECONDITION means to calls of 0.3, for which JavaScript's SDK says no more than that."""
_OLD_NAME: Final = re.compile(r"(\w+Error): ")
_SLUG: Final = re.compile(r"/errors/([a-z-]+)$")


def of_http(status: int, body: object, *, sent: bool) -> CallError:
    """Read an error of REST, in the forms of 1.0, of 0.3's SDKs and of Problem Details."""
    told: Mapping[str, Any] = body if isinstance(body, dict) else {}
    error: Mapping[str, Any] = held if isinstance(held := told.get("error"), dict) else told
    details = _details(error.get("details"))
    message = error.get("message") or told.get("message") or told.get("detail") or told.get("title")
    reason = _reason_in(details) or _reason_said(told) or _BY_HTTP.get(status)
    if reason is None and told and status == 404:  # noqa: PLR2004 - calls name nothing but tasks
        reason = Reason.TASK_NOT_FOUND
    return _kind(
        reason, _text(message, f"The agent has answered with the HTTP status {status}."), status, details, sent
    )


def _reason_said(told: Mapping[str, Any]) -> Reason | None:
    """Read what servers say beside the standard: the SDKs' class, JSON-RPC's number, the slug of a problem."""
    kind, number = told.get("type"), told.get("code")
    if isinstance(kind, str):
        if slug := _SLUG.search(kind):
            return Reason.__members__.get(slug[1].replace("-", "_").upper())
        if kind in _BY_NAME:
            return _BY_NAME[kind]
    return _BY_NUMBER.get(number) if isinstance(number, int) and number < 0 else None


def of_jsonrpc(error: object, *, sent: bool) -> CallError:
    told: Mapping[str, Any] = error if isinstance(error, dict) else {}
    code, data = told.get("code"), told.get("data")
    number = code if isinstance(code, int) and not isinstance(code, bool) else None
    details = _details(data if isinstance(data, list) else [data])
    reason = _reason_in(details) or (_BY_NUMBER.get(number) if number is not None else None)
    if reason is None and isinstance(data, dict):
        reason = Reason.__members__.get(str(data.get("reason")))
    return _kind(reason, _text(told.get("message"), "The agent has answered with an error."), number, details, sent)


def of_grpc(rpc: str, error: grpc.aio.AioRpcError, *, sent: bool) -> CallError:
    """Read an error of gRPC. One without details means what the call leaves possible."""
    status = error.code().name
    details = _packed_details(error)
    message = _text(error.details(), f"The agent has answered with the gRPC status {status}.")
    old = _OLD_NAME.match(message)
    unmet = _UNMET.get(rpc) if status == "FAILED_PRECONDITION" else None
    reason = _reason_in(details) or (_BY_NAME.get(old[1]) if old else None) or unmet or _BY_STATUS.get(status)
    if status == "DEADLINE_EXCEEDED" and not details:
        return CallTimeoutError("There was no answer in time.", code=status)
    return _kind(reason, message, status, details, sent)


def _kind(reason: Reason | None, message: str, code: str | int | None, details: Details, sent: bool) -> CallError:  # noqa: FBT001
    """Choose the class. `sent` says whether credentials were."""
    kind: type[CallError] = AgentError
    if reason in {Reason.UNAUTHENTICATED, Reason.PERMISSION_DENIED}:
        kind = AuthenticationError if sent else CredentialsMissingError
    elif reason is Reason.UNAVAILABLE:
        kind = UnreachableError
    return kind(message, reason=reason, code=code, details=details)


def _text(said: object, otherwise: str) -> str:
    return said[:_LONGEST] if isinstance(said, str) and said else otherwise


def _details(value: object) -> Details:
    return (
        [detail for detail in value if isinstance(detail, dict) and "@type" in detail]
        if isinstance(value, list)
        else []
    )


def _reason_in(details: Details) -> Reason | None:
    """Find the first reason of the catalogue. Our own servers name their own errors under another domain."""
    infos = [detail for detail in details if str(detail["@type"]).endswith(_INFO)]
    infos.sort(key=lambda info: info.get("domain") != A2A_DOMAIN)
    named = (Reason.__members__.get(str(info.get("reason"))) for info in infos)
    return next((reason for reason in named if reason), None)


def _packed_details(error: grpc.aio.AioRpcError) -> Details:
    for name, value in error.trailing_metadata() or ():
        if name == STATUS_DETAILS and isinstance(value, bytes):
            try:
                return [_detail(packed) for packed in status_pb2.Status.FromString(value).details]
            except DecodeError:
                return []
    return []


def _detail(packed: Packed) -> Mapping[str, Any]:
    try:
        return MessageToDict(packed)
    except (TypeError, JsonError, DecodeError):
        return {"@type": packed.type_url}
