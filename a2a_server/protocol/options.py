"""What operators may choose about the HTTP door and its upstream (spec: DOOR-01, -04, -05, -10, CACH-01, KEEP-01)."""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from annotated_types import Ge, Gt, Le
from pydantic import BeforeValidator

from a2a_server.protocol.names import API_KEY, AUTHORIZATION, CURSOR, IDEMPOTENCY_KEY, TRACE_PARENT, TRACE_STATE

Count = Annotated[int, Ge(1)]
Seconds = Annotated[float, Gt(0), Le(365 * 24 * 3600)]


def split(value: object, *, what: str = "names") -> object:
    """Read a list as an environment variable spells it: separated by commas, or as a JSON array."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return tuple(json.loads(value))
        except ValueError:
            if not _IN_BRACKETS.match(value):
                raise ValueError(f"must be {what} separated by commas, or a JSON array") from None
    return tuple(text.strip() for text in value.split(",") if text.strip())


def network_of(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Read an address or a network."""
    return ipaddress.ip_network(text.strip(), strict=False)


NameList = Annotated[tuple[str, ...], BeforeValidator(split)]

CardForm = Literal["auto", "1.0", "0.3"]
LegacyJson = Literal["proto", "kind"]
Profiles = Annotated[tuple[Literal["draft"], ...], BeforeValidator(split)]

FORWARDED = (
    "a2a-*",
    AUTHORIZATION,
    "baggage",
    "grpc-metadata-*",
    IDEMPOTENCY_KEY,
    CURSOR,
    TRACE_PARENT,
    TRACE_STATE,
    API_KEY,
    "x-request-id",
)
WELL_KNOWN = ("accept", "accept-language", "forwarded", "from", "host", "origin", "referer", "user-agent", "via")
RESERVED = frozenset(
    (
        *("connection", "content-length", "content-type", "host", "keep-alive"),
        *("proxy-connection", "te", "transfer-encoding", "upgrade", "user-agent"),
    )
)
"""What HTTP/2 and gRPC say themselves on the way to an upstream; no request header becomes metadata of these names."""
FIXED: Final = frozenset(("agent", "extendedAgentCard", "healthz", "openapi.json", "readyz", "tasks", "v1"))
"""First segments of paths that are served already."""
_IN_BRACKETS: Final = re.compile(r"\s*\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]")
"""An address of IPv6, which looks like an array to whoever sees its first character only."""
_PATH: Final = re.compile(r"(?:/(?!\.)[A-Za-z0-9._~-]+)+")


def path_fault(path: str) -> str:
    """Say what makes a path unusable for a profile of its own; empty when nothing does."""
    if not _PATH.fullmatch(path):
        return "must be a path such as /draft: letters, digits, and - . _ ~ between slashes, none of them at its end"
    first = first_segment(path)
    return f"/{first} is served already; choose another path, such as /draft" if first in FIXED else ""


def first_segment(path: str) -> str:
    return path.split("/")[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """Times are seconds, sizes bytes."""

    max_body_bytes: Count = 16 * 1024 * 1024
    """The largest request body; a larger one is answered with 413."""
    max_url_bytes: Count = 8190
    """The longest path with its query; a longer one is answered with 414."""
    max_header_bytes: Count = 8190
    """The longest request header; a longer one is answered with 431."""
    max_header_total_bytes: Count = 12 * 1024
    """All headers of a request together; more are answered with 431. gRPC servers take 16 KiB of metadata by default,
    32 bytes of which they reckon for each name."""
    max_depth: Count = 64
    """How deep JSON may nest."""
    body_timeout: Seconds = 30.0
    """How long a request's headers, and after them its body, may take to arrive."""
    idle_timeout: Seconds = 75.0
    """How long a connection without requests is kept."""
    write_timeout: Seconds = 60.0
    """How long a client may take nothing of what it is sent before its connection is cut."""
    max_unsent_bytes: Count = 256 * 1024 * 1024
    """How much may wait for clients that read slowly, in all; beyond it the one for whom the most waits is cut."""
    keep_alive: Seconds = 30.0
    """After how long an idle stream gets a comment, so that nobody between takes it for dead."""
    streams_per_client: Count = 1000
    """Streams that one address may have open at once."""
    streams: Count = 10_000
    """Streams that may be open at once."""
    card_max_age: Annotated[int, Ge(0)] = 60
    """How many seconds clients may keep the public card without asking again."""
    card_form: CardForm = "auto"
    """The public card's form for clients that ask for no version: `auto` = one with the members of 1.0 and 0.3 while
    0.3 is served, `1.0` = nothing but 1.0, for strict checkers, `0.3` = nothing but 0.3."""
    legacy_json: LegacyJson = "proto"
    """The spelling in which REST answers clients of 0.3 whose request has none itself: `proto` = as the 0.3 proto has
    it, `kind` = as the JSON schema of 0.3 has it."""
    profiles: Profiles = ()
    """Further ways of speaking that are served: `draft` = the draft between 0.3 and 1.0, at `draft_path`."""
    draft_path: str = "/draft"
    """The path under which everything of the draft is, and nothing else."""
    upstream_doors: bool = True
    """Whether the card keeps the doors that a server elsewhere declares, such as its gRPC address."""
    card: str = ""
    """A JSON file with the public card, for upstreams that do not tell theirs over gRPC."""
    cors_origins: NameList = ()
    """Origins whose pages may call, such as https://console.example, or *; the public card may be read by all. Pages
    send credentials in headers of their own; those that browsers add by themselves, such as cookies, never count."""
    trusted_proxies: NameList = ()
    """Addresses or networks whose Forwarded, and X-Forwarded-For, -Proto, -Host and -Port headers are believed, such as
    10.0.0.0/8."""
    forwarded_prefix: bool = False
    """Whether X-Forwarded-Prefix of trusted proxies is believed, too. Only where every one of them sets or removes it:
    most pass on what the client has sent."""
    forward_headers: NameList = FORWARDED
    """Request headers that become metadata of the same name; a star at the end stands for anything. Cookies are not
    among them: what a browser sends along by itself is nobody's credential unless the operator says so."""
    forward_well_known: NameList = WELL_KNOWN
    """HTTP's own request headers that become metadata grpcgateway-<name>."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelOptions:
    """Times are seconds, sizes bytes."""

    addresses: NameList = ()
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
    ping more often than every five minutes, unless they are told to allow it; a2ad allows ten seconds."""
    keepalive_timeout: Seconds = 20.0
    """How long the answer to a ping may take before the connection counts as dead."""
    health_checks: bool = False
    """Whether to send nothing to an upstream that says NOT_SERVING at grpc.health.v1, so that one that stops gets no
    new calls. Only for upstreams that tell their health without credentials, as a2ad does."""

    def __post_init__(self) -> None:
        for address in self.addresses:
            target_of(address)

    @property
    def secure(self) -> bool:
        return self.tls or any((self.ca, self.cert, self.key, self.server_name))


def target_of(address: str) -> str:
    """Read `host ":" port`, `"[" ipv6 "]:" port`, or a target in gRPC's own words, such as `unix:/run/a2a.sock`."""
    if _TARGET.fullmatch(address):
        return address
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) <= _HIGHEST_PORT:
        raise ValueError(f'upstream "{address}": must be HOST:PORT, such as 127.0.0.1:50051 or [::1]:50051')
    return f"dns:///{address}"  # which takes literal addresses, too


_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(?P<port>[0-9]{1,5})")
_TARGET = re.compile(r"(dns|ipv4|ipv6|unix):\S+")
_HIGHEST_PORT = 65535
