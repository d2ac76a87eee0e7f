"""Failures as the draft tells them: Problem Details over REST, plain data over JSON-RPC (DRFT-03, CONF-02, CONF-05)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import orjson
from google.rpc import error_details_pb2 as details

from a2a_gateway.errors import STANDARD, Failure, begun_with
from a2a_server.protocol.errors import ErrorCodes

TYPES: Final = "https://a2a-protocol.org/errors/"
CODES: Final[ErrorCodes] = "1.0.0"
"""The draft's own column is the one of 1.0.0 (CONF-01)."""

_NAMELESS: Final = "about:blank"
"""The type of problems that are HTTP's or the server's, and not the protocol's (RFC 9457, 4.2.1)."""
_LISTS: Final = frozenset({"supportedVersions"})
"""Members with several values, which metadata has in one text (CONF-18)."""
_INFO: Final = details.ErrorInfo.DESCRIPTOR.full_name
_BAD: Final = details.BadRequest.DESCRIPTOR.full_name


class DraftFailure(Failure):
    """A failed call in the words of the draft."""

    __slots__ = ()

    def rest(self) -> bytes:
        return orjson.dumps(self._problem())

    def ndjson(self) -> bytes:
        return orjson.dumps({"error": self._problem()})

    def jsonrpc_error(self) -> dict[str, Any]:
        message = begun_with(STANDARD, self.jsonrpc, self.message)
        return {"code": self.jsonrpc, "message": message, "data": self._members()}

    def _problem(self) -> dict[str, Any]:
        """Nothing that an upstream calls by a name of RFC 9457 takes its place."""
        named = self.reason.is_a2a and self.http == self.reason.http(CODES)
        words = self.reason.name.lower().split("_")
        own = {
            "type": TYPES + "-".join(words) if named else _NAMELESS,
            "title": " ".join(words).capitalize() if named else HTTPStatus(self.http).phrase,
            "status": self.http,
            "detail": self.message,
        }
        return {**own, **self._members(), **own}

    def _members(self) -> dict[str, Any]:
        """What the details say, without saying what they are."""
        reason, told, faults = self.reason.name, {}, None
        for detail in self.details:
            if _is(detail, _INFO):
                reason, told = detail["reason"], detail.get("metadata", {})
            elif _is(detail, _BAD):
                faults = detail.get("fieldViolations", [])
        members = {name: text.split(",") if name in _LISTS else text for name, text in told.items()}
        own = {"reason": reason} if faults is None else {"reason": reason, "violations": faults}
        return {"reason": reason, **members, **own}


def _is(detail: Mapping[str, Any], kind: str) -> bool:
    return str(detail["@type"]).endswith(f"/{kind}")
