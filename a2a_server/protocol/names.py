"""Every name on the wire that more than one part of the house must spell alike: each is written here, and only here.

gRPC metadata has the names of HTTP headers in lower case. Where both forms are needed, the header is written out and
the metadata is made of it.
"""

from __future__ import annotations

from typing import Final

# Protocol versions, as calls name them.
CURRENT: Final = "1.0"
LEGACY: Final = "0.3"
"""Also what an absent version means to the letter of the specification."""
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
"""A gateway tells the server which version its client spoke, where that is not the gateway's own."""
SCHEMES: Final = "a2a-server-schemes"
"""A gateway tells the server every scheme that a push config of 0.3 offers (CONF-34)."""

# Headers and metadata of everybody's.
AUTHORIZATION_HEADER: Final = "Authorization"
AUTHORIZATION: Final = AUTHORIZATION_HEADER.lower()
CHALLENGE_HEADER: Final = "WWW-Authenticate"
CHALLENGE: Final = CHALLENGE_HEADER.lower()
API_KEY: Final = "x-api-key"
TRACE_PARENT: Final = "traceparent"
TRACE_STATE: Final = "tracestate"
STATUS_DETAILS: Final = "grpc-status-details-bin"
"""Where gRPC carries a serialized `google.rpc.Status`."""

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
TEXT: Final = "text/plain"
BINARY: Final = "application/octet-stream"

# Extensions of ours.
REPLAY_URI: Final = "urn:a2a-server:replay:v1"
"""gRPC and JSON-RPC clients see and use the numbers of events (RPLY-05)."""
INPUT_REQUEST_URI: Final = "urn:a2a-server:input-request:v1"
MEMBERS_URI: Final = "urn:a2a-server:input-request-members:v1"
"""Marks what JSON of 0.3 and of the draft cannot hold otherwise, on its way through a gateway."""

# Members of metadata.
COMPAT: Final = "x-a2a-compat"
"""Where 0.3 keeps what only 1.0 has room for."""


def may_be_tenant(name: str) -> bool:
    """Whether a path may begin with it as a tenant's name, and not as with a segment of its own (CONF-49)."""
    taken = name in {"tasks", "v1", "extendedAgentCard", "message:send", "message:stream"}
    return not taken and not name.startswith(".")
