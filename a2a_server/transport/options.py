"""What operators may choose about doors and streams (spec: DOOR-04, DOOR-09, SECR-06, CONF-01, CONF-08, CONF-66)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from a2a_server.protocol.options import Count, Seconds


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
    accept_ahead: Annotated[int, Ge(0)] = 16
    """How many calls of one method gRPC may hand over at once. With 0, and with interceptors, it hands over one at a
    time, which takes longer."""
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
class LegacyOptions:
    """Clients of protocol 0.3."""

    enabled: bool = True
    """Whether they are served, at the same doors as those of 1.0."""
    wait: Literal["auto", "always", "never"] = "auto"
    """Whether a send waits that does not say; `auto` = over HTTP it does, over gRPC, which cannot tell, it does not."""
    raw_files: bool = False
    """Whether the bytes of files are written as they are, for JavaScript's clients; the others expect base64 text."""
    grpc_urls: bool = True
    """Whether 0.3 cards put http:// or https:// before gRPC's address, as 0.3 has it; SDKs dial what they read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Bounds of streams, through whatever door."""

    write_timeout: Seconds = 60.0
    """How many seconds a reader may take nothing before its stream is cut."""
    per_caller: Count = 1000
    """Streams one authenticated caller may have open at once."""
    total: Count = 10_000
    """Streams the server may have open at once."""
