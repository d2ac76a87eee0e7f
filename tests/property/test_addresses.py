"""The judgement of addresses over the whole special-purpose registries of IPv4 and IPv6 (spec: SSRF-01, PAID-04)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_server.domain.hosts import PUBLIC, Addresses, IpAddress, Network

# IANA's registries, with the RFC that made each entry, and what is special without being in them.
REGISTRY_4 = {
    "0.0.0.0/8": "this network, RFC 791",
    "0.0.0.0/32": "this host on this network, RFC 1122",
    "10.0.0.0/8": "private use, RFC 1918",
    "100.64.0.0/10": "shared address space, RFC 6598",
    "127.0.0.0/8": "loopback, RFC 1122",
    "169.254.0.0/16": "link-local, RFC 3927",
    "172.16.0.0/12": "private use, RFC 1918",
    "192.0.0.0/24": "protocol assignments, RFC 6890",
    "192.0.0.0/29": "DS-Lite, RFC 7335",
    "192.0.0.8/32": "dummy address, RFC 7600",
    "192.0.0.9/32": "port control anycast, RFC 7723 (globally reachable, and yet the next router)",
    "192.0.0.10/32": "TURN anycast, RFC 8155 (likewise)",
    "192.0.0.170/32": "NAT64 discovery, RFC 7050",
    "192.0.0.171/32": "NAT64 discovery, RFC 7050",
    "192.0.2.0/24": "documentation, RFC 5737",
    "192.31.196.0/24": "AS112, RFC 7535",
    "192.52.193.0/24": "AMT, RFC 7450",
    "192.88.99.0/24": "6to4 relays, deprecated by RFC 7526",
    "192.168.0.0/16": "private use, RFC 1918",
    "192.175.48.0/24": "AS112, RFC 7534",
    "198.18.0.0/15": "benchmarking, RFC 2544",
    "198.51.100.0/24": "documentation, RFC 5737",
    "203.0.113.0/24": "documentation, RFC 5737",
    "224.0.0.0/4": "multicast, RFC 5771",
    "240.0.0.0/4": "reserved, RFC 1112",
    "255.255.255.255/32": "limited broadcast, RFC 919",
    "168.63.129.16/32": "a cloud platform's own service, on each of its machines",
}
REGISTRY_6 = {
    "::/128": "unspecified, RFC 4291",
    "::1/128": "loopback, RFC 4291",
    "::/96": "IPv4-compatible, deprecated by RFC 4291",
    "::ffff:0:0:0/96": "IPv4-translated, RFC 2765",
    "64:ff9b:1::/48": "local NAT64, RFC 8215",
    "100::/64": "discard-only, RFC 6666",
    "100:0:0:1::/64": "dummy prefix, RFC 9780",
    "2001::/23": "protocol assignments, RFC 2928",
    "2001::/32": "Teredo, RFC 4380",
    "2001:1::1/128": "port control anycast, RFC 7723",
    "2001:1::2/128": "TURN anycast, RFC 8155",
    "2001:1::3/128": "DNS-SD registration anycast, RFC 9665",
    "2001:2::/48": "benchmarking, RFC 5180",
    "2001:3::/32": "AMT, RFC 7450",
    "2001:4:112::/48": "AS112, RFC 7535",
    "2001:10::/28": "ORCHID, RFC 4843",
    "2001:20::/28": "ORCHIDv2, RFC 7343",
    "2001:30::/28": "drone identifiers, RFC 9374",
    "2001:db8::/32": "documentation, RFC 3849",
    "2002::/16": "6to4, RFC 3056",
    "2620:4f:8000::/48": "AS112, RFC 7534",
    "3fff::/20": "documentation, RFC 9637",
    "5f00::/16": "segment routing, RFC 9602",
    "fc00::/7": "unique-local, RFC 4193",
    "fe80::/10": "link-local, RFC 4291",
    "fec0::/10": "site-local, deprecated by RFC 3879",
    "ff00::/8": "multicast, RFC 4291",
    # Whatever has not been given out (RFC 4291, section 2.4): all but 2000::/3 and what stands above.
    "4000::/3": "reserved",
    "6000::/3": "reserved",
    "8000::/3": "reserved",
    "a000::/3": "reserved",
    "c000::/3": "reserved",
    "e000::/4": "reserved",
    "f000::/5": "reserved",
    "f800::/6": "reserved",
    "fe00::/9": "reserved",
    "400::/6": "reserved",
    "800::/5": "reserved",
    "1000::/4": "reserved",
}
SPECIAL_4 = [IPv4Network(text) for text in REGISTRY_4]
SPECIAL_6 = [IPv6Network(text) for text in REGISTRY_6]
SPECIAL: list[Network] = [*SPECIAL_4, *SPECIAL_6]
# Entries inside of another with the same verdict need no rule of their own; the broadcast address has one.
WITH_RULES = [
    network
    for network in SPECIAL_4
    if network[0] == network.broadcast_address == IPv4Address("255.255.255.255")
    or not any(network != other and network.subnet_of(other) for other in SPECIAL_4)
]
CARRIERS = ["::ffff:0:0/96", "64:ff9b::/96"]  # in the registry, and judged by the IPv4 host they stand for


def inside(network: Network) -> st.SearchStrategy[IpAddress]:
    last = network.num_addresses - 1
    return st.one_of(st.just(0), st.just(last), st.integers(0, last)).map(lambda offset: network[offset])


def is_special(address: IpAddress) -> bool:
    return any(address in network for network in SPECIAL)


special_4 = st.sampled_from(SPECIAL_4).flatmap(inside)
special_6 = st.sampled_from(SPECIAL_6).flatmap(inside)
global_4 = st.ip_addresses(v=4).filter(lambda address: not is_special(address))
global_6 = st.ip_addresses(v=6, network="2000::/3").filter(
    # An interface identifier that tells of ISATAP is not like any other.
    lambda address: not is_special(address) and address.packed[9:12] != b"\x00\x5e\xfe"
)


@pytest.mark.req("SSRF-01", "PAID-04")
@pytest.mark.parametrize("text", [*REGISTRY_4, *REGISTRY_6])
def test_the_first_and_the_last_address_of_every_entry_are_refused(text: str) -> None:
    network = ip_network(text)
    assert PUBLIC.refusal(network[0])
    assert PUBLIC.refusal(network[-1])


@pytest.mark.req("SSRF-01", "PAID-04")
@given(st.one_of(special_4, special_6))
def test_whatever_is_special_is_refused(address: IpAddress) -> None:
    assert PUBLIC.refusal(address)


@pytest.mark.parametrize("text", [*REGISTRY_4, *REGISTRY_6])
def test_the_entries_end_where_the_registry_says(text: str) -> None:
    """Each neighbour is refused for its own sake, or not at all."""
    network = ip_network(text)
    kind = type(network.network_address)
    for number in (int(network[0]) - 1, int(network[-1]) + 1):
        if 0 <= number < 2**network.max_prefixlen:
            neighbour = kind(number)
            carried = any(neighbour in IPv6Network(carrier) for carrier in CARRIERS)
            reserved = isinstance(neighbour, IPv6Address) and neighbour not in IPv6Network("2000::/3")
            assert bool(PUBLIC.refusal(neighbour)) == (is_special(neighbour) or reserved) or carried


@given(st.one_of(global_4, global_6))
def test_global_addresses_pass(address: IpAddress) -> None:
    assert PUBLIC.refusal(address) == ""


def disguises(host: IPv4Address) -> dict[str, IPv6Address]:
    raw = host.packed
    return {
        "mapped": IPv6Address(b"\0" * 10 + b"\xff\xff" + raw),
        "compatible": IPv6Address(b"\0" * 12 + raw),
        "translated": IPv6Address(b"\0" * 8 + b"\xff\xff\0\0" + raw),
        "NAT64": IPv6Address(bytes.fromhex("0064ff9b") + b"\0" * 8 + raw),
        "local NAT64, /48": IPv6Address(bytes.fromhex("0064ff9b0001") + raw[:2] + b"\0" + raw[2:] + b"\0" * 5),
        "local NAT64, /56": IPv6Address(bytes.fromhex("0064ff9b000100") + raw[:1] + b"\0" + raw[1:] + b"\0" * 4),
        "local NAT64, /64": IPv6Address(bytes.fromhex("0064ff9b00010000") + b"\0" + raw + b"\0" * 3),
        "local NAT64, /96": IPv6Address(bytes.fromhex("0064ff9b0001") + b"\0" * 6 + raw),
        "6to4": IPv6Address(b"\x20\x02" + raw + b"\0" * 9 + b"\x01"),
        "Teredo's server": IPv6Address(bytes.fromhex("20010000") + raw + b"\0" * 4 + bytes(8 * [0x77])[:4]),
        "Teredo's client": IPv6Address(
            bytes.fromhex("2001000008080808") + b"\0" * 4 + bytes(byte ^ 0xFF for byte in raw)
        ),
        "ISATAP": IPv6Address(bytes.fromhex("2a00145040010000") + b"\x00\x00\x5e\xfe" + raw),
        "ISATAP, global": IPv6Address(bytes.fromhex("2a00145040010000") + b"\x02\x00\x5e\xfe" + raw),
    }


@pytest.mark.req("SSRF-01", "PAID-04")
@given(special_4.filter(lambda host: int(host) != 1))  # ::0.0.0.1 is ::1
def test_no_disguise_helps_a_special_host(host: IPv4Address) -> None:
    """Not even where the operator has opened whatever the disguise is made of."""
    openhanded = Addresses.of(
        allow=[IPv6Network(text) for text in ("::/0", "::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16")]
    )
    for name, address in disguises(host).items():
        assert PUBLIC.refusal(address), name
        if not name.startswith("local") or int(host):  # four zero bytes may be anything else there
            assert openhanded.refusal(address), name


@given(global_4)
def test_hosts_behind_translations_in_use_are_judged_as_themselves(host: IPv4Address) -> None:
    said = {name: PUBLIC.refusal(address) for name, address in disguises(host).items()}
    assert {name for name, words in said.items() if not words} == {"mapped", "NAT64", "ISATAP", "ISATAP, global"}


@given(st.ip_addresses(v=4, network="127.0.0.0/8"))
def test_the_development_switch_opens_loopback_and_nothing_else(host: IPv4Address) -> None:
    here = Addresses.of(loopback=True)
    assert here.refusal(host) == here.refusal(IPv6Address("::1")) == here.refusal(disguises(host)["mapped"]) == ""
    assert all(here.refusal(network.network_address) for network in SPECIAL if not network.is_loopback)


@given(st.one_of(special_4, special_6, global_4, global_6), st.integers(0, 128))
def test_a_denied_network_denies_each_of_its_addresses(address: IpAddress, length: int) -> None:
    network = ip_network((address, min(length, address.max_prefixlen)), strict=False)
    assert Addresses.of(deny=[network]).refusal(address)
    assert Addresses.of(deny=[network], allow=[network]).refusal(address)


@given(st.one_of(special_4, global_4), st.integers(0, 32))
def test_an_allowed_network_opens_what_is_no_more_special_than_itself(address: IPv4Address, length: int) -> None:
    network = ip_network((address, length), strict=False)
    tightest = max((special.prefixlen for special in WITH_RULES if address in special), default=0)
    assert (Addresses.of(allow=[network]).refusal(address) == "") == (length >= tightest)
