"""How versions of the protocol spell the same messages in JSON: data over one codec (LRES-05, DRFT-02; design: §5)."""

from __future__ import annotations

from typing import Final

from a2a_server.protocol.dialects import v1
from a2a_server.protocol.dialects.draft import draft
from a2a_server.protocol.dialects.evidence import dialect_of
from a2a_server.protocol.dialects.kind import kind
from a2a_server.protocol.dialects.proto import proto
from a2a_server.protocol.dialects.spelling import Spelling

V1: Final[Spelling] = Spelling(v1.V1, v1.V1)
KIND: Final = kind()
"""0.3 on JSON-RPC: its JSON schema, answers without wrappers."""
KIND_REST: Final = kind(rest=True)
"""The same on REST, where answers have them."""
KIND_EXTRAS: Final = kind(extras=True)
"""As `KIND`, for clients that use input requests and tools' parts."""
KIND_REST_EXTRAS: Final = kind(rest=True, extras=True)
PROTO: Final = proto()
"""ProtoJSON of the 0.3 proto."""
DRAFT: Final = draft()
"""The draft between 0.3 and 1.0, on REST and JSON-RPC alike."""

__all__ = [
    "DRAFT",
    "KIND",
    "KIND_EXTRAS",
    "KIND_REST",
    "KIND_REST_EXTRAS",
    "PROTO",
    "V1",
    "Spelling",
    "dialect_of",
    "kind",
    "proto",
]
