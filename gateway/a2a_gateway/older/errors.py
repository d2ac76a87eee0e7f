"""Failures as clients of older versions read them: 0.3's, and the draft's as Problem Details (DRFT-03).

Both have plain data over JSON-RPC. REST of 0.3 tells the numbers of JSON-RPC, too. Serves CONF-02, CONF-05 and LRES-09.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import orjson
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo

from a2a_gateway.errors import STANDARD, Failure, begun_with
from a2a_server.protocol.errors import ErrorCodes

MESSAGES: Final[Mapping[int, str]] = {
    **STANDARD,
    -32001: "Task not found",
    -32002: "Task cannot be canceled",
    -32003: "Push Notification is not supported",
    -32004: "This operation is not supported",
    -32005: "Incompatible content types",
    -32006: "Invalid agent response",
    -32007: "Authenticated Extended Card is not configured",
}
"""What 0.3 says to each of its numbers (LRPC-07)."""

TYPES: Final = "https://a2a-protocol.org/errors/"
DRAFT_CODES: Final[ErrorCodes] = "1.0.0"
"""The draft's own column is the one of 1.0.0 (CONF-01)."""

_NAMELESS: Final = "about:blank"
"""The type of problems that are HTTP's or the server's, and not the protocol's (RFC 9457, 4.2.1)."""
_LISTS: Final = frozenset({"supportedVersions"})
"""Members with several values, which metadata has in one text (CONF-18)."""
_INFO: Final = ErrorInfo.DESCRIPTOR.full_name
_BAD: Final = BadRequest.DESCRIPTOR.full_name


class OldFailure(Failure):
    """A failed call in the words of 0.3."""

    __slots__ = ()

    def rest(self) -> bytes:
        """As 1.0's, with the number of JSON-RPC for those who know errors by that.

        Clients in the wild look outside of `error`: JavaScript's for the number, Python's for the name of their class.
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
        message = begun_with(MESSAGES, self.jsonrpc, self.message)
        return {"code": self.jsonrpc, "message": message, "data": _plain(self)}


class DraftFailure(Failure):
    """A failed call in the words of the draft."""

    __slots__ = ()

    def rest(self) -> bytes:
        return orjson.dumps(self._problem())

    def ndjson(self) -> bytes:
        return orjson.dumps({"error": self._problem()})

    def jsonrpc_error(self) -> dict[str, Any]:
        message = begun_with(STANDARD, self.jsonrpc, self.message)
        return {"code": self.jsonrpc, "message": message, "data": _plain(self, _LISTS)}

    def _problem(self) -> dict[str, Any]:
        """Nothing that an upstream calls by a name of RFC 9457 takes its place."""
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
    """What the details say, without saying what they are; `lists` are members with several values."""
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
