"""Writes errors in the forms of 0.3 and of the draft, whose form is Problem Details (DRFT-03).

Over JSON-RPC, both versions have plain members as `data`. REST of 0.3 also has the number of JSON-RPC. Serves CONF-02,
CONF-05 and LRES-09.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import orjson
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo

from a2a_gateway.errors import STANDARD_TEXTS, Failure, with_standard_text
from a2a_server.protocol.errors import ErrorCodes

STANDARD_MESSAGES: Final[Mapping[int, str]] = {
    **STANDARD_TEXTS,
    -32001: "Task not found",
    -32002: "Task cannot be canceled",
    -32003: "Push Notification is not supported",
    -32004: "This operation is not supported",
    -32005: "Incompatible content types",
    -32006: "Invalid agent response",
    -32007: "Authenticated Extended Card is not configured",
}
"""The messages that 0.3 defines for its error numbers (LRPC-07)."""

TYPES: Final = "https://a2a-protocol.org/errors/"
DRAFT_CODES: Final[ErrorCodes] = "1.0.0"
"""The draft has the error codes of 1.0.0 (CONF-01)."""

_NAMELESS: Final = "about:blank"
"""The type of errors of HTTP or the server, which the protocol does not define (RFC 9457, 4.2.1)."""
_LISTS: Final = frozenset({"supportedVersions"})
"""Members that are lists. In metadata they are one text with commas (CONF-18)."""
_INFO: Final = ErrorInfo.DESCRIPTOR.full_name
_BAD: Final = BadRequest.DESCRIPTOR.full_name


class OldFailure(Failure):
    """A failed call in the form of 0.3."""

    __slots__ = ()

    def rest(self) -> bytes:
        """Return the body of 1.0, with the number of JSON-RPC.

        Released clients read members beside `error`: the JavaScript SDK the number, the Python SDK its class name.
        """
        kind = {"type": self.reason.sdk_type} if self.reason.sdk_type else {}
        number = {"jsonrpcCode": str(self.jsonrpc)}
        details = [
            {**detail, "metadata": {**detail.get("metadata", {}), **number}} if _is(detail, _INFO) else detail
            for detail in self.details
        ]
        error = {**self.status(), "details": details}
        return orjson.dumps({"error": error, "code": self.jsonrpc, "message": self.message, **kind})

    def jsonrpc_error(self) -> dict[str, Any]:
        message = with_standard_text(STANDARD_MESSAGES, self.jsonrpc, self.message)
        return {"code": self.jsonrpc, "message": message, "data": _plain(self)}


class DraftFailure(Failure):
    """A failed call in the form of the draft."""

    __slots__ = ()

    def rest(self) -> bytes:
        return orjson.dumps(self._problem())

    def ndjson(self) -> bytes:
        return orjson.dumps({"error": self._problem()})

    def jsonrpc_error(self) -> dict[str, Any]:
        message = with_standard_text(STANDARD_TEXTS, self.jsonrpc, self.message)
        return {"code": self.jsonrpc, "message": message, "data": _plain(self, _LISTS)}

    def _problem(self) -> dict[str, Any]:
        """Return the Problem Details. Metadata of the upstream cannot replace the members of RFC 9457."""
        named = self.reason.is_a2a and self.http == self.reason.http(DRAFT_CODES)
        words = self.reason.name.lower().split("_")
        own = {
            "type": TYPES + "-".join(words) if named else _NAMELESS,
            "title": " ".join(words).capitalize() if named else HTTPStatus(self.http).phrase,
            "status": self.http,
            "detail": self.message,
        }
        return {**own, **_plain(self, _LISTS), **own}


def _plain(failure: Failure, lists: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the contents of the details as plain members; `lists` names members that are lists."""
    told: Mapping[str, str] = {}
    own: dict[str, Any] = {"reason": failure.reason.name}
    for detail in failure.details:
        if _is(detail, _INFO):
            own["reason"], told = detail["reason"], detail.get("metadata", {})
        elif _is(detail, _BAD):
            own["violations"] = detail.get("fieldViolations", [])
    members = {name: text.split(",") if name in lists else text for name, text in told.items()}
    return {"reason": own["reason"], **members, **own}


def _is(detail: Mapping[str, Any], kind: str) -> bool:
    return str(detail["@type"]).endswith(f"/{kind}")
