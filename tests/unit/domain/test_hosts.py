"""Hosts and addresses: one spelling, lists, and the registries of IPv4 and IPv6 (spec: SSRF-01 to -03, PAID-04)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_server.domain.hosts import PUBLIC, Addresses, HostList, IpAddress, Network, host_of, is_local_name


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("hook.example", "hook.example"),
        ("HOOK.Example.", "hook.example"),
        ("db_1", "db_1"),  # services in a compose file are called so
        ("münchen.example", "xn--mnchen-3ya.example"),
        ("straße.example", "xn--strae-oqa.example"),
        ("xn--mnchen-3ya.example", "xn--mnchen-3ya.example"),
        ("ＨＯＯＫ。example", "hook.example"),  # noqa: RUF001 - what IDNA folds
        ("ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "localhost"),
        ("0x7f.example", "0x7f.example"),  # a number only where the last label is one
    ],
)
def test_names_have_one_spelling(text: str, host: str) -> None:
    assert host_of(text) == host


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("[2001:DB8:0::1]", "2001:db8::1"),
        ("[::ffff:192.0.2.1]", "::ffff:192.0.2.1"),
        ("１２７.0.0.1", "127.0.0.1"),  # noqa: RUF001 - what IDNA folds
    ],
)
def test_addresses_are_addresses(text: str, address: str) -> None:
    assert host_of(text) == ip_address(address)


@pytest.mark.req("SSRF-02", "PAID-04")
@pytest.mark.parametrize(
    "text",
    [
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7F.0x0.0x0.0x1",
        "0X7F.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.01",
        "0x7f.0.0.1",
        "1.0x2.03.4",
        "127.0.0.1.",
        "0",
        "0x",
        "00",
        "4294967296",
        "1.2.3.4.5",
        "256.0.0.1",
        "127.0.0.1.2130706433",
        "hook.example.1",
        "０x7f.1",  # noqa: RUF001 - what IDNA folds
        "127。1",
    ],
)
def test_numbers_that_resolvers_would_take_for_an_address_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="four decimal numbers"):
        host_of(text)


@pytest.mark.req("SSRF-02")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "must name a host"),
        (".", "letters, digits"),
        ("..", "letters, digits"),
        (".hook.example", "letters, digits"),
        ("hook..example", "letters, digits"),
        ("hook.example..", "letters, digits"),
        ("-hook.example", "letters, digits"),
        ("hook-.example", "letters, digits"),
        ("hook example", "letters, digits"),
        ("%6c%6fcalhost", "letters, digits"),
        ("hook.example\n", "letters, digits"),
        ("hook;example", "letters, digits"),
        ("a" * 64 + ".example", "letters, digits"),
        (".".join(["a" * 62] * 5), "at most 253 characters"),
        ("b" * 254, "at most 253 characters"),
        ("ü" * 64 + ".example", "IDNA"),
        ("a‮b.example", "IDNA"),  # noqa: PLE2502 - turns what follows around
        ("☃️\u200d.example", "IDNA"),
        ("[::1", "IPv6 address"),
        ("[]", "IPv6 address"),
        ("[v1.a]", "IPv6 address"),
        ("[127.0.0.1]", "IPv6 address"),
        ("[::ffff:0x7f.1]", "IPv6 address"),
        ("[::1]]", "IPv6 address"),
        ("[fe80::1%25eth0]", "interface"),
        ("[fe80::1%1]", "interface"),
    ],
)
def test_what_is_no_host(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        host_of(text)


@pytest.mark.req("SSRF-02")
def test_names_of_this_machine() -> None:
    assert all(map(is_local_name, ("localhost", "a.localhost", "b.a.localhost")))
    assert not any(map(is_local_name, ("localhost.example", "mylocalhost", ip_address("127.0.0.1"))))


@pytest.mark.req("SSRF-03")
def test_lists_know_hosts_in_every_spelling() -> None:
    hosts = HostList.of(
        ["Hook.Example.", ".below.example", "2001:DB8::1", "[2001:db8::2]", "192.0.2.1", "bücher.example"]
    )
    for text in (
        "HOOK.example",
        "a.below.example",
        "b.a.BELOW.example",
        "[2001:db8:0:0::1]",
        "[2001:db8::2]",
        "192.0.2.1",
        "xn--bcher-kva.example",
    ):
        assert host_of(text) in hosts, text
    for text in ("a.hook.example", "below.example", "notbelow.example", "[2001:db8::3]", "192.0.2.2"):
        assert host_of(text) not in hosts, text
    assert hosts
    assert not HostList.of([])


@pytest.mark.parametrize("name", ["", ".", "a b", "127.1", "*.example", "https://hook.example"])
def test_a_list_names_the_entry_that_is_no_host(name: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - what it says is looked at
        HostList.of(["hook.example", name])
    assert repr(name) in str(caught.value)


@pytest.mark.req("SSRF-01")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("127.0.0.1", "a loopback"),
        ("::1", "a loopback"),
        ("::ffff:127.0.0.1", "a loopback"),
        ("10.1.2.3", "a private"),
        ("64:ff9b::a01:203", "a private"),
        ("169.254.169.254", "a link-local"),
        ("fe80::1", "a link-local"),
        ("fd00::1", "a unique-local"),
        ("0.0.0.0", "an unspecified"),  # noqa: S104 - nothing is bound
        ("::", "an unspecified"),
        ("255.255.255.255", "the broadcast"),
        ("2a00:1450:4001::5efe:c0a8:1", "a private"),
        ("2a00:1450:4001::1%eth0", "a scoped"),
        ("93.184.216.34", ""),
        ("::ffff:93.184.216.34", ""),
        ("2a00:1450:4001::1", ""),
    ],
)
def test_the_words_for_an_address(text: str, words: str) -> None:
    assert PUBLIC.refusal(ip_address(text)) == words


@pytest.mark.req("SSRF-03")
@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("10.2.0.1", False),
        ("10.1.9.9", False),  # denied inside of what is allowed
        ("93.184.216.34", False),  # everything else is denied
        ("2a00:1450:4001::1", False),
    ],
)
def test_the_most_specific_network_decides(text: str, *, allowed: bool) -> None:
    addresses = Addresses.of(
        allow=[ip_network("10.1.0.0/16"), ip_network("::ffff:0:0/96")],
        deny=[ip_network("0.0.0.0/0"), ip_network("::/0"), ip_network("10.1.9.0/24")],
    )
    assert (addresses.refusal(ip_address(text)) == "") is allowed


def test_whether_this_machine_may_be_called() -> None:
    assert not PUBLIC.loopback
    assert Addresses.of(loopback=True).loopback
    assert Addresses.of(allow=[ip_network("::1/128")]).loopback
    assert not Addresses.of(loopback=True, deny=[ip_network("127.0.0.0/8"), ip_network("::1/128")]).loopback


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


RFC_6052 = {  # the table of its section 2.4: 192.0.2.33 behind a prefix of each length
    "2001:db8::/32": "2001:db8:c000:221::",
    "2001:db8:100::/40": "2001:db8:1c0:2:21::",
    "2001:db8:122::/48": "2001:db8:122:c000:2:2100::",
    "2001:db8:122:300::/56": "2001:db8:122:3c0:0:221::",
    "2001:db8:122:344::/64": "2001:db8:122:344:c0:2:2100::",
    "2001:db8:122:344::/96": "2001:db8:122:344::192.0.2.33",
}


@pytest.mark.req("SSRF-01", "PAID-04")
@pytest.mark.parametrize("prefix", RFC_6052)
def test_a_prefix_of_nat64_hands_the_question_on_to_the_ipv4_address(prefix: str) -> None:
    address, nat64 = ip_address(RFC_6052[prefix]), [IPv6Network(prefix)]
    assert Addresses.of().refusal(address) == "a documentation"  # of 2001:db8::/32
    assert Addresses.of(nat64=nat64).refusal(address) == "a documentation"  # of 192.0.2.0/24
    assert Addresses.of([ip_network("192.0.2.0/24")], nat64=nat64).refusal(address) == ""
    assert (
        Addresses.of([ip_network("2001:db8::/32")], [ip_network("192.0.2.0/24")], nat64).refusal(address) == "a denied"
    )
    assert Addresses.of([ip_network("192.0.2.0/24")], [ip_network(prefix)], nat64).refusal(address) == "a denied"


@pytest.mark.req("SSRF-01", "PAID-04")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2a00:64::93.184.216.34", ""),
        ("2a00:64::10.0.0.1", "a private"),
        ("2a00:64::127.0.0.1", "a loopback"),
        ("2a00:64::169.254.169.254", "a link-local"),
        ("2a00:64::1:10.0.0.1", ""),  # outside
        ("fd00:64::93.184.216.34", ""),
        ("fd00:64::10.0.0.1", "a private"),
        ("fd00:65::93.184.216.34", "a unique-local"),
        ("64:ff9b:1:7::93.184.216.34", ""),  # with this prefix there is no doubt about its length
        ("64:ff9b:1:7::10.0.0.1", "a private"),
        ("64:ff9b:1:8::93.184.216.34", "a translator's"),
    ],
)
def test_private_hosts_stay_closed_behind_nat64(text: str, words: str) -> None:
    prefixes = [IPv6Network(prefix) for prefix in ("2a00:64::/96", "fd00:64::/96", "64:ff9b:1:7::/96")]
    assert Addresses.of(nat64=prefixes).refusal(ip_address(text)) == words
