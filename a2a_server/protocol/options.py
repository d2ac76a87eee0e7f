"""The settings of the HTTP gateway and of its upstream (spec: DOOR-01, -04, -05, -10, CACH-01, KEEP-01)."""

from __future__ import annotations

import ipaddress
import json
import re
import resource
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final, Literal, NamedTuple

from annotated_types import Ge, Gt, Le
from pydantic import AfterValidator, AllowInfNan, BeforeValidator
from pydantic_core import PydanticCustomError

from a2a_server.protocol.names import (
    API_KEY,
    AUTHORIZATION,
    CURSOR,
    IDEMPOTENCY_KEY,
    REQUEST_ID,
    TRACE_PARENT,
    TRACE_STATE,
)

Count = Annotated[int, Ge(1)]
Bound = Annotated[int, Ge(0)]
"""0 = no bound."""
Span = Annotated[float, Ge(0), AllowInfNan(False)]  # noqa: FBT003 - as pydantic has it
"""Seconds. What 0 means is for each setting to say."""
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800, "y": 31_536_000}


def seconds_of(value: object) -> object:
    """Read an age such as 30d. Anything else is left to be judged as a number of seconds."""
    if not isinstance(value, str) or not (text := value.strip().lower()) or text[-1] not in _UNITS:
        return value
    try:
        return float(text[:-1]) * _UNITS[text[-1]]
    except ValueError:
        raise ValueError("must be seconds, or a number with s, m, h, d, w or y, such as 30d") from None


Age = Annotated[float, Ge(0), AllowInfNan(False), Le(1e10), BeforeValidator(seconds_of)]  # noqa: FBT003 - as above
"""Seconds, or text such as 30d."""
SMALL: Final = 16 * 1024
"""A request of at most so many bytes is read before it is known who calls: it cannot take longer than 10 ms."""
Seconds = Annotated[float, Gt(0), Le(365 * 24 * 3600)]


def split(value: object, *, what: str = "names") -> object:
    """Read a list as in an environment variable: separated by commas, or as a JSON array."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return tuple(json.loads(value))
        except ValueError:
            if not _IN_BRACKETS.match(value):
                raise ValueError(f"must be {what} separated by commas, or a JSON array") from None
    return tuple(text.strip() for text in value.split(",") if text.strip())


def wrong(setting: str, value: object, message: str, *, reads: Sequence[str] = ()) -> PydanticCustomError:
    """Make an error that names another setting than the one being validated, or just this value of it.

    `reads`: the settings without which nobody can say whether it is one.
    """
    context = {"message": message, "setting": setting, "value": value, "reads": reads}
    return PydanticCustomError("wrong", "{message}", context)


def all_are(read: Callable[[str], object], message: str) -> AfterValidator:
    """Refuse the first of several texts that cannot be read: then `read` returns nothing, or raises a `ValueError`."""

    def check(texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            with suppress(ValueError):
                if read(text):
                    continue
            raise wrong("", text, message)
        return texts

    return AfterValidator(check)


def network_of(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Read an address or a network."""
    return ipaddress.ip_network(text.strip(), strict=False)


def connection_bounds(total: int, per_address: int) -> tuple[int, int]:
    """How many connections a door takes, in all and of one address.

    A `total` of 0 is three eighths of the files that the process may have open: two doors leave a quarter in reserve.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = total or max((soft if soft > 0 else _MANY_FILES) * 3 // 8, 2)
    return most, min(per_address, max(most // 2, 1))


def _is_free(name: str) -> bool:
    return name.lower() not in RESERVED


NameList = Annotated[tuple[str, ...], BeforeValidator(split)]
Networks = Annotated[NameList, all_are(network_of, "must be addresses or networks, such as 10.0.0.0/8")]

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
    REQUEST_ID,
)
WELL_KNOWN = ("accept", "accept-language", "forwarded", "from", "host", "origin", "referer", "user-agent", "via")
RESERVED = frozenset(
    (
        *("connection", "content-length", "content-type", "host", "keep-alive"),
        *("proxy-connection", "te", "transfer-encoding", "upgrade", "user-agent"),
    )
)
"""Headers that HTTP/2 and gRPC set themselves. No request header becomes metadata of these names."""
_RESERVED: Final = "is a header that HTTP/2 or gRPC keep for themselves"
_HOST: Final = re.compile(r"\*|[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:.]+\]?").fullmatch
_A_HOST: Final = "must be host names without a port, such as agents.example, or *"
_ORIGIN: Final = re.compile(r"\*|https?://[^/?#@\s]+/?").fullmatch
_AN_ORIGIN: Final = "must be origins such as https://console.example, or *"
FIXED: Final = frozenset(("agent", "extendedAgentCard", "healthz", "openapi.json", "readyz", "tasks", "v1"))
"""The first segments of paths that the gateway serves itself."""
_MANY_FILES: Final = 65_536
"""What counts for a limit where the system has none."""
_IN_BRACKETS: Final = re.compile(r"\s*\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]")
"""An IPv6 address, which begins like a JSON array."""
_PATH: Final = re.compile(r"(?:/(?!\.)[A-Za-z0-9._~-]+)+")


class KeyPlace(NamedTuple):
    """Where HTTP clients send API keys, and nowhere else (AUTN-04)."""

    location: Literal["header", "query", "cookie"]
    name: str

    @property
    def metadata(self) -> str:
        """The metadata that carries them to the server."""
        return self.name.lower()


def path_fault(path: str) -> str:
    """Say why a path cannot be used for the draft; empty if it can."""
    if path != "/" and not _PATH.fullmatch(path):
        return "must be a path such as /draft, of letters, digits and - . _ ~ between slashes, or the root, /"
    first = first_segment(path)
    return f"/{first} is served already; choose another path, such as /draft" if first in FIXED else ""


def first_segment(path: str) -> str:
    return path.lstrip("/").partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """Times are seconds, sizes bytes."""

    max_body_bytes: Count = 16 * 1024 * 1024
    """The largest request body. A larger one is answered with 413."""
    max_lines_bytes: Count = 256 * 1024 * 1024
    """The largest body of JSON lines, for methods that take a stream of messages. `max_body_bytes` bounds each line."""
    max_url_bytes: Count = 8190
    """The longest path with its query. A longer one is answered with 414."""
    max_header_bytes: Count = 8190
    """The longest request header. A longer one is answered with 431."""
    max_header_total_bytes: Count = 12 * 1024
    """The largest total size of a request's headers. More are answered with 431. gRPC servers accept 16 KiB of metadata
    by default, and count 32 bytes extra for each name."""
    max_unfinished_bytes: Count = 256 * 1024 * 1024
    """How much of bodies that are not complete may be held for all clients together, half of it for one address, and
    half for one caller. More is answered with 429."""
    max_depth: Count = 64
    """How deeply JSON may nest."""
    max_json_values: Count = 25_000
    """The most values in a JSON body: commas, brackets and braces outside of strings are counted. More are answered
    with 413. So many hold up everybody else for up to 25 ms in each stage of their work."""
    body_timeout: Seconds = 30.0
    """How long the headers of a request may take to arrive, and then its body."""
    idle_timeout: Seconds = 75.0
    """How long a connection without requests is kept open."""
    write_timeout: Seconds = 60.0
    """How long a client may read nothing of what it is sent before its connection is closed."""
    max_unsent_bytes: Count = 256 * 1024 * 1024
    """How much may be buffered for all slow clients together. Beyond it, the client with the most is disconnected."""
    connections: Annotated[int, Ge(0)] = 0
    """How many connections may be open at once. Further ones are closed at once. 0 = three eighths of the files that
    the process may have open."""
    connections_per_client: Count = 2000
    """How many of them one address may have, and never more than half of all. Trusted proxies have no such limit."""
    keep_alive: Seconds = 30.0
    """The longest silence of a stream: before it is over, an idle stream gets a comment, so that no proxy cuts it."""
    streams_per_client: Count = 1000
    """How many streams one client address may have open at once."""
    streams: Count = 10_000
    """How many streams may be open at once."""
    hsts: Annotated[int, Ge(0)] = 365 * 24 * 3600
    """For how many seconds browsers that have called over HTTPS may no longer call this host over plain HTTP
    (Strict-Transport-Security, RFC 6797). It is said with every answer over HTTPS; 0 = never."""
    card_max_age: Annotated[int, Ge(0)] = 60
    """How many seconds clients may cache the public card."""
    card_form: CardForm = "auto"
    """The form of the public card for clients that ask for no version: `auto` = the members of 1.0 and, while 0.3 is
    served, those of 0.3; `1.0` = only 1.0, for strict checkers; `0.3` = only 0.3."""
    legacy_json: LegacyJson = "proto"
    """The JSON in which REST answers clients of 0.3 when the request does not show one: `proto` = that of the 0.3
    proto, `kind` = that of the 0.3 JSON schema."""
    profiles: Profiles = ()
    """Other versions to serve: `draft` = the draft between 0.3 and 1.0, at `draft_path`."""
    draft_path: str = "/draft"
    """The path under which the draft is served; / = at the root, where it takes /v1 if 0.3 is not served."""
    upstream_doors: bool = True
    """Whether the card keeps the other interfaces that the upstream declares, such as its gRPC address."""
    card: str = ""
    """A JSON file with the public card, for upstreams that do not serve theirs over gRPC."""
    cors_origins: Annotated[NameList, all_are(_ORIGIN, _AN_ORIGIN)] = ()
    """Origins whose web pages may call, such as https://console.example, or *. All pages may read the public card.
    Pages of other origins must send credentials in headers; what browsers add by themselves, such as cookies, never
    counts for them."""
    hosts: Annotated[NameList, all_are(_HOST, _A_HOST)] = ()
    """Further host names by which clients may call a server that is anonymous or listens on this machine alone, such as
    agents.example, or * for all. It answers to localhost, its own address and the host of `public_url` anyway. Others
    are refused, because a web page can point a name of its own at any machine."""
    trusted_proxies: Networks = ()
    """Addresses or networks of proxies whose Forwarded and X-Forwarded-For, -Proto, -Host and -Port headers are
    believed, such as 10.0.0.0/8."""
    forwarded_prefix: bool = False
    """Whether X-Forwarded-Prefix of trusted proxies is believed too. Enable it only if every proxy sets or removes that
    header: most pass on what the client has sent."""
    forward_headers: Annotated[NameList, all_are(_is_free, _RESERVED)] = FORWARDED
    """Request headers that become metadata of the same name; a star at the end stands for any ending. Cookies are not
    among them, because browsers send them by themselves."""
    forward_well_known: NameList = WELL_KNOWN
    """Standard request headers that become metadata `grpcgateway-<name>`."""


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
    input_request_members: Literal["asked", "always"] = "asked"
    """Who gets `inputRequest` and parts of tools as members of 0.3's JSON: `asked` = clients that use them or ask for
    them; `always` = all of them, webhooks included. Others get the extension."""
    grpc_urls: bool = False
    """Whether 0.3 cards put http:// or https:// before the address of the gRPC door, as the text of 0.3 prescribes. The
    SDKs dial what they read as it stands, and need the bare address."""

    @property
    def writes_members(self) -> bool:
        """Whether all clients of 0.3 get the extra members for input requests and tool parts (XTRA-01)."""
        return self.input_request_members == "always"

    @property
    def waits_by_default(self) -> bool:
        """Whether a send over gRPC without a configuration waits."""
        return self.wait == "always"


LEGACY_DEFAULT: Final = LegacyOptions()


_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):([0-9]{1,5})").fullmatch
_TARGET = re.compile(r"(dns|ipv4|ipv6|unix):\S+").fullmatch
_HIGHEST_PORT = 65535


def target_of(address: str) -> str:
    """Read `host ":" port`, `"[" ipv6 "]:" port`, or a target in gRPC's own syntax, such as `unix:/run/a2a.sock`."""
    if _TARGET(address):
        return address
    match = _ADDRESS(address)
    if match is None or not 0 < int(match[1]) <= _HIGHEST_PORT:
        raise ValueError(f'upstream "{address}": must be HOST:PORT, such as 127.0.0.1:50051 or [::1]:50051')
    return f"dns:///{address}"  # also for literal addresses


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelOptions:
    """Times are seconds, sizes bytes."""

    addresses: Annotated[NameList, all_are(target_of, "must be HOST:PORT, such as 127.0.0.1:50051")] = ()
    """HOST:PORT of each upstream server. Calls go to all of them in turn, and to all addresses of a name."""
    tls: bool = False
    """Whether to use TLS; any of the next four settings enables it too."""
    ca: str = ""
    """A PEM file with the authorities to trust; empty = those of the system."""
    cert: str = ""
    """A PEM file with the gateway's own certificate, for upstreams that ask for one."""
    key: str = ""
    """A PEM file with the certificate's private key."""
    server_name: str = ""
    """The name in the upstream's certificate, if it differs from the one in its address."""
    read_timeout: Seconds = 30.0
    """How long a call that changes nothing may take, unless the client sets a deadline."""
    call_timeout: Seconds = 600.0
    """The same for all other unary calls, such as sends that wait for the agent. Streams have no limit."""
    connect_timeout: Seconds = 5.0
    """How long it may take to open a connection, and how long the upstream may take to accept a stream."""
    attempts: Annotated[int, Ge(1)] = 3
    """How many attempts a call that changes nothing gets while the upstream is away."""
    max_message_bytes: Count = 256 * 1024 * 1024
    """The largest answer, or item of a stream."""
    calls_per_connection: Count = 100
    """How many calls of one kind a connection carries before another one is opened. Servers limit this, often to 100 or
    128, and calls beyond the limit wait. If the server accepts fewer streams, the gateway notices within a second; if
    it accepts fewer sends, set that number here."""
    connections: Count = 100
    """How many connections one address may have for each kind of calls: reads, sends, streams. When all are full, calls
    are answered with 429."""
    keepalive_time: Annotated[float, Ge(10)] = 330.0
    """How long a connection with open calls may be silent before it is pinged. gRPC servers disconnect clients that
    ping more often than every five minutes, unless configured otherwise; a2ad allows ten seconds."""
    keepalive_timeout: Seconds = 20.0
    """How long the answer to a ping may take before the connection is closed."""
    health_checks: bool = False
    """Whether to send no calls to an upstream that reports NOT_SERVING at grpc.health.v1, so that a stopping server
    gets no new ones. Only for upstreams that report their health without credentials, as a2ad does."""

    @property
    def secure(self) -> bool:
        return self.tls or any((self.ca, self.cert, self.key, self.server_name))
