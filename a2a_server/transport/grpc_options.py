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
    max_values: Count = 25_000
    """The most values in a request, counted as `gateway.max_json_values` does. More are refused as
    RESOURCE_EXHAUSTED."""
    max_metadata_bytes: Count = 16 * 1024
    """The most metadata of one request, all of it together."""
    max_concurrent_streams: Count = 1000
    """How many calls may be open at once on one connection. Further ones wait in the client."""
    max_concurrent_calls: Count = 20_000
    """How many calls may be open at once on all connections; addresses share them. Further ones are refused as
    RESOURCE_EXHAUSTED."""
    message_timeout: Seconds = 30.0
    """How long the message of a call may take to arrive."""
    max_unfinished_bytes: Count = 256 * 1024 * 1024
    """How much of messages that are not complete may be held for all clients together, half of it for one address, and
    half for one caller. Calls beyond it end as RESOURCE_EXHAUSTED."""
    max_unsent_bytes: Count = 256 * 1024 * 1024
    """How much memory large unread answers may take: twice their size. More are refused as RESOURCE_EXHAUSTED."""
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
    max_connection_age: Annotated[float, Ge(0)] = 3600.0
    """After how long a connection takes no new calls, so that its client opens another one. Calls that are open go on.
    0 = no limit."""
    connections: Annotated[int, Ge(0)] = 0
    """How many connections may be open at once. Further ones are closed at once. 0 = three eighths of the files that
    the process may have open."""
    connections_per_client: Count = 1000
    """How many of them one address may have, and never more than half of all. Further ones are closed within a
    second; on Linux only."""
    handshake_timeout: Seconds = 10.0
    """How long a new connection may take until it speaks HTTP/2."""
    reflection: bool = True
    """Whether tools such as grpcurl may read the service definitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM files. They are read again when they change, and at SIGHUP. TLS is 1.2 or 1.3, and nothing older."""

    cert: str = ""
    """The server's certificate, followed by its intermediates; empty = no TLS."""
    key: str = ""
    """The private key of the certificate."""
    client_ca: str = ""
    """The authorities that sign client certificates. When this is set, every client must present one."""
    client_certificates: Literal["required", "optional"] = "required"
    """With `optional`, clients of the HTTP door may come without. The gRPC door always requires one: gRPC cannot ask
    for a certificate without."""
    crl: str = ""
    """The certificates that these authorities have revoked: a PEM file with a list (CRL) of each, or one in DER."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Limits on streams, for all doors together. Times are seconds."""

    write_timeout: Seconds = 60.0
    """How long a reader may take nothing before its stream is cut."""
    per_caller: Count = 1000
    """How many streams one authenticated caller may have open at once."""
    total: Count = 10_000
    """How many streams may be open at once."""
