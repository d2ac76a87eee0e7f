"""What operators may choose about the way to the upstream (spec: DOOR-01)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import grpc
from annotated_types import Ge, Gt

from gateway.options import Names

Count = Annotated[int, Ge(1)]
Seconds = Annotated[float, Gt(0)]

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(?P<port>[0-9]{1,5})")
_TARGET = re.compile(r"(dns|ipv4|ipv6|unix):\S+")
_HIGHEST_PORT = 65535


class UnusableOptions(Exception):  # noqa: N818 - a verdict, not a malfunction
    """The upstream cannot be called as it is configured; the message is for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelOptions:
    """Times are seconds, sizes bytes."""

    addresses: Names = ()
    """HOST:PORT of each upstream; calls go to all of them, and to all addresses a name stands for, in turn."""
    tls: bool = False
    """Whether to speak TLS, also without any of the four below."""
    ca: str = ""
    """PEM file with the authorities to trust; empty = those of the system."""
    cert: str = ""
    """PEM file with the gateway's own certificate, for upstreams that ask for one."""
    key: str = ""
    """PEM file with its private key."""
    server_name: str = ""
    """The name in the upstream's certificate, when it is not the one in its address."""
    read_timeout: Seconds = 30.0
    """How long a call that changes nothing may take, unless the client gives it less or more."""
    call_timeout: Seconds = 600.0
    """The same for all other unary calls, such as sends that wait for the agent. Streams may last."""
    connect_timeout: Seconds = 5.0
    """How long opening a connection may take, and how long the upstream may take to accept a stream."""
    attempts: Annotated[int, Ge(1)] = 3
    """How often a call that changes nothing is tried in all while the upstream is away."""
    max_message_bytes: Count = 256 * 1024 * 1024
    """The largest answer, or item of a stream."""
    calls_per_connection: Count = 100
    """How many calls of one kind a connection carries before another one is opened. Servers limit that, often to 100 or
    128, and what is beyond waits. A server that takes fewer streams is found out at the cost of a second; that it
    takes fewer sends at once has to be said here."""
    connections: Count = 100
    """Connections to one address for calls of one kind: reads, sends, streams; when all are full, calls get a 429."""
    keepalive_time: Annotated[float, Ge(10)] = 330.0
    """How long a connection with open calls may be silent before it is pinged. gRPC servers disconnect clients that
    ping more often than every five minutes, unless they are told to allow it; a2a-server allows ten seconds."""
    keepalive_timeout: Seconds = 20.0
    """How long the answer to a ping may take before the connection counts as dead."""
    health_checks: bool = False
    """Whether to send nothing to an upstream that says NOT_SERVING at grpc.health.v1, so that one that stops gets no
    new calls. Only for upstreams that tell their health without credentials, as a2a-server does."""

    def __post_init__(self) -> None:
        for address in self.addresses:
            target_of(address)

    @property
    def secure(self) -> bool:
        return self.tls or any((self.ca, self.cert, self.key, self.server_name))

    def credentials(self) -> grpc.ChannelCredentials | None:
        """Read the PEM files; None without TLS."""
        if not self.secure:
            return None
        if bool(self.cert) != bool(self.key):
            raise UnusableOptions("upstream.cert and upstream.key: need each other")
        return grpc.ssl_channel_credentials(_pem("ca", self.ca), _pem("key", self.key), _pem("cert", self.cert))

    def arguments(self, *, streams: bool = False) -> list[tuple[str, Any]]:
        """Spell the options as gRPC's core wants them, for a connection that carries streams or other calls."""
        arguments: list[tuple[str, Any]] = [
            ("grpc.service_config", json.dumps(self._service_config())),
            ("grpc.service_config_disable_resolution", 1),  # the name's owner has no say in this
            ("grpc.use_local_subchannel_pool", 1),  # or equal channels share one connection
            ("grpc.max_receive_message_length", self.max_message_bytes),
            ("grpc.max_send_message_length", -1),  # what clients send is bounded at the door
            ("grpc.max_metadata_size", _LARGEST_METADATA),
            ("grpc.absolute_max_metadata_size", _LARGEST_METADATA),
            ("grpc.keepalive_time_ms", _ms(self.keepalive_time)),
            ("grpc.keepalive_timeout_ms", _ms(self.keepalive_timeout)),
            ("grpc.http2.ping_timeout_ms", _ms(self.keepalive_timeout)),  # that of gRPC's own pings is a minute
            ("grpc.http2.max_pings_without_data", 0),  # or one a minute at most while a stream has nothing to say
            ("grpc.min_reconnect_backoff_ms", _ms(self.connect_timeout)),  # core's name for it
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.dns_min_time_between_resolutions_ms", 1000),
        ]
        if streams:
            arguments += _WINDOW
        if self.server_name:
            arguments.append(("grpc.ssl_target_name_override", self.server_name))
        return arguments

    def _service_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
        if self.health_checks:
            config["healthCheckConfig"] = {"serviceName": ""}
        return config


def target_of(address: str) -> str:
    """Read `host ":" port`, `"[" ipv6 "]:" port`, or a target in gRPC's own words, such as `unix:/run/a2a.sock`."""
    if _TARGET.fullmatch(address):
        return address
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) <= _HIGHEST_PORT:
        raise ValueError(f'upstream "{address}": must be HOST:PORT, such as 127.0.0.1:50051 or [::1]:50051')
    return f"dns:///{address}"  # which takes literal addresses, too


def _pem(setting: str, path: str) -> bytes | None:
    if not path:
        return None
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise UnusableOptions(f"upstream.{setting}: cannot read {path!r}: {error.strerror}") from None
    if b"-----BEGIN " not in content:
        raise UnusableOptions(f"upstream.{setting}: {path!r} is not a PEM file")
    return content


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


_LARGEST_METADATA = 64 * 1024
_WINDOW = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 64 * 1024)]
"""What a stream may hold that its reader has not asked for. By itself it grows to megabytes, to be fast over a long
way; but readers of streams stop reading, and what a thousand of them hold has to have a bound."""
