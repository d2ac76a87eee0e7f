"""Finds the client's address and the URL it used, from the headers of trusted proxies (spec: DOOR-05).

Each proxy appends one entry to each list. So the last entries come from trusted proxies, and earlier ones may be
forged. A proxy writes one family of headers, `Forwarded` or `X-Forwarded-*`, and passes the other on unchanged. If the
two differ, neither is used. Few proxies write `X-Forwarded-Prefix`, so it may come from the client, and is used only if
the operator says so.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from aiohttp import hdrs, web

from a2a_server.protocol.options import network_of

_HOST = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]{1,64}){0,8}")
_PORT = re.compile(r":[0-9]{1,5}")
_LISTS = ("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto")
_PREFIX_HEADER = "X-Forwarded-Prefix"
_USUAL_PORTS = {"http": "80", "https": "443"}


class ForwardedLists(NamedTuple):
    """The lists of one family of headers. The entry of the proxy nearest to the client comes first."""

    addresses: Sequence[str]
    schemes: Sequence[str]
    hosts: Sequence[str]
    ports: Sequence[str] = ()
    prefixes: Sequence[str] = ()


class Proxies:
    """The trusted proxies, and what they report."""

    def __init__(self, trusted: Iterable[str], public_url: str = "", *, prefix: bool = False) -> None:
        """`prefix`: whether X-Forwarded-Prefix is used too."""
        self.public_url = public_url.rstrip("/")
        self.trusted = [network_of(text) for text in trusted]
        self._prefix = prefix
        said = (hdrs.FORWARDED, *_LISTS, *((_PREFIX_HEADER,) if prefix else ()))
        self.vary: Sequence[str] = said if self.trusted and not self.public_url else ()
        """The headers that `base` depends on, for `Vary`."""

    def client(self, request: web.BaseRequest) -> str:
        """Return the client's address, as far as it can be trusted."""
        peer = request.remote or ""
        if not self.trusts(peer):
            return peer
        told = {self._last_untrusted(report.addresses)[0] for report in self._reports(request) if report.addresses}
        return (told.pop() or peer) if len(told) == 1 else peer

    def base(self, request: web.BaseRequest) -> str:
        """Return the base URL that clients use: the configured one, or the proxies' one, or an empty text."""
        if self.public_url:
            return self.public_url
        if not self.trusts(request.remote or ""):
            return ""
        told = {self._url(request, report) for report in self._reports(request)}
        return told.pop() if len(told) == 1 else ""

    def _url(self, request: web.BaseRequest, report: ForwardedLists) -> str:
        _, depth = self._last_untrusted(report.addresses)
        scheme = (_entry_at(report.schemes, depth) or request.scheme).lower()
        host = _entry_at(report.hosts, depth) or request.headers.get(hdrs.HOST, "")
        prefix = _entry_at(report.prefixes, depth).rstrip("/")
        if scheme not in _USUAL_PORTS or not _HOST.fullmatch(host) or not _PREFIX.fullmatch(prefix):
            return ""
        return f"{scheme}://{_with_port(host, _entry_at(report.ports, depth), scheme)}{prefix}"

    def _reports(self, request: web.BaseRequest) -> Iterator[ForwardedLists]:
        prefixes = _listed(request, _PREFIX_HEADER) if self._prefix else ()  # for both families
        if standard := hdrs.FORWARDED in request.headers:
            hops = request.forwarded
            addresses, *rest = ([hop.get(name, "") for hop in hops] for name in ("for", "proto", "host"))
            yield ForwardedLists([_bare(address) for address in addresses], *rest)._replace(prefixes=prefixes)
        names, hosts, ports, schemes = (_listed(request, name) for name in _LISTS)
        if names or schemes or hosts or (prefixes and not standard):
            yield ForwardedLists([_bare(name) for name in names], schemes, hosts, ports, prefixes)

    def _last_untrusted(self, addresses: Sequence[str]) -> tuple[str, int]:
        """Return the last address that is not a trusted proxy, and how many entries back from the end it is."""
        passed = 0
        for address in reversed(addresses):
            passed += 1
            if not self.trusts(address):
                break
        return (addresses[-passed] if passed else ""), max(passed, 1)

    def trusts(self, address: str) -> bool:
        """Whether this is the address of a trusted proxy."""
        if not self.trusted:
            return False
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        parsed = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(parsed in network for network in self.trusted)


def _listed(request: web.BaseRequest, name: str) -> Sequence[str]:
    """Return all entries of a list header. Several lines are joined to one list."""
    return [text.strip() for line in request.headers.getall(name, ()) for text in line.split(",") if text.strip()]


def _entry_at(entries: Sequence[str], depth: int) -> str:
    """Return the entry of the outermost trusted proxy. Many proxies replace the list, so it may be shorter."""
    return entries[-min(depth, len(entries))] if entries else ""


def _bare(hop: str) -> str:
    """Drop the port of `192.0.2.1:5`, and the brackets and port of `[2001:db8::1]:5`."""
    text = hop.strip().strip('"')
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _with_port(host: str, port: str, scheme: str) -> str:
    named = _PORT.search(host.rpartition("]")[2])
    return host if named or not port.isdecimal() or port == _USUAL_PORTS[scheme] else f"{host}:{port}"
