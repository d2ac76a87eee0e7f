"""Request headers as gRPC metadata and back, and the media types of requests and answers.

Metadata follows the conventions of grpc-gateway (spec: DOOR-10, SPAR-01, SPAR-02). Media types: MEDI, CONF-03, CONF-04
and DOOR-11.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from aiohttp import HttpVersion11, hdrs, web
from multidict import MultiMapping

from a2a_gateway.upstream import MetadataPairs
from a2a_server.protocol.errors import A2AError, Reason, Violation, refuse
from a2a_server.protocol.names import (
    A2A_JSON,
    EXTENSIONS,
    EXTENSIONS_HEADER,
    JSON,
    NDJSON,
    SCHEMES,
    SPOKEN,
    SSE,
    TRACE_PARENT,
    TRACE_STATE,
)
from a2a_server.protocol.options import RESERVED, GatewayOptions

MOST_HEADERS = 100
BESIDE = len(": \r\n")
"""What a header has beside its name and its value."""

PREFIX = "grpc-metadata-"
WELL_KNOWN = "grpcgateway-"
TIMEOUT = "grpc-timeout"

_OURS = frozenset({SPOKEN, SCHEMES})
"""Metadata that only this gateway may send to the upstream; clients cannot."""

_TRACE = frozenset({TRACE_PARENT, TRACE_STATE})
"""A malformed value of these never refuses a call; readers ignore it.

Several lines are joined to the one list that they are in HTTP. Of several metadata values gRPC would use the last.
"""

_NAME = re.compile(r"[0-9a-z_.-]{1,256}")
_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_LONGEST_TIMEOUT = 30 * 24 * 3600.0
"""Longer timeouts are shortened to this, so that no timer overflows."""
_UNPRINTABLE = re.compile(r"[^ -~]")
_DEADLINE = ":deadline"
"""Stands for the timeout. No metadata can have this name."""
_MOST_REMEMBERED = 1024
_CONTINUE = "100-continue"
_LONGEST_ACCEPT = 1024
_WEIGHT = re.compile(r"[01]?(\.[0-9]{0,3})?")


@dataclass(slots=True, eq=False)
class RequestMetadata:
    """The metadata and the timeout that a request's headers give."""

    metadata: dict[str, tuple[str, ...]] = field(default_factory=dict)
    binary: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    timeout: float | None = None


class HeaderMap:
    """Decides which request headers become metadata, and under which names."""

    def __init__(
        self, forward: Iterable[str], well_known: Iterable[str], renamed: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`renamed` headers are always forwarded, under the name given here."""
        self._renamed = renamed
        names = [name.lower() for name in forward]
        self._exact = frozenset(name for name in names if not name.endswith("*"))
        self._prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
        self._well_known = frozenset(name.lower() for name in well_known)
        self._remembered: dict[str, str] = {}
        self._plain: dict[str, str] = {}
        """The headers among them whose value is forwarded unchanged."""

    def incoming(self, headers: Mapping[str, str]) -> RequestMetadata:
        """Read headers; one name may occur several times."""
        found = RequestMetadata()
        metadata = found.metadata
        plain, remembered = self._plain, self._remembered
        for name, value in headers.items():
            target = plain.get(name)
            if target is not None and target not in metadata and value.isascii() and value.isprintable():
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
        if len(self._remembered) < _MOST_REMEMBERED:  # clients may invent names without end
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
            return target if _NAME.fullmatch(name) and target not in _OURS else ""
        return WELL_KNOWN + name if name in self._well_known else ""


def _add(found: RequestMetadata, target: str, header: str, value: str) -> None:
    if target == _DEADLINE:
        found.timeout = timeout_of(value)
    elif target.startswith("grpc-") or target in RESERVED:
        refuse([Violation(header, "names metadata that gRPC keeps for itself")])
    elif target.endswith("-bin"):
        found.binary[target] = (*found.binary.get(target, ()), *_decoded(header, value))
    elif target in _TRACE:
        line = value if value.isascii() and value.isprintable() else ""
        found.metadata[target] = (",".join([*found.metadata.get(target, ()), line]),)
    elif not value.isascii() or not value.isprintable():
        if not target.startswith(WELL_KNOWN):  # a browser's Referer must not refuse a call
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
    """Turn metadata into headers named as by grpc-gateway; active extensions also get the protocol's own header."""
    headers = [("Grpc-Metadata-" + name, _text(value)) for name, value in metadata]
    headers += [("Grpc-Trailer-" + name, _text(value)) for name, value in trailers if not name.startswith("grpc-")]
    headers += [(own, _text(value)) for name, value in metadata if name == EXTENSIONS for own in echo]
    return headers


def _text(value: str | bytes) -> str:
    """Return a value that is safe in a header, whatever the upstream has sent."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if value.isascii() and value.isprintable() else _UNPRINTABLE.sub("?", value)


def accepted_types(headers: MultiMapping[str]) -> str | None:
    """Return the value of Accept; several lines of it are one list."""
    lines = headers.getall(hdrs.ACCEPT, None)
    return None if lines is None else ", ".join(lines)


def answer_type(accept: str | None) -> str:
    return A2A_JSON if accept is None or accept == "*/*" else _best(accept, (A2A_JSON, JSON))


def plain_answer_type(accept: str | None) -> str:
    """Return plain JSON; clients that accept only A2A's type get it too (CONF-04)."""
    if accept is not None and accept != "*/*":
        _best(accept, (JSON, A2A_JSON))
    return JSON


def stream_type(accept: str | None) -> str:
    """Return the type of a stream. Clients that ask for plain JSON get SSE, the protocol's only form."""
    if accept is None or accept == SSE:
        return SSE
    best = _best(accept, (SSE, NDJSON, A2A_JSON, JSON), told=2)
    return best if best == NDJSON else SSE


def error_type(accept: str | None) -> str:
    """Return the type that a success would have. A client that accepts neither still gets the error."""
    try:
        return answer_type(accept)
    except A2AError:
        return A2A_JSON


def must_be_json(content_type: str | None, types: Sequence[str] = (A2A_JSON, JSON)) -> None:
    """Refuse a body of another type before it is parsed (MEDI-05). No Content-Type counts as JSON."""
    if content_type is None or content_type in types or _bare(content_type) in types:
        return
    raise A2AError(
        Reason.CONTENT_TYPE_NOT_SUPPORTED,
        f'The body must be {" or ".join(types)} in UTF-8; Content-Type is "{content_type[:100]}".',
        metadata={"contentType": content_type},
    )


def _bare(content_type: str) -> str:
    kind, *parameters = content_type.lower().split(";")
    named = [(name.strip(), value.strip(' "')) for name, _, value in (item.partition("=") for item in parameters)]
    return kind.strip() if all(value in {"utf-8", "utf8"} for name, value in named if name == "charset") else ""


@lru_cache(maxsize=256)
def _best(accept: str, offers: Sequence[str], told: int | None = None) -> str:
    """Return the offer that Accept prefers (RFC 9110), the first among equals; refusals list the first `told` ones."""
    ranges = list(_ranges(accept[:_LONGEST_ACCEPT]))
    quality = {offer: _quality(offer, ranges) for offer in offers}
    best = max(offers, key=lambda offer: quality[offer])
    if ranges and not quality[best]:
        raise A2AError(Reason.NOT_ACCEPTABLE, f'There is {", ".join(offers[:told])}; Accept asks for "{accept[:100]}".')
    return best


def _ranges(accept: str) -> Iterator[tuple[str, float]]:
    for item in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in item.split(";"))
        if kind:
            weights = [text[2:] for text in parameters if text.startswith("q=")]
            yield "*/*" if kind == "*" else kind, _weight(weights[0]) if weights else 1.0  # Java's clients send `*`


def _weight(text: str) -> float:
    """Read a weight; ignore a malformed one."""
    return min(float(text), 1.0) if _WEIGHT.fullmatch(text) and text not in {"", "."} else 1.0


def _quality(offer: str, ranges: Sequence[tuple[str, float]]) -> float:
    family = offer.partition("/")[0] + "/*"
    for wanted in (offer, family, "*/*"):
        if found := [weight for kind, weight in ranges if kind == wanted]:
            return max(found)
    return 0.0


def check_head(request: web.BaseRequest, options: GatewayOptions) -> None:
    """Refuse a URL or headers that are too large (DOOR-04), and what cannot be framed or expected."""
    if len(request.raw_path) > options.max_url_bytes:
        raise url_too_long(options)
    raw, most = request.raw_headers, options.max_header_bytes
    total = sum([len(name) + len(value) for name, value in raw])
    if total > most and any(len(name) > most or len(value) > most for name, value in raw):
        raise A2AError(Reason.HEADERS_TOO_LARGE, f"A header may have at most {most} bytes.")
    if total + BESIDE * len(raw) > options.max_header_total_bytes:
        raise headers_too_large(options)
    if len(raw) > MOST_HEADERS:
        raise too_many_headers()
    if is_misframed(request):
        raise A2AError(Reason.INVALID_REQUEST, "HTTP/1.0 has no Transfer-Encoding; send Content-Length.")
    if (expected := request.headers.get(hdrs.EXPECT, "")) and expected.lower() != _CONTINUE:
        raise A2AError(Reason.EXPECTATION_FAILED, f'Expect may be {_CONTINUE}; it is "{expected[:100]}".')


def is_misframed(request: web.BaseRequest) -> bool:
    """Whether nobody can say where the request ends, and with it the connection (RFC 9112, 6.1)."""
    return request.version < HttpVersion11 and hdrs.TRANSFER_ENCODING in request.headers


def url_too_long(options: GatewayOptions) -> A2AError:
    return A2AError(Reason.URI_TOO_LONG, f"Path and query may have at most {options.max_url_bytes} bytes.")


def headers_too_large(options: GatewayOptions) -> A2AError:
    text = f"All headers together may have at most {options.max_header_total_bytes} bytes."
    return A2AError(Reason.HEADERS_TOO_LARGE, text)


def too_many_headers() -> A2AError:
    return A2AError(Reason.HEADERS_TOO_LARGE, f"A request may have at most {MOST_HEADERS} headers.")
