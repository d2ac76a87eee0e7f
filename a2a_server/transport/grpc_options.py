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
    """The largest request. gRPC refuses a larger one as RESOURCE_EXHAUSTED."""
    max_metadata_bytes: Count = 16 * 1024
    """The most metadata of one request, all of it together."""
    max_concurrent_streams: Count = 1000
    """How many calls may be open at once on one connection. Further ones wait in the client."""
    max_concurrent_calls: Count = 20_000
    """How many calls may be open at once on all connections. Further ones are refused as RESOURCE_EXHAUSTED."""
    accept_ahead: Annotated[int, Ge(0)] = 16
    """How many calls of one method gRPC may hand over at once. With 0, and with interceptors, it hands over one at a
    time, which takes longer."""
    keepalive_time: Seconds = 60.0
    """How long a connection may be silent before the server pings it."""
    keepalive_timeout: Seconds = 20.0
    """How long the client may take to answer a ping before the connection is closed."""
    min_ping_interval: Seconds = 10.0
    """The shortest time between two pings of a client. A client that pings more often is disconnected."""
    max_connection_idle: Annotated[float, Ge(0)] = 0.0
    """How long a connection without calls is kept open; 0 = no limit."""
    reflection: bool = True
    """Whether tools such as grpcurl may read the service definitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM files. gRPC speaks TLS 1.2 and 1.3, and nothing older."""

    cert: str = ""
    """The server's certificate, followed by its intermediates; empty = no TLS."""
    key: str = ""
    """The private key of the certificate."""
    client_ca: str = ""
    """The authorities that sign client certificates. When this is set, every client must present one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyOptions:
    """Clients of protocol 0.3."""

    enabled: bool = True
    """Whether clients of 0.3 are served, at the same doors as those of 1.0."""
    wait: Literal["auto", "always", "never"] = "auto"
    """Whether a send without `blocking` waits for the task to finish. `auto` = it waits over HTTP, but not over gRPC,
    where a missing value cannot be told from false."""
    raw_files: bool = False
    """Whether the bytes of files are sent as they are, as JavaScript's clients expect. Other clients expect base64."""
    grpc_urls: bool = True
    """Whether 0.3 cards put http:// or https:// before the address of the gRPC door, as 0.3 prescribes. Some SDKs dial
    the text as it stands, and need the bare address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Limits on streams, for all doors together. Times are seconds."""

    write_timeout: Seconds = 60.0
    """How long a reader may take nothing before its stream is cut."""
    per_caller: Count = 1000
    """How many streams one authenticated caller may have open at once."""
    total: Count = 10_000
    """How many streams may be open at once."""
