"""What operators may choose about doors and streams (spec: DOOR-04, DOOR-09, SECR-06, CONF-01)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt

Count = Annotated[int, Ge(1)]
Seconds = Annotated[float, Gt(0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcOptions:
    """Times are seconds, sizes bytes."""

    max_message_bytes: Count = 16 * 1024 * 1024
    """The largest request; a larger one is refused by gRPC as RESOURCE_EXHAUSTED."""
    max_metadata_bytes: Count = 16 * 1024
    """All metadata of a request together."""
    max_concurrent_streams: Count = 1000
    """Calls open at once on one connection; further ones wait in the client."""
    max_concurrent_calls: Count = 20_000
    """Calls open at once on all connections; further ones are refused by gRPC as RESOURCE_EXHAUSTED."""
    keepalive_time: Seconds = 60.0
    """How long a connection may be silent before the server pings it."""
    keepalive_timeout: Seconds = 20.0
    """How long the answer to a ping may take before the connection counts as dead."""
    min_ping_interval: Seconds = 10.0
    """How often a client may ping; one that pings more often is disconnected."""
    max_connection_idle: Annotated[float, Ge(0)] = 0.0
    """How long a connection without calls is kept; 0 = without end."""
    reflection: bool = True
    """Whether clients such as grpcurl may ask for the service definitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM files. TLS 1.2 and 1.3 are spoken, nothing older: gRPC offers no other choice."""

    cert: str = ""
    """The server's certificate, followed by its intermediates; empty = no TLS."""
    key: str = ""
    """The certificate's private key."""
    client_ca: str = ""
    """Authorities of client certificates; when set, every client needs one (gRPC cannot ask without requiring)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Bounds of streams, through whatever door."""

    write_timeout: Seconds = 60.0
    """How many seconds a reader may take nothing before its stream is cut."""
    per_caller: Count = 1000
    """Streams one authenticated caller may have open at once."""
    total: Count = 10_000
    """Streams the server may have open at once."""
