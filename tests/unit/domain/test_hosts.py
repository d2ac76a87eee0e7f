"""One spelling for every host, and lists that know it (spec: SSRF-02, SSRF-03)."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from a2a_server.domain.hosts import HostList, host_of, is_local_name


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
