"""The hosts and IP addresses that webhooks may be sent to (spec: SSRF-01 to SSRF-03, PAID-04).

1. `host_of` gives every host one spelling. Only this spelling is compared, logged and called, so that two programs
   cannot read the same URL differently.
2. `HostList` holds the hosts that the operator allows or denies by name.
3. `Addresses` decides about IP addresses. The most specific network that holds an address decides; the operator's
   deny-list comes before the allow-list, and both before the blocks below. An address that stands for an IPv4 host, by
   translation or tunnel, must be allowed as that host, too. Operators name the NAT64 prefixes of their own networks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from types import MappingProxyType
from typing import Final, NamedTuple, Self

import idna

Host = str | IPv4Address | IPv6Address

MAX_HOST: Final = 253
_MAX_LABEL: Final = 63
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?").fullmatch
# Resolvers read a name whose last label is a number as an IPv4 address of one to four numbers, each of them decimal,
# octal or hexadecimal: 127.1, 2130706433, 0x7f.0.0.1, 0177.0.0.1 …
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*").fullmatch


def host_of(text: str) -> Host:
    """The host that a URL names. Raises a `ValueError` that says what would be right."""
    if text.startswith("["):
        return _address_of(text)
    name = _ascii(text).lower()
    labels = name.removesuffix(".").split(".")
    if _NUMBER(labels[-1]):
        return _number_of(name)
    if not all(len(label) <= _MAX_LABEL and _LABEL(label) for label in labels):
        raise ValueError("must name a host by letters, digits, hyphens and dots")
    return ".".join(labels)


def _ascii(text: str) -> str:
    if not text:
        raise ValueError("must name a host")
    if len(text.removesuffix(".")) > MAX_HOST:
        raise ValueError(f"must name a host of at most {MAX_HOST} characters, got {len(text)}")
    if text.isascii():
        return text
    try:
        return idna.encode(text, uts46=True).decode("ascii")
    except ValueError:  # the text of idna's own error is not for clients
        raise ValueError("must name a host that IDNA knows how to write, such as bücher.example") from None


def _address_of(text: str) -> IPv6Address:
    try:
        address = IPv6Address(text[1:-1] if text.endswith("]") else text)
    except ValueError:
        raise ValueError("must hold an IPv6 address in its brackets") from None
    if address.scope_id is not None:
        raise ValueError("must not name an interface (%) with an address")
    return address


def _number_of(name: str) -> IPv4Address:
    try:
        return IPv4Address(name)
    except ValueError:
        raise ValueError("must write an IPv4 address as four decimal numbers, such as 192.0.2.1") from None


def is_local_name(host: Host) -> bool:
    """Whether a name means this machine by definition (RFC 6761), whatever a resolver says."""
    return isinstance(host, str) and (host == "localhost" or host.endswith(".localhost"))


@dataclass(frozen=True, slots=True)
class HostList:
    """A list of hosts: `hook.example` is that one, `.example` every host below it, `192.0.2.1` an address."""

    exact: frozenset[str] = frozenset()
    below: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Iterable[str]) -> HostList:
        """Raises a `ValueError` that names the entry which is no host."""
        exact, below = set(), []
        for name in names:
            try:
                host = str(host_of(_bracketed(name.removeprefix("."))))
            except ValueError as error:
                raise ValueError(f"{name[:80]!r}: {error}") from None
            if name.startswith("."):
                below.append(f".{host}")
            else:
                exact.add(host)
        return cls(frozenset(exact), tuple(below))

    def __contains__(self, host: Host) -> bool:
        return str(host) in self.exact or (isinstance(host, str) and host.endswith(self.below))

    def __bool__(self) -> bool:
        return bool(self.exact or self.below)


NONE: Final = HostList()


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


IpAddress = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
_Nets = Iterable[Network]

# IANA's special-purpose registries for IPv4 and IPv6, all of them: also what they call globally reachable (anycast
# services, identifiers that look like addresses) is nobody's web server. "" = may be called.
_BLOCKS: Final = MappingProxyType(
    {
        "0.0.0.0/0": "",
        "0.0.0.0/8": "an unspecified",
        "10.0.0.0/8": "a private",
        "100.64.0.0/10": "a shared (carrier's)",
        "127.0.0.0/8": "a loopback",
        "168.63.129.16/32": "a cloud platform's",  # a global address that only answers the cloud's own machines
        "169.254.0.0/16": "a link-local",
        "172.16.0.0/12": "a private",
        "192.0.0.0/24": "a protocol's",
        "192.0.2.0/24": "a documentation",
        "192.31.196.0/24": "an anycast service's",
        "192.52.193.0/24": "an anycast service's",
        "192.88.99.0/24": "a tunnel's",
        "192.168.0.0/16": "a private",
        "192.175.48.0/24": "an anycast service's",
        "198.18.0.0/15": "a benchmarking",
        "198.51.100.0/24": "a documentation",
        "203.0.113.0/24": "a documentation",
        "224.0.0.0/4": "a multicast",
        "240.0.0.0/4": "a reserved",
        "255.255.255.255/32": "the broadcast",
        "::/0": "a reserved",  # all but the one block in use (2000::/3) and what is named below
        "::/128": "an unspecified",
        "::1/128": "a loopback",
        "::ffff:0:0/96": "",  # IPv4-mapped: the IPv4 host decides
        "64:ff9b::/96": "",  # NAT64: the IPv4 host decides
        "64:ff9b:1::/48": "a translator's",
        "100::/64": "a discarding",
        "100:0:0:1::/64": "a discarding",
        "2000::/3": "",
        "2001::/23": "a protocol's",  # includes Teredo, benchmarking, ORCHIDs and anycast services
        "2001:db8::/32": "a documentation",
        "2002::/16": "a tunnel's",
        "2620:4f:8000::/48": "an anycast service's",
        "3fff::/20": "a documentation",
        "5f00::/16": "a segment's",
        "fc00::/7": "a unique-local",
        "fe80::/10": "a link-local",
        "fec0::/10": "a site-local",
        "ff00::/8": "a multicast",
    }
)

_LOOPBACK: Final[tuple[Network, ...]] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))

_HERE: Final[tuple[IpAddress, ...]] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))

_IN_LAST_BYTES: Final = tuple(  # compatible, mapped, translated (SIIT), NAT64
    map(IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
)
_NAT64_LOCAL: Final = IPv6Network("64:ff9b:1::/48")
NAT64_LENGTHS: Final = (32, 40, 48, 56, 64, 96)
"""Bits that a prefix of NAT64 may have (RFC 6052)."""
_TEREDO: Final = IPv6Network("2001::/32")
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")
_ISATAP: Final = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")


class AddressRule(NamedTuple):
    """What kind of addresses a network holds; no words = they may be called."""

    network: Network
    words: str


@dataclass(frozen=True, slots=True)
class Addresses:
    """Decides which addresses may be called. It is made once, by `of`, and asked for every connection."""

    rules: tuple[AddressRule, ...] = ()
    """The operator's rules, the most specific first. Of two for the same network, the one that denies is first."""
    nat64: tuple[IPv6Network, ...] = ()
    """The operator's prefixes of NAT64. The addresses inside are judged by the IPv4 addresses that they hold."""

    @classmethod
    def of(
        cls, allow: _Nets = (), deny: _Nets = (), nat64: Iterable[IPv6Network] = (), *, loopback: bool = False
    ) -> Self:
        """`allow` opens networks that are closed by default. To close all others, deny 0.0.0.0/0 and ::/0."""
        nat64 = tuple(nat64)
        rules = [AddressRule(network, "a denied") for network in deny]
        rules += [AddressRule(network, "") for network in (*allow, *nat64, *(_LOOPBACK if loopback else ()))]
        return cls(_sorted(rules), nat64)

    def refusal(self, address: IpAddress) -> str:
        """What kind of address this is ("a private"), if it may not be called. "" = it may be called."""
        if isinstance(address, IPv4Address):
            return self._decide(address)
        if address.scope_id:
            return "a scoped"
        translated = [_held(address.packed, prefix.prefixlen) for prefix in self.nat64 if address in prefix]
        meant: tuple[IpAddress, ...] = (address, *(translated or embedded(address)))
        return next((words for one in meant if (words := self._decide(one))), "")

    @property
    def loopback(self) -> bool:
        """Whether this machine itself may be called."""
        return not all(self.refusal(address) for address in _HERE)

    def _decide(self, address: IpAddress) -> str:
        block = next(rule for rule in _RULES if address in rule.network)
        rule = next((rule for rule in self.rules if address in rule.network), block)
        # Allowing a network does not open the special ones inside it: allowing 0.0.0.0/0 opens nothing.
        return rule.words or (block.words if block.network.prefixlen > rule.network.prefixlen else "")


def _sorted(rules: Iterable[AddressRule]) -> tuple[AddressRule, ...]:
    return tuple(sorted(rules, key=lambda rule: -rule.network.prefixlen))


_RULES: Final = _sorted(AddressRule(ip_network(text), words) for text, words in _BLOCKS.items())

PUBLIC: Final = Addresses()
"""The default: only addresses on the public Internet."""


def embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    """Every IPv4 host that the address may stand for."""
    raw = address.packed
    if any(address in network for network in _IN_LAST_BYTES) and not address.is_loopback:
        yield IPv4Address(raw[12:])
    elif address in _NAT64_LOCAL:
        # With every length that its prefix may have: it does not say which.
        yield from (host for bits in (48, 56, 64, 96) if int(host := _held(raw, bits)))
    elif address in _SIX_TO_FOUR:
        yield IPv4Address(raw[2:6])
    elif address in _TEREDO:
        yield IPv4Address(raw[4:8])  # the server, and the client, whose bits are inverted
        yield IPv4Address(bytes(byte ^ 0xFF for byte in raw[12:]))
    if raw[8:12] in _ISATAP:
        yield IPv4Address(raw[12:])


def _held(raw: bytes, bits: int) -> IPv4Address:
    """The IPv4 address behind a prefix of so many bits."""
    return IPv4Address((raw[:8] + raw[9:])[min(bits // 8, 11) :][:4])  # without the byte that is always zero


@lru_cache(maxsize=4096)
def network_of_client(peer: str) -> str:
    """Return the key for counting a client: for IPv6 the /64 network, because one client has all addresses of it."""
    try:
        address = ip_address(peer)
    except ValueError:  # a socket of another kind
        return peer
    if not isinstance(address, IPv6Address):
        return peer
    mapped = address.ipv4_mapped
    return str(mapped) if mapped is not None else str(IPv6Address(int(address) >> 64 << 64))
