"""Turns request headers into gRPC metadata, and metadata into headers, by the conventions of grpc-gateway.

It also refuses requests whose head is too large, and those of web pages that may not call. Serves DOOR-04, DOOR-10,
SPAR-01 and SPAR-02.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from types import MappingProxyType

from aiohttp import HttpVersion11, hdrs, web
from multidict import istr

from a2a_gateway.requests.media_types import is_lines, must_be_json
from a2a_gateway.upstream import MetadataPairs
from a2a_server.protocol.errors import RATE_HEADERS, A2AError, Reason, Violation, refuse
from a2a_server.protocol.names import (
    EXTENSIONS,
    EXTENSIONS_HEADER,
    SCHEMES,
    SPOKEN,
    TRACE_PARENT,
    TRACE_STATE,
)
from a2a_server.protocol.options import RESERVED, GatewayOptions

MOST_HEADERS = 100
HEADER_OVERHEAD = len(": \r\n")
"""How many bytes a header has besides its name and its value."""

PREFIX = "grpc-metadata-"
WELL_KNOWN = "grpcgateway-"
TIMEOUT = "grpc-timeout"

_OURS = frozenset({SPOKEN, SCHEMES})
"""Metadata that only the gateway may send to the upstream. Headers of clients never become this metadata."""

_PROXIES = ("client-cert", "x-auth-request-", "x-forwarded-", "x-remote-")
"""Prefixes of metadata in which a proxy names the caller whom it has authenticated."""

_TRACE = frozenset({TRACE_PARENT, TRACE_STATE})
"""Trace headers. A malformed value is ignored and never an error.

Several lines are joined to one list, as HTTP defines. Of several metadata values, gRPC would use only the last.
"""

_NAME = re.compile(r"[0-9a-z_.-]{1,256}")
_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_LONGEST_TIMEOUT = 30 * 24 * 3600.0
"""Longer timeouts are shortened to this, so that no timer overflows."""
_UNPRINTABLE = re.compile(r"[^ -~]")
_TAB = "\t"
"""The one control character that aiohttp lets into a header: ASCII without it is printable."""
_DEADLINE = ":deadline"
"""The target of the timeout header. No metadata can have this name."""
_MOST_REMEMBERED = 1024
_CONTINUE = "100-continue"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_ORIGIN, _SITE, _MODE, _DEST = istr("Origin"), istr("Sec-Fetch-Site"), istr("Sec-Fetch-Mode"), istr("Sec-Fetch-Dest")
_HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]{1,254}))(?::[0-9]{1,5})?")
_ALL_ADDRESSES = frozenset({"0.0.0.0", "::"})  # noqa: S104 - to be recognised


@dataclass(slots=True, eq=False)
class RequestMetadata:
    """The metadata and the timeout that a request's headers give."""

    metadata: dict[str, tuple[str, ...]] = field(default_factory=dict)
    binary: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    timeout: float | None = None


class HeaderMap:
    """Decides which request headers become metadata, and under which names."""

    def __init__(
        self,
        forward: Iterable[str],
        well_known: Iterable[str],
        renamed: Mapping[str, str] = MappingProxyType({}),
        identity: Iterable[str] = (),
    ) -> None:
        """`renamed` headers are always forwarded, under the given name.

        `identity` headers name the caller, and only trusted proxies may send them. Only a header with exactly such a
        name becomes metadata of that name, so that clients cannot use another spelling of it.
        """
        self.identity = frozenset(identity)
        self._renamed = renamed
        names = [name.lower() for name in forward]
        self._exact = frozenset(name for name in names if not name.endswith("*"))
        self._prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
        self._well_known = frozenset(name.lower() for name in well_known)
        self._remembered: dict[str, str] = {}
        self._plain: dict[str, str] = {}
        """The remembered headers whose value is forwarded unchanged."""

    def incoming(self, headers: Mapping[str, str]) -> RequestMetadata:
        """Read the headers of a request. A name may occur several times."""
        found = RequestMetadata()
        metadata = found.metadata
        plain, remembered = self._plain, self._remembered
        for name, value in headers.items():
            target = plain.get(name)
            if target is not None and target not in metadata and value.isascii() and _TAB not in value:
                metadata[target] = (value,)
                continue
            target = remembered.get(name)
            if target is None:
                target = self._remember(name)
            if target:
                _add(found, target, name, value)
        return found

    def _remember(self, name: str) -> str:
        target = self._target(name.lower())
        if len(self._remembered) < _MOST_REMEMBERED:  # clients can send any number of different names
            self._remembered[name] = target
            special = target == _DEADLINE or target.startswith("grpc-") or target in RESERVED
            if target and not (special or target.endswith("-bin")):
                self._plain[name] = target
        return target

    def _target(self, name: str) -> str:
        if name == TIMEOUT:
            return _DEADLINE
        if name in self._renamed:
            return self._renamed[name]
        listed = name in self._exact or (self._prefixes and name.startswith(self._prefixes))
        if listed and name not in RESERVED:
            target = name.removeprefix(PREFIX)
            if is_identity(target, self.identity) and (target != name or name not in self._exact):
                return ""
            return target if _NAME.fullmatch(name) and target not in _OURS else ""
        return WELL_KNOWN + name if name in self._well_known else ""


def is_identity(name: str, more: Collection[str]) -> bool:
    """Whether metadata of this name may name the caller. Some servers treat underscores like dashes."""
    plain = name.replace("_", "-").removesuffix("-bin")
    return plain.startswith(_PROXIES) or plain in more


def _add(found: RequestMetadata, target: str, header: str, value: str) -> None:
    if target == _DEADLINE:
        found.timeout = timeout_of(value)
    elif target.startswith("grpc-") or target in RESERVED:
        refuse([Violation(header, "names metadata that gRPC keeps for itself")])
    elif target.endswith("-bin"):
        found.binary[target] = (*found.binary.get(target, ()), *_decoded(header, value))
    elif target in _TRACE:
        line = value if value.isascii() and _TAB not in value else ""
        found.metadata[target] = (",".join([*found.metadata.get(target, ()), line]),)
    elif not value.isascii() or _TAB in value:
        if not target.startswith(WELL_KNOWN):  # a browser's Referer must not make a call fail
            refuse([Violation(header, "must be printable ASCII")])
    else:
        metadata = found.metadata
        metadata[target] = (*metadata[target], value) if target in metadata else (value,)


def timeout_of(value: str) -> float:
    """Read `1*8DIGIT ("H" / "M" / "S" / "m" / "u" / "n")`, as gRPC over HTTP/2 writes it."""
    match = _TIMEOUT.fullmatch(value.strip())
    if match is None:
        refuse([Violation("Grpc-Timeout", 'must be up to eight digits and one of H M S m u n, such as "10S"')])
    return min(int(match[1]) * _UNITS[match[2]], _LONGEST_TIMEOUT)


def _decoded(header: str, value: str) -> Iterable[bytes]:
    """Yield binary values. Several may share a line, separated by commas; padding is optional."""
    for text in value.split(","):
        bare = text.strip().rstrip("=")
        try:
            yield base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
        except (binascii.Error, ValueError):
            refuse([Violation(header, "must be base64, as metadata whose name ends in -bin is binary")])


def outgoing(
    metadata: MetadataPairs, trailers: MetadataPairs = (), echo: Sequence[str] = (EXTENSIONS_HEADER,)
) -> Sequence[tuple[str, str]]:
    """Turn metadata into headers with the names of grpc-gateway. Active extensions also get the protocol's own header.

    Rate limits get only their own headers.
    """
    own_name = RATE_HEADERS.get
    headers = [(own_name(name) or "Grpc-Metadata-" + name, _text(value)) for name, value in metadata]
    headers += [
        (own_name(name) or "Grpc-Trailer-" + name, _text(value))
        for name, value in trailers
        if not name.startswith("grpc-")
    ]
    headers += [(own, _text(value)) for name, value in metadata if name == EXTENSIONS for own in echo]
    return headers


def _text(value: str | bytes) -> str:
    """Return a value that is safe in a header. The upstream may have sent anything."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if value.isascii() and value.isprintable() else _UNPRINTABLE.sub("?", value)


def check_head(request: web.BaseRequest, options: GatewayOptions) -> None:
    """Refuse a URL or headers that are too large (DOOR-04), a body whose end is unknown, and an unknown `Expect`."""
    if len(request.raw_path) > options.max_url_bytes:
        raise url_too_long(options)
    raw, most = request.raw_headers, options.max_header_bytes
    total = sum([len(name) + len(value) for name, value in raw])
    if total > most and any(len(name) > most or len(value) > most for name, value in raw):
        raise A2AError(Reason.HEADERS_TOO_LARGE, f"A header may have at most {most} bytes.")
    if total + HEADER_OVERHEAD * len(raw) > options.max_header_total_bytes:
        raise headers_too_large(options)
    if len(raw) > MOST_HEADERS:
        raise too_many_headers()
    if is_misframed(request):
        raise A2AError(Reason.INVALID_REQUEST, "HTTP/1.0 has no Transfer-Encoding; send Content-Length.")
    if (expected := request.headers.get(hdrs.EXPECT, "")) and expected.lower() != _CONTINUE:
        raise A2AError(Reason.EXPECTATION_FAILED, f'Expect may be {_CONTINUE}; it is "{expected[:100]}".')


def is_misframed(request: web.BaseRequest) -> bool:
    """Whether the end of the request is unknown, so that the connection must close (RFC 9112, 6.1)."""
    return request.version < HttpVersion11 and hdrs.TRANSFER_ENCODING in request.headers


def url_too_long(options: GatewayOptions) -> A2AError:
    return A2AError(Reason.URI_TOO_LONG, f"Path and query may have at most {options.max_url_bytes} bytes.")


def headers_too_large(options: GatewayOptions) -> A2AError:
    text = f"All headers together may have at most {options.max_header_total_bytes} bytes."
    return A2AError(Reason.HEADERS_TOO_LARGE, text)


def too_many_headers() -> A2AError:
    return A2AError(Reason.HEADERS_TOO_LARGE, f"A request may have at most {MOST_HEADERS} headers.")


def check_sender(request: web.BaseRequest, hosts: frozenset[str] | None, allows: Callable[[str], bool]) -> None:
    """Refuse a request of a web page that may not call (DOOR-04).

    `hosts` are this server's names, which `Host` must be one of; None = any name. `allows` says whether pages of an
    origin may call. Requests that may change something follow the rules of CrossOriginProtection in Go 1.25.
    """
    headers = request.headers
    if hosts is not None and (host := headers.get(hdrs.HOST)) is not None and not is_own_host(host, hosts):
        text = f'Host "{host[:100]}" is none of this server\'s names; the setting gateway.hosts adds names.'
        raise A2AError(Reason.MISDIRECTED_REQUEST, text)
    if request.method in _SAFE or not (_SITE in headers or _ORIGIN in headers or _MODE in headers or _DEST in headers):
        return
    origin = headers.get(_ORIGIN, "")
    if not (_is_same_origin(headers.get(_SITE, ""), origin, headers.get(hdrs.HOST, "")) or allows(origin)):
        text = "Pages of other sites may not call; the setting gateway.cors_origins lists origins whose pages may."
        raise A2AError(Reason.PERMISSION_DENIED, text)
    has_type = hdrs.CONTENT_TYPE in headers
    if request.method == hdrs.METH_POST and (has_type or request.can_read_body) and not is_lines(headers):
        must_be_json(headers.get(hdrs.CONTENT_TYPE, ""))  # a page may send other types, or none, to any site


def _is_same_origin(site: str, origin: str, host: str) -> bool:
    """Whether a request comes from a page of this server, from the user directly, or from no browser at all."""
    if site:
        return site in {"same-origin", "none"}
    return not origin or (bool(host) and origin.partition("://")[2].lower() == host.lower())


@lru_cache(maxsize=256)
def is_own_host(host: str, names: frozenset[str]) -> bool:
    """Whether a Host header names this server or machine. The port may differ, because ports are often forwarded."""
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = (found["address"] or found["name"]).lower().removesuffix(".")
    if name in names or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    # DNS rebinding needs a name: a page whose host is an address comes from that very address.
    return address.is_loopback or str(address) in names or not names.isdisjoint(_ALL_ADDRESSES)
