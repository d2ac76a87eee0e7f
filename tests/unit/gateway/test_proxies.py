"""Whose word is taken for the client's address and for the URL it used (spec: DOOR-05)."""

from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from a2a_gateway.requests.proxies import Proxies

PROXIES = Proxies(["10.0.0.0/8", "::1", "fd00::/8"])


def request(*pairs: tuple[str, str], peer: str = "10.0.0.1", host: str = "inner:8080") -> Any:
    made = make_mocked_request("GET", "/", headers=CIMultiDict([("Host", host), *pairs]))
    return made.clone(remote=peer)


def base(*pairs: tuple[str, str], **more: str) -> str:
    return PROXIES.base(request(*pairs, **more))


def client(*pairs: tuple[str, str], **more: str) -> str:
    return PROXIES.client(request(*pairs, **more))


HTTPS = ("X-Forwarded-Proto", "https")

BASES = [
    ([HTTPS, ("X-Forwarded-Host", "agents.example")], "https://agents.example"),
    ([HTTPS, ("X-Forwarded-Host", "agents.example:8443")], "https://agents.example:8443"),
    ([HTTPS, ("X-Forwarded-Host", "agents.example"), ("X-Forwarded-Port", "8443")], "https://agents.example:8443"),
    ([HTTPS, ("X-Forwarded-Host", "agents.example"), ("X-Forwarded-Port", "443")], "https://agents.example"),
    ([HTTPS, ("X-Forwarded-Host", "agents.example"), ("X-Forwarded-Port", "80")], "https://agents.example:80"),
    ([HTTPS, ("X-Forwarded-Host", "a.example:1"), ("X-Forwarded-Port", "2")], "https://a.example:1"),
    ([HTTPS, ("X-Forwarded-Host", "a.example"), ("X-Forwarded-Prefix", "/a2a/")], "https://a.example"),
    ([("X-Forwarded-Prefix", "/a2a")], ""),  # not believed, and nothing else is said
    ([HTTPS], "https://inner:8080"),  # the proxy left Host as it was
    ([("X-Forwarded-Host", "agents.example")], "http://agents.example"),  # as it came to us
    ([("Forwarded", "for=192.0.2.1;proto=https;host=agents.example")], "https://agents.example"),
    ([("Forwarded", 'For="[2001:db8::1]:99";Proto=HTTPS;Host="[2001:db8::2]:8443"')], "https://[2001:db8::2]:8443"),
    ([HTTPS, ("X-Forwarded-Host", "[2001:db8::2]"), ("X-Forwarded-Port", "8443")], "https://[2001:db8::2]:8443"),
    ([], ""),
    ([("X-Forwarded-For", "192.0.2.1")], "http://inner:8080"),
]


@pytest.mark.req("DOOR-05")
@pytest.mark.parametrize(("pairs", "url"), BASES)
def test_a_trusted_proxy_says_which_url_the_client_used(pairs: list[tuple[str, str]], url: str) -> None:
    assert base(*pairs) == url
    assert base(*pairs, peer="192.0.2.9") == ""  # a stranger is not asked


@pytest.mark.req("DOOR-05")
@pytest.mark.parametrize(
    "pairs",
    [
        [("X-Forwarded-Proto", "javascript"), ("X-Forwarded-Host", "a.example")],
        [HTTPS, ("X-Forwarded-Host", "evil.example/path")],
        [HTTPS, ("X-Forwarded-Host", "user@evil.example")],
        [HTTPS, ("X-Forwarded-Host", "a:b:c")],
        [HTTPS, ("X-Forwarded-Host", "a b")],
        [HTTPS, ("X-Forwarded-Host", 'a"b')],
        [HTTPS, ("X-Forwarded-Host", "a.example"), ("Forwarded", "proto=https;host=evil.example")],
    ],
)
def test_what_is_no_url_or_contradicts_itself_is_not_believed(pairs: list[tuple[str, str]]) -> None:
    assert base(*pairs) == ""


PREFIXES = [
    ([HTTPS, ("X-Forwarded-Host", "a.example"), ("X-Forwarded-Prefix", "/a2a/")], "https://a.example/a2a"),
    ([("Forwarded", "proto=https;host=a.example"), ("X-Forwarded-Prefix", "/a2a")], "https://a.example/a2a"),
    ([HTTPS, ("X-Forwarded-Host", "a.example")], "https://a.example"),
    ([("X-Forwarded-Prefix", "/a2a")], "http://inner:8080/a2a"),
    ([HTTPS, ("X-Forwarded-Host", "a.example"), ("X-Forwarded-Prefix", "//evil.example")], ""),
    ([HTTPS, ("X-Forwarded-Host", "a.example"), ("X-Forwarded-Prefix", "/a?b")], ""),
]


@pytest.mark.req("DOOR-05")
@pytest.mark.parametrize(("pairs", "url"), PREFIXES)
def test_a_path_is_believed_where_the_operator_says_so(pairs: list[tuple[str, str]], url: str) -> None:
    assert Proxies(["10.0.0.0/8"], prefix=True).base(request(*pairs)) == url


@pytest.mark.req("DOOR-05")
def test_caches_are_told_what_the_url_depends_on() -> None:
    family = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto")
    assert PROXIES.vary == family
    assert Proxies(["10.0.0.0/8"], prefix=True).vary == (*family, "X-Forwarded-Prefix")
    assert Proxies([], prefix=True).vary == ()
    assert Proxies(["10.0.0.0/8"], "https://a.example", prefix=True).vary == ()


@pytest.mark.req("DOOR-05")
def test_only_the_entries_of_trusted_proxies_count() -> None:
    """Two proxies of ours, and a client that has sent entries of its own."""
    pairs = [
        ("X-Forwarded-For", "1.1.1.1, 192.0.2.1, 10.0.0.2"),
        ("X-Forwarded-Proto", "http, https, http"),
        ("X-Forwarded-Host", "evil.example, public.example, inner.example"),
    ]
    assert base(*pairs) == "https://public.example"
    assert client(*pairs) == "192.0.2.1"
    forwarded = (
        "Forwarded",
        "for=1.1.1.1;host=evil.example, for=192.0.2.1;host=public.example;proto=https, for=10.0.0.2",
    )
    assert base(forwarded) == "https://public.example"
    assert client(forwarded) == "192.0.2.1"
    assert base(*pairs, forwarded) == "https://public.example"  # both say the same
    assert client(*pairs, forwarded) == "192.0.2.1"


CLIENTS = [
    ([], "10.0.0.1"),
    ([("X-Forwarded-For", "192.0.2.1")], "192.0.2.1"),
    ([("X-Forwarded-For", "192.0.2.1:4711")], "192.0.2.1"),
    ([("X-Forwarded-For", "[2001:db8::1]:4711")], "2001:db8::1"),
    ([("X-Forwarded-For", "2001:db8::1")], "2001:db8::1"),
    ([("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-For", "10.9.9.9")], "192.0.2.1"),
    ([("X-Forwarded-For", "10.1.1.1, 10.2.2.2")], "10.1.1.1"),
    ([("X-Forwarded-For", "::ffff:10.1.1.1, fd00::2")], "::ffff:10.1.1.1"),
    ([("X-Forwarded-For", "192.0.2.1, unknown")], "unknown"),
    ([("Forwarded", "for=192.0.2.1")], "192.0.2.1"),
    ([("Forwarded", 'for="[2001:db8::1]"')], "2001:db8::1"),
    ([("Forwarded", "proto=https")], "10.0.0.1"),
    ([("Forwarded", "")], "10.0.0.1"),
    ([("Forwarded", "for=192.0.2.1"), ("X-Forwarded-For", "192.0.2.7")], "10.0.0.1"),  # one of them is invented
]


@pytest.mark.req("DOOR-05")
@pytest.mark.parametrize(("pairs", "address"), CLIENTS)
def test_the_client_is_the_nearest_address_that_is_no_proxy_of_ours(pairs: list[tuple[str, str]], address: str) -> None:
    assert client(*pairs) == address
    assert client(*pairs, peer="192.0.2.9") == "192.0.2.9"


@pytest.mark.parametrize("peer", ["::1", "fd00::5", "::ffff:10.0.0.1"])
def test_proxies_may_come_over_ipv6(peer: str) -> None:
    assert client(("X-Forwarded-For", "192.0.2.1"), peer=peer) == "192.0.2.1"


def test_nobody_is_trusted_by_default() -> None:
    asked = request(HTTPS, ("X-Forwarded-For", "192.0.2.1"), peer="127.0.0.1")
    assert Proxies([]).client(asked) == "127.0.0.1"
    assert Proxies([]).base(asked) == ""
