"""The error table of the specification, written out (wire-1.0, section 8; CONF-01), and what lies around it.

Nothing here is taken from the catalogue of the server: a number that changes there by accident shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

A2A = "a2a-protocol.org"
OURS = "a2a-server"

Codes = Literal["1.0.1", "1.0.0"]
CODES: tuple[Codes, ...] = ("1.0.1", "1.0.0")


@dataclass(frozen=True)
class Row:
    """One error; `old_…` is said where 1.0.0 has another number."""

    reason: str
    jsonrpc: int
    status: str
    http: int
    old_status: str = ""
    old_http: int = 0
    domain: str = OURS

    def status_of(self, codes: Codes) -> str:
        return self.status if codes == "1.0.1" else self.old_status or self.status

    def http_of(self, codes: Codes) -> int:
        return self.http if codes == "1.0.1" else self.old_http or self.http

    def jsonrpc_http_of(self, codes: Codes) -> int:
        """JSON-RPC's errors ride on 200, but for those that are about the exchange (CONF-51)."""
        http = self.http_of(codes)
        return http if self.domain == OURS and http in (401, 403, 408, 413, 417, 421, 429, 431, 503) else 200


ROWS = (
    Row("TASK_NOT_FOUND", -32001, "NOT_FOUND", 404, domain=A2A),
    Row("TASK_NOT_CANCELABLE", -32002, "FAILED_PRECONDITION", 400, old_http=409, domain=A2A),
    Row("PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, "FAILED_PRECONDITION", 400, "UNIMPLEMENTED", domain=A2A),
    Row("UNSUPPORTED_OPERATION", -32004, "FAILED_PRECONDITION", 400, "UNIMPLEMENTED", domain=A2A),
    Row("CONTENT_TYPE_NOT_SUPPORTED", -32005, "INVALID_ARGUMENT", 400, old_http=415, domain=A2A),
    Row("INVALID_AGENT_RESPONSE", -32006, "INTERNAL", 500, old_http=502, domain=A2A),
    Row("EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007, "FAILED_PRECONDITION", 400, domain=A2A),
    Row("EXTENSION_SUPPORT_REQUIRED", -32008, "FAILED_PRECONDITION", 400, domain=A2A),
    Row("VERSION_NOT_SUPPORTED", -32009, "FAILED_PRECONDITION", 400, "UNIMPLEMENTED", domain=A2A),
    Row("INVALID_PARAMS", -32602, "INVALID_ARGUMENT", 400, domain=A2A),
    Row("UNAUTHENTICATED", -32050, "UNAUTHENTICATED", 401),
    Row("PERMISSION_DENIED", -32051, "PERMISSION_DENIED", 403),
    Row("OVERLOADED", -32052, "RESOURCE_EXHAUSTED", 429),
    Row("SLOW_READER", -32053, "UNAVAILABLE", 503),
    Row("DEADLINE_EXCEEDED", -32054, "DEADLINE_EXCEEDED", 504),
    Row("QUOTA_EXCEEDED", -32055, "RESOURCE_EXHAUSTED", 429),
    Row("UNAVAILABLE", -32603, "UNAVAILABLE", 503),
    Row("INTERNAL", -32603, "INTERNAL", 500),
    Row("PARSE_ERROR", -32700, "INVALID_ARGUMENT", 400),
    Row("INVALID_REQUEST", -32600, "INVALID_ARGUMENT", 400),
    Row("METHOD_NOT_FOUND", -32601, "UNIMPLEMENTED", 404),
    Row("PATH_NOT_FOUND", -32601, "NOT_FOUND", 404),
    Row("METHOD_NOT_ALLOWED", -32600, "UNIMPLEMENTED", 405),
    Row("NOT_ACCEPTABLE", -32600, "INVALID_ARGUMENT", 406),
    Row("REQUEST_TIMEOUT", -32600, "DEADLINE_EXCEEDED", 408),
    Row("BODY_TOO_LARGE", -32600, "RESOURCE_EXHAUSTED", 413),
    Row("URI_TOO_LONG", -32600, "INVALID_ARGUMENT", 414),
    Row("ENCODING_NOT_SUPPORTED", -32600, "INVALID_ARGUMENT", 415),
    Row("EXPECTATION_FAILED", -32600, "INVALID_ARGUMENT", 417),
    Row("MISDIRECTED_REQUEST", -32600, "PERMISSION_DENIED", 421),
    Row("HEADERS_TOO_LARGE", -32600, "RESOURCE_EXHAUSTED", 431),
)
NAMES = [row.reason for row in ROWS]

STANDARD = {
    -32700: "Invalid JSON payload",
    -32600: "Request payload validation error",
    -32601: "Method not found",
    -32602: "Invalid parameters",
    -32603: "Internal error",
}
"""The messages that the specification gives JSON-RPC's own codes; ours begin with them."""
