"""Hosts of webhooks: one spelling for each, and the operator's lists of them (spec: SSRF-02, SSRF-03).

What a URL calls its host is compared, shown and called in the spelling of `host_of` only, so that nothing can be read
in two ways: neither by the lists and the resolver, nor by the resolvers of two systems.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

import idna

Host = str | IPv4Address | IPv6Address

MAX_HOST: Final = 253
_MAX_LABEL: Final = 63
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?").fullmatch
# Resolvers take a name whose last label is a number for an IPv4 address, written in one to four numbers, each of them
# decimal, octal or hexadecimal: 127.1, 2130706433, 0x7f.0.0.1, 0177.0.0.1 …
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*").fullmatch


def host_of(text: str) -> Host:
    """The host that a URL names, or a `ValueError` that says what would be right."""
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
        name = idna.encode(text, uts46=True).decode("ascii")
    except ValueError:  # idna's own error is one, and says more than a client needs
        raise ValueError("must name a host that IDNA knows how to write, such as bücher.example") from None
    return name


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
class Hosts:
    """A list of hosts: `hook.example` is that one, `.example` every host below it, `192.0.2.1` an address."""

    exact: frozenset[str] = frozenset()
    below: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Iterable[str]) -> Hosts:
        """A `ValueError` names the entry that is no host."""
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


NONE: Final = Hosts()


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name and not name.startswith("[") else name
