"""HTTP headers ↔ gRPC metadata, by grpc-gateway's conventions (spec: DOOR-10, SPAR-01, SPAR-02)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from a2a_gateway.upstream import Metadata
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.names import EXTENSIONS, EXTENSIONS_HEADER, SCHEMES, SPOKEN, TRACE_PARENT, TRACE_STATE
from a2a_server.protocol.options import RESERVED

PREFIX = "grpc-metadata-"
WELL_KNOWN = "grpcgateway-"
TIMEOUT = "grpc-timeout"

_OURS = frozenset({SPOKEN, SCHEMES})
"""What this gateway says to the upstream beside a request; no client says it in its stead."""

_TRACE = frozenset({TRACE_PARENT, TRACE_STATE})
"""No fault in these is a reason to refuse a call: whoever reads them ignores what is malformed.

Several lines are told as the one list that they are in HTTP: gRPC would pass on the last parent as if it were the only.
"""

_NAME = re.compile(r"[0-9a-z_.-]{1,256}")
_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_LONGEST_TIMEOUT = 30 * 24 * 3600.0
"""As good as any longer one, and no timer overflows."""
_UNPRINTABLE = re.compile(r"[^ -~]")
_DEADLINE = ":deadline"
"""No metadata can have this name."""
_MOST_REMEMBERED = 1024


class Incoming:
    """What a request's headers say to the upstream."""

    __slots__ = ("binary", "metadata", "timeout")

    def __init__(self) -> None:
        self.metadata: dict[str, tuple[str, ...]] = {}
        self.binary: dict[str, tuple[bytes, ...]] = {}
        self.timeout: float | None = None


class HeaderMap:
    """Decides which request headers travel on, and under which name."""

    def __init__(
        self, forward: Iterable[str], well_known: Iterable[str], renamed: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`renamed` headers always travel on, under a name of ours."""
        self._renamed = renamed
        names = [name.lower() for name in forward]
        self._exact = frozenset(name for name in names if not name.endswith("*"))
        self._prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
        self._well_known = frozenset(name.lower() for name in well_known)
        self._remembered: dict[str, str] = {}
        self._plain: dict[str, str] = {}
        """Those of them whose value travels on as it is."""

    def incoming(self, headers: Mapping[str, str]) -> Incoming:
        """Read headers; `headers` may name one several times."""
        found = Incoming()
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
        if len(self._remembered) < _MOST_REMEMBERED:  # clients may invent names
            self._remembered[name] = target
            if target and _is_plain(target):
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


def _is_plain(target: str) -> bool:
    return not (target == _DEADLINE or target.startswith("grpc-") or target in RESERVED or target.endswith("-bin"))


def _add(found: Incoming, target: str, header: str, value: str) -> None:
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
        if not target.startswith(WELL_KNOWN):  # a browser's Referer is no reason to refuse a call
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
    """Several binary values may share a line, separated by commas; padding may be missing."""
    for text in value.split(","):
        bare = text.strip().rstrip("=")
        try:
            yield base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
        except (binascii.Error, ValueError):
            refuse([Violation(header, "must be base64, as metadata whose name ends in -bin is binary")])


def outgoing(
    metadata: Metadata, trailers: Metadata = (), echo: Sequence[str] = (EXTENSIONS_HEADER,)
) -> Sequence[tuple[str, str]]:
    """Name metadata as grpc-gateway does; active extensions also under the protocol's own names (SPAR-02)."""
    headers = [("Grpc-Metadata-" + name, _text(value)) for name, value in metadata]
    headers += [("Grpc-Trailer-" + name, _text(value)) for name, value in trailers if not name.startswith("grpc-")]
    headers += [(own, _text(value)) for name, value in metadata if name == EXTENSIONS for own in echo]
    return headers


def _text(value: str | bytes) -> str:
    """Spell a value so that it is one header, whatever an upstream says."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if value.isascii() and value.isprintable() else _UNPRINTABLE.sub("?", value)
