"""What trusted proxies say about the request: the client's address, and the URL it used (spec: DOOR-05)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from aiohttp import web

from gateway.options import network_of

_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]{1,64}){0,8}")


class Proxies:
    """Knows whose words to take."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self._trusted = [network_of(text) for text in trusted]

    def client(self, request: web.BaseRequest) -> str:
        """The address nearest to us that is no trusted proxy."""
        peer = request.remote or ""
        if not self._trusts(peer):
            return peer
        for hop in reversed(_hops(request)):
            if not self._trusts(hop):
                return hop
            peer = hop
        return peer

    def base(self, request: web.BaseRequest) -> str:
        """The URL that the client used, without path; empty when nobody trustworthy says."""
        if not self._trusts(request.remote or ""):
            return ""
        scheme, host, prefix = _forwarded(request)
        if scheme not in ("http", "https") or not _HOST.fullmatch(host) or not _PREFIX.fullmatch(prefix):
            return ""
        return f"{scheme}://{host}{prefix}"

    def _trusts(self, address: str) -> bool:
        if not self._trusted:
            return False
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        parsed = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(parsed in network for network in self._trusted)


def _hops(request: web.BaseRequest) -> list[str]:
    """The addresses that proxies have noted, the client's first."""
    if "Forwarded" in request.headers:
        return [_bare(hop["for"]) for hop in request.forwarded if hop.get("for")]
    lines = request.headers.getall("X-Forwarded-For", [])
    return [_bare(hop) for line in lines for hop in line.split(",") if hop.strip()]


def _bare(hop: str) -> str:
    """Drop the port of `192.0.2.1:5`, the brackets and port of `[2001:db8::1]:5`."""
    text = hop.strip().strip('"')
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _forwarded(request: web.BaseRequest) -> tuple[str, str, str]:
    """Scheme, host and path prefix; of several proxies the one nearest to the client was first."""
    headers = request.headers
    prefix = _first(headers.get("X-Forwarded-Prefix", "")).rstrip("/")
    if "Forwarded" in headers:
        hop = request.forwarded[0] if request.forwarded else {}
        return hop.get("proto", "").lower(), hop.get("host", ""), prefix
    host = _first(headers.get("X-Forwarded-Host", "")) or headers.get("Host", "")
    port = _first(headers.get("X-Forwarded-Port", ""))
    if port.isdecimal() and ":" not in host and port not in ("80", "443"):
        host = f"{host}:{port}"
    return _first(headers.get("X-Forwarded-Proto", "")).lower(), host, prefix


def _first(value: str) -> str:
    return value.partition(",")[0].strip()
