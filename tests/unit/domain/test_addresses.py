"""What operators say about addresses, and what is said of those that are refused (spec: SSRF-01, SSRF-03)."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from a2a_server.domain.hosts import PUBLIC, Addresses


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
