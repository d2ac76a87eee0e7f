"""Checks push configs: when they are made, and again before each attempt (spec: SSRF-02, SSRF-03, HOOK-03, CONF-34).

Host names are not resolved here. Their addresses are checked when a connection is opened. An earlier answer would
reveal which names exist in the operator's network, and might be out of date by then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple
from urllib.parse import quote

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.hosts import NONE, PUBLIC, Addresses, Host, HostList, host_of, is_local_name
from a2a_server.domain.validation import MAX_SECRET, MAX_URL
from a2a_server.protocol.errors import Violation, refuse

MAX_PATH: Final = 8_000
"""Bytes of path and query, encoded. Servers accept request lines of about that length."""
MAX_PORT: Final = 65_535
DEFAULT_PORTS: Final = (range(443, 444), range(80, 81), range(1024, MAX_PORT + 1))
"""HTTPS, HTTP and unprivileged ports; not those of mail servers, shells and name servers."""

# scheme://authority/path?query: RFC 3986, without the parts that webhooks do not need. Errors that browsers tolerate
# are refused, because every program tolerates different ones.
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?").fullmatch
_AUTHORITY: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?").fullmatch
_RANGE: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?").fullmatch
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\\<>\"{}|^`]").search
_BROKEN_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})").search
_ASCII: Final = "".join(map(chr, range(0x21, 0x7F)))
_WELL_KNOWN: Final = {"http": 80, "https": 443}

# RFC 9110: the value of a header, and the name of an authentication scheme.
_VALUE: Final = re.compile(r"[!-~]([ !-~]*[!-~])?").fullmatch
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
MAX_SCHEME: Final = 256


class Target(NamedTuple):
    """The receiver of a webhook, in the one spelling that is checked and called."""

    scheme: str
    host: Host
    port: int
    path: str
    """With the query, as written in the request line."""

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if isinstance(self.host, IPv6Address) else str(self.host)
        port = "" if self.port == _WELL_KNOWN[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Where the operator lets webhooks go."""

    addresses: Addresses = PUBLIC
    allow_hosts: HostList = NONE
    """If there are any, no others are called. Their addresses are checked, too."""
    deny_hosts: HostList = NONE
    https_only: bool = True
    ports: Sequence[range] = DEFAULT_PORTS

    def refusal(self, target: Target) -> str:
        """What would be right instead. "" = nothing in the URL forbids calling the target."""
        return self._host_refusal(target.host) or self._scheme_refusal(target) or self._port_refusal(target.port)

    def _host_refusal(self, host: Host) -> str:
        if host in self.deny_hosts or (self.allow_hosts and host not in self.allow_hosts):
            return f"must name a host that the operator allows; {str(host)[:80]!r} is not"
        if is_local_name(host) and not self.addresses.loopback:
            return "must name a host on the Internet, not this machine"
        if isinstance(host, (IPv4Address, IPv6Address)) and (words := self.addresses.refusal(host)):
            return f"must lead to a public address; {host} is {words} one"
        return ""

    def _scheme_refusal(self, target: Target) -> str:
        # On this machine nobody can listen in between, and certificates are rare in development.
        here = is_local_name(target.host) or (not isinstance(target.host, str) and target.host.is_loopback)
        if target.scheme == "http" and self.https_only and not here:
            return "must be an https URL, not http"
        return ""

    def _port_refusal(self, port: int) -> str:
        if any(port in ports for ports in self.ports):
            return ""
        allowed = ", ".join(f"{ports[0]}-{ports[-1]}" if len(ports) > 1 else f"{ports[0]}" for ports in self.ports)
        return f"must use an allowed port ({allowed}), not {port}"


def ports_of(texts: Iterable[str]) -> tuple[range, ...]:
    """Read `443` and `1024-65535`. Raises a `ValueError` that names the entry which is neither."""
    return tuple(map(_range_of, texts))


def _range_of(text: str) -> range:
    if (found := _RANGE(text.strip())) and 0 < (first := int(found[1])) <= (last := int(found[2] or first)) <= MAX_PORT:
        return range(first, last + 1)
    raise ValueError(f"{text[:80]!r}: must be a port such as 443, or a range such as 1024-65535")


def target_of(url: str) -> Target:
    """Parse a URL. Raises a `ValueError` that says what would be right, without repeating any part of the URL."""
    if len(url) > MAX_URL:
        raise ValueError(f"must have at most {MAX_URL} characters, got {len(url)}")
    if _UNSAFE(url) or _BROKEN_PERCENT(url):
        raise ValueError("must have everything percent-encoded (%20) that is no part of a URL's alphabet")
    if (found := _URL(url)) is None or (scheme := found[1].lower()) not in _WELL_KNOWN:
        raise ValueError("must be an absolute https URL, such as https://client.example/webhook")
    if "@" in found[2]:
        raise ValueError("must not hold a user or password; there is `authentication` for them")
    if found[5] is not None:
        raise ValueError("must not have a fragment (#): it would never be sent")
    host, port = _authority(found[2], _WELL_KNOWN[scheme])
    path = quote((found[3] or "/") + (found[4] or ""), safe=_ASCII)  # IRIs: encode only what is not ASCII
    if len(path) > MAX_PATH:
        raise ValueError(f"must have a path and query of at most {MAX_PATH} bytes, got {len(path)}")
    return Target(scheme, host, port, path)


def _authority(text: str, default: int) -> tuple[Host, int]:
    found = _AUTHORITY(text)
    if found is None:
        raise ValueError("must name a host and, if need be, a port: https://client.example:8443/")
    port = int(found[2]) if found[2] else default
    if not 0 < port <= MAX_PORT:
        raise ValueError(f"must have a port between 1 and {MAX_PORT}")
    return host_of(found[1]), port


def faults_of(config: pb.TaskPushNotificationConfig, policy: Policy, prefix: str = "") -> list[Violation]:
    """Everything that keeps a config from being used. An absent `url` is reported by `validation`."""
    found = [(f"{prefix}url", _url_fault(config.url, policy) if config.url else "")]
    found.append((f"{prefix}token", _value_fault(config.token)))
    if config.HasField("authentication"):
        scheme, credentials = config.authentication.scheme, config.authentication.credentials
        found.append((f"{prefix}authentication.scheme", _scheme_fault(scheme)))
        found.append((f"{prefix}authentication.credentials", _value_fault(credentials)))
    return [Violation(field, complaint) for field, complaint in found if complaint]


def _url_fault(url: str, policy: Policy) -> str:
    try:
        return policy.refusal(target_of(url))
    except ValueError as error:
        return str(error)


def _scheme_fault(scheme: str) -> str:
    """An absent scheme is reported by `validation`."""
    if not scheme or (len(scheme) <= MAX_SCHEME and _TOKEN(scheme)):
        return ""
    return "must be the name of an HTTP authentication scheme, such as Bearer"


def _value_fault(secret: str) -> str:
    """What is wrong with a secret, without revealing anything about it."""
    if len(secret) > MAX_SECRET:
        return f"must have at most {MAX_SECRET} characters, got {len(secret)}"
    if secret and not _VALUE(secret):
        return "must fit into a header: visible ASCII characters, with blanks only between them"
    return ""


UNKNOWN: Final = "?"


@lru_cache(maxsize=1024)
def site_of(url: str) -> str:
    """The receiver's `host:port` in one spelling. Attempts are counted and bounded by it (PAID-02)."""
    try:
        target = target_of(url)
    except ValueError:
        return UNKNOWN
    return f"{target.host}:{target.port}"


NOT_SERVED: Final = frozenset(
    (
        *("digest", "dpop", "gnap", "hoba", "mutual", "negotiate", "ntlm", "oauth"),
        *("scram-sha-1", "scram-sha-256", "signature", "vapid"),
    )
)
"""Schemes that need more than fixed credentials: a challenge, or a new value per request. In lower case."""

_MOST_NAMED: Final = 5


def is_served(scheme: str) -> bool:
    return bool(_TOKEN(scheme)) and scheme.lower() not in NOT_SERVED


def choose_scheme(config: pb.TaskPushNotificationConfig, offered: Sequence[str], prefix: str = "") -> None:
    """Choose the first offered scheme that fixed credentials are enough for, and write it into a checked config.

    `offered` is the client's list, if its version has one.
    """
    if not config.HasField("authentication"):
        return
    authentication = config.authentication
    chosen = next((scheme for scheme in offered or (authentication.scheme,) if is_served(scheme)), "")
    if not chosen:
        refuse([_none_served(offered, authentication.scheme, prefix)])
    authentication.scheme = chosen


def _none_served(offered: Sequence[str], scheme: str, prefix: str) -> Violation:
    needs = "webhooks are sent with fixed credentials, as Bearer or Basic take them"
    if not offered:
        return Violation(f"{prefix}authentication.scheme", f"{scheme[:80]!r} cannot be served: {needs}")
    named = ", ".join(repr(name[:80]) for name in offered[:_MOST_NAMED])
    return Violation(f"{prefix}authentication.schemes", f"none of {named} can be served: {needs}")
