"""Failures as clients of 0.3 read them: plain data over JSON-RPC, its numbers over REST (CONF-02, CONF-05, LRES-09)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson
from google.rpc import error_details_pb2 as details

from a2a_gateway.errors import STANDARD, Failure, begun_with

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

_INFO: Final = details.ErrorInfo.DESCRIPTOR.full_name
_BAD: Final = details.BadRequest.DESCRIPTOR.full_name


class OldFailure(Failure):
    """A failed call in the words of 0.3."""

    __slots__ = ()

    def rest(self) -> bytes:
        """As 1.0's, with the number of JSON-RPC for those who know errors by that.

        Clients in the wild look outside of `error`: JavaScript's for the number, Python's for the name of their class.
        """
        kind = {"type": self.reason.sdk_type} if self.reason.sdk_type else {}
        error = {**self.status(), "details": [*self._numbered()]}
        return orjson.dumps({"error": error, "code": self.jsonrpc, "message": self.message, **kind})

    def jsonrpc_error(self) -> dict[str, Any]:
        message = begun_with(MESSAGES, self.jsonrpc, self.message)
        return {"code": self.jsonrpc, "message": message, "data": self._plain()}

    def _plain(self) -> dict[str, Any]:
        """What the details say, without saying what they are."""
        told: dict[str, Any] = {}
        plain: dict[str, Any] = {"reason": self.reason.name}
        for detail in self.details:
            if _is(detail, _INFO):
                plain["reason"], told = detail["reason"], detail.get("metadata", {})
            elif _is(detail, _BAD):
                plain["violations"] = detail["fieldViolations"]
        return {"reason": plain["reason"], **told, **plain}

    def _numbered(self) -> Iterator[dict[str, Any]]:
        number, found = {"jsonrpcCode": str(self.jsonrpc)}, False
        for detail in self.details:
            if not found and _is(detail, _INFO):
                found = True
                yield {**detail, "metadata": {**detail.get("metadata", {}), **number}}
            else:
                yield detail
        if not found:
            url = f"type.googleapis.com/{_INFO}"
            yield {"@type": url, "reason": self.reason.name, "domain": self.reason.domain, "metadata": number}


def _is(detail: Mapping[str, Any], kind: str) -> bool:
    return str(detail["@type"]).endswith(f"/{kind}")
