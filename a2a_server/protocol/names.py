"""The names on the wire that several parts use. Each is written here and nowhere else.

The names of gRPC metadata are those of HTTP headers in lower case. If both forms are needed, the metadata's name is
made from the header's.
"""

from __future__ import annotations

from typing import Final

# Protocol versions, as calls name them.
CURRENT: Final = "1.0"
LEGACY: Final = "0.3"
"""Also the version of a request that names none, according to the specification."""
DRAFT: Final = "draft"
"""The draft of December 2025, between the two. Its clients call it 0.3 as well."""

# Headers and metadata of A2A.
VERSION_HEADER: Final = "A2A-Version"
VERSION: Final = VERSION_HEADER.lower()
EXTENSIONS_HEADER: Final = "A2A-Extensions"
EXTENSIONS: Final = EXTENSIONS_HEADER.lower()
OLD_EXTENSIONS_HEADER: Final = "X-A2A-Extensions"
"""0.3's name of the same header; clients that speak both versions send either (CONF-19)."""
OLD_EXTENSIONS: Final = OLD_EXTENSIONS_HEADER.lower()

# Headers and metadata of ours.
CURSOR_HEADER: Final = "Last-Event-ID"
"""The number of the last event that the client has seen."""
CURSOR: Final = CURSOR_HEADER.lower()
CURSOR_PARAMETER: Final = "lastEventId"
"""The same in a query, for clients that cannot send headers."""
IDEMPOTENCY_KEY: Final = "idempotency-key"
SPOKEN: Final = "a2a-server-spoken"
"""The client's version, from a gateway to the server, if it differs from the version of the call."""
SCHEMES: Final = "a2a-server-schemes"
"""All schemes of a push config of 0.3, from a gateway to the server (CONF-34)."""

# Headers and metadata of other standards.
AUTHORIZATION_HEADER: Final = "Authorization"
AUTHORIZATION: Final = AUTHORIZATION_HEADER.lower()
CHALLENGE_HEADER: Final = "WWW-Authenticate"
CHALLENGE: Final = CHALLENGE_HEADER.lower()
API_KEY: Final = "x-api-key"
REQUEST_ID: Final = "x-request-id"
TRACE_PARENT: Final = "traceparent"
TRACE_STATE: Final = "tracestate"
RATE_LIMIT_HEADER: Final = "X-RateLimit-Limit"
RATE_REMAINING_HEADER: Final = "X-RateLimit-Remaining"
RATE_RESET_HEADER: Final = "X-RateLimit-Reset"
RATE_HEADER: Final = "RateLimit"
RATE_POLICY_HEADER: Final = "RateLimit-Policy"
STATUS_DETAILS: Final = "grpc-status-details-bin"
"""Where gRPC carries a serialized `google.rpc.Status`."""

RESOURCE_METADATA: Final = "/.well-known/oauth-protected-resource"
"""Where clients find the authorization servers (RFC 9728)."""

# Headers of webhooks.
TASK_ID_HEADER: Final = "A2A-Task-Id"
EVENT_NUMBER_HEADER: Final = "A2A-Event-Number"
DELIVERY_ID_HEADER: Final = "A2A-Delivery-Id"
TOKEN_HEADER: Final = "X-A2A-Notification-Token"  # noqa: S105 - the header, not the token
SIGNATURE_HEADER: Final = "X-A2A-Signature"

# Media types.
A2A_JSON: Final = "application/a2a+json"
JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"
SSE: Final = "text/event-stream"
NDJSON: Final = "application/x-ndjson"
JSONL: Final = "application/jsonl"
TEXT: Final = "text/plain"
BINARY: Final = "application/octet-stream"

# Paths.
JWKS_PATH: Final = "/.well-known/jwks.json"
"""The public keys of webhooks and cards, below the URL of the HTTP door."""

# Extensions of ours.
REPLAY_URI: Final = "urn:a2a-server:replay:v1"
"""gRPC and JSON-RPC clients see and use the numbers of events (RPLY-05)."""
INPUT_REQUEST_URI: Final = "urn:a2a-server:input-request:v1"
MEMBERS_URI: Final = "urn:a2a-server:input-request-members:v1"
"""Asks for input requests and tool parts as members of 0.3's JSON (XTRA-01)."""

# Members of metadata.
COMPAT: Final = "x-a2a-compat"
"""The member of 0.3's metadata that keeps values which only 1.0 has a field for."""


def resource_metadata_url(base: str) -> str:
    """Return the URL of a resource's metadata: the well-known path comes before the resource's path (RFC 9728, 3.1)."""
    start = base.find("/", base.find("://") + 3)
    host, path = (base[:start], base[start:].rstrip("/")) if start >= 0 else (base, "")
    return f"{host}{RESOURCE_METADATA}{path}"


def may_be_tenant(name: str) -> bool:
    """Whether a name at the beginning of a path can be a tenant, and not a segment of the gateway's own (CONF-49)."""
    taken = name in {"tasks", "v1", "extendedAgentCard", "message:send", "message:stream"}
    return not taken and not name.startswith(".")
