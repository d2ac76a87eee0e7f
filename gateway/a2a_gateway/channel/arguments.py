"""Turns the options for the upstream into credentials and channel arguments of grpc.aio (spec: DOOR-01)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc

from a2a_server.protocol.options import ChannelOptions


class UnusableOptions(Exception):  # noqa: N818 - says what is wrong with the options
    """The upstream cannot be called with these options. The message is for the operator."""


def credentials_of(options: ChannelOptions) -> grpc.ChannelCredentials | None:
    """Read the PEM files, which were checked with the settings; None without TLS."""
    if not options.secure:
        return None
    pems = (Path(path).read_bytes() if path else None for path in (options.ca, options.key, options.cert))
    return grpc.ssl_channel_credentials(*pems)


def arguments_of(options: ChannelOptions, *, streams: bool) -> list[tuple[str, Any]]:
    """Return the channel arguments for a connection that carries streams, or other calls."""
    health = {"healthCheckConfig": {"serviceName": ""}} if options.health_checks else {}
    arguments: list[tuple[str, Any]] = [
        ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}], **health})),
        ("grpc.service_config_disable_resolution", 1),  # the name's owner cannot change it
        ("grpc.use_local_subchannel_pool", 1),  # otherwise equal channels share one connection
        ("grpc.max_receive_message_length", options.max_message_bytes),
        ("grpc.max_send_message_length", -1),  # the door bounds what clients send
        ("grpc.max_metadata_size", _LARGEST_METADATA),
        ("grpc.absolute_max_metadata_size", _LARGEST_METADATA),
        ("grpc.keepalive_time_ms", _ms(options.keepalive_time)),
        ("grpc.keepalive_timeout_ms", _ms(options.keepalive_timeout)),
        ("grpc.http2.ping_timeout_ms", _ms(options.keepalive_timeout)),  # for gRPC's own pings it is a minute
        ("grpc.http2.max_pings_without_data", 0),  # otherwise an idle stream is pinged once a minute at most
        ("grpc.min_reconnect_backoff_ms", _ms(options.connect_timeout)),  # how gRPC's core names the connect timeout
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.dns_min_time_between_resolutions_ms", 1000),
    ]
    if streams:
        arguments += _WINDOW
    if options.server_name:
        arguments.append(("grpc.ssl_target_name_override", options.server_name))
    return arguments


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


_LARGEST_METADATA = 64 * 1024
_WINDOW = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 64 * 1024)]
"""How much of a stream gRPC buffers before its reader asks for it. By default the buffer grows to megabytes, for speed
over long distances. But readers may stop reading, and the buffers of a thousand streams must be bounded."""
