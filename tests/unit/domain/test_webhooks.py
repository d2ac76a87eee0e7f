"""What is refused when a push config is made, and the one way that a URL is read (spec: SSRF-02, SSRF-03, HOOK-03)."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.hosts import Addresses, HostList
from a2a_server.domain.webhooks import MAX_PATH, Policy, choose_scheme, faults_of, is_served, ports_of, target_of
from a2a_server.protocol.errors import Violation

DEFAULT = Policy()
HERE = Policy(addresses=Addresses.of(loopback=True))


def config(url: str = "https://hook.example/", **secrets: str) -> pb.TaskPushNotificationConfig:
    made = pb.TaskPushNotificationConfig(url=url, token=secrets.pop("token", ""))
    if secrets:
        made.authentication.CopyFrom(pb.AuthenticationInfo(**secrets))
    return made


def complaint(url: str, policy: Policy = DEFAULT) -> str:
    faults = faults_of(config(url), policy)
    assert all(fault.field == "url" for fault in faults)
    return faults[0].description if faults else ""


@pytest.mark.parametrize(
    ("url", "called"),
    [
        ("https://hook.example", "https://hook.example/"),
        ("HTTPS://Hook.Example.:443/A?b=C", "https://hook.example/A?b=C"),
        ("https://hook.example:8443/a//b/../c?d=%41&e", "https://hook.example:8443/a//b/../c?d=%41&e"),
        ("https://hook.example:/x", "https://hook.example/x"),
        ("https://hook.example?x", "https://hook.example/?x"),
        ("https://bücher.example/straße?q=ü", "https://xn--bcher-kva.example/stra%C3%9Fe?q=%C3%BC"),
        ("https://93.184.216.34/", "https://93.184.216.34/"),
        ("https://[2A00:1450:4001:0::1]:4443/", "https://[2a00:1450:4001::1]:4443/"),
    ],
)
def test_a_url_is_called_as_it_was_checked(url: str, called: str) -> None:
    assert complaint(url) == ""
    assert target_of(url).url == called
    assert str(URL(called, encoded=True)) == called  # what the sender's library makes of it


@pytest.mark.req("SSRF-02")
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("hook.example/x", "absolute https URL"),
        ("//hook.example/x", "absolute https URL"),
        ("https:/hook.example", "absolute https URL"),
        ("https:hook.example", "absolute https URL"),
        ("ftp://hook.example/", "absolute https URL"),
        ("file:///etc/passwd", "absolute https URL"),
        ("gopher://hook.example/", "absolute https URL"),
        ("unix:///run/a.sock", "absolute https URL"),
        ("https+unix://a/", "absolute https URL"),
        ("https://", "must name a host"),
        ("https:///x", "must name a host"),
        ("https://:443/", "must name a host"),
        ("https://user@hook.example/", "user or password"),
        ("https://user:secret@hook.example/", "user or password"),
        ("https://hook.example@127.0.0.1/", "user or password"),
        ("https://@hook.example/", "user or password"),
        ("https://hook.example/#", "fragment"),
        ("https://hook.example/a#b", "fragment"),
        ("https://hook.example:0/", "between 1 and 65535"),
        ("https://hook.example:65536/", "between 1 and 65535"),
        ("https://hook.example:99999999999999999999/", "between 1 and 65535"),
        ("https://hook.example:https/", "if need be, a port"),
        ("https://hook.example:+443/", "if need be, a port"),
        ("https://hook.example:4٤3/", "if need be, a port"),
        ("https://a:1:2/", "if need be, a port"),
        ("https://::1/", "if need be, a port"),
        ("https://[::1/", "if need be, a port"),
        ("https://[::1]x/", "if need be, a port"),
        ("https://hook.example\\@127.0.0.1/", "percent-encoded"),
        ("https:\\\\hook.example/", "percent-encoded"),
        ("https://hook.example/a b", "percent-encoded"),
        (" https://hook.example/", "percent-encoded"),
        ("https://hook.example/\t", "percent-encoded"),
        ("https://hook.example/ HTTP/1.1\r\nHost: evil", "percent-encoded"),
        ("https://hook.example/\x00", "percent-encoded"),
        ("https://hook.example/\x85", "percent-encoded"),
        ("https://hook.example/\u2028", "percent-encoded"),
        ("https://hook.example/{id}", "percent-encoded"),
        ("https://hook.example/%zz", "percent-encoded"),
        ("https://hook.example/100%", "percent-encoded"),
        ("https://hook.example/" + "x" * 2048, "at most 2048 characters"),
        ("https://hook.example/" + "😀" * 700, f"at most {MAX_PATH} bytes"),
        ("https://127.1/", "four decimal numbers"),
        ("https://2130706433/", "four decimal numbers"),
        ("https://0x7f000001/", "four decimal numbers"),
        ("https://0177.0.0.1/", "four decimal numbers"),
        ("https://127.0.0.1/", "127.0.0.1 is a loopback one"),
        ("https://[::1]/", "::1 is a loopback one"),
        ("https://[::ffff:10.0.0.1]/", "is a private one"),
        ("https://[64:ff9b::7f00:1]/", "is a loopback one"),
        ("https://[2002:7f00:1::]/", "is a tunnel's one"),
        ("https://169.254.169.254/latest/meta-data", "is a link-local one"),
        ("https://0.0.0.0/", "is an unspecified one"),
        ("https://localhost/", "not this machine"),
        ("https://LOCALHOST./", "not this machine"),
        ("https://a.b.localhost:8443/", "not this machine"),
        ("https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", "not this machine"),
        ("https://hook.example:22/", "(443, 80, 1024-65535), not 22"),
        ("https://hook.example:1023/", "not 1023"),
    ],
)
def test_what_is_refused(url: str, words: str) -> None:
    assert words in complaint(url)


@pytest.mark.req("SSRF-03")
def test_https_is_the_default() -> None:
    assert complaint("http://hook.example/") == "must be an https URL, not http"
    assert complaint("http://hook.example/", Policy(https_only=False)) == ""
    assert target_of("http://hook.example/").url == "http://hook.example/"


def test_the_development_switch_opens_this_machine() -> None:
    for url in ("http://127.0.0.1:9000/", "http://[::1]:9000/", "http://localhost:9000/", "https://a.localhost/"):
        assert complaint(url, HERE) == ""
        assert complaint(url)
    assert complaint("http://hook.example/", HERE)
    assert complaint("https://10.0.0.1/", HERE)


@pytest.mark.req("SSRF-03")
def test_an_allow_list_is_the_whole_list() -> None:
    policy = Policy(allow_hosts=HostList.of(["hook.example", ".good.example", "10.0.0.1"]))
    assert complaint("https://HOOK.example/", policy) == ""
    assert complaint("https://a.good.example/", policy) == ""
    assert complaint("https://good.example/", policy) == (
        "must name a host that the operator allows; 'good.example' is not"
    )
    assert "private" in complaint("https://10.0.0.1/", policy)  # the name of an address opens nothing


@pytest.mark.req("SSRF-03")
def test_a_deny_list_goes_before_the_allow_list() -> None:
    policy = Policy(allow_hosts=HostList.of([".example"]), deny_hosts=HostList.of([".bad.example", "worse.example"]))
    assert complaint("https://hook.example/", policy) == ""
    assert complaint("https://a.bad.example/", policy)
    assert complaint("https://worse.example./", policy)


@pytest.mark.req("SSRF-03")
def test_networks_are_opened_and_closed() -> None:
    policy = Policy(addresses=Addresses.of(allow=[ip_network("10.1.0.0/16")], deny=[ip_network("93.184.0.0/16")]))
    assert complaint("https://10.1.2.3/", policy) == ""
    assert complaint("https://[::ffff:10.1.2.3]/", policy) == ""
    assert complaint("https://10.2.0.1/", policy)
    assert "a denied one" in complaint("https://93.184.216.34/", policy)


def test_ports_are_read_and_named() -> None:
    policy = Policy(ports=ports_of(["443", " 8000-8999"]))
    assert complaint("https://hook.example:8999/", policy) == ""
    assert complaint("https://hook.example:9000/", policy) == "must use an allowed port (443, 8000-8999), not 9000"


@pytest.mark.parametrize("text", ["", "0", "65536", "9-8", "-1", "a", "1-", "1-2-3", "+1", "²"])
def test_what_is_no_port(text: str) -> None:
    with pytest.raises(ValueError, match="must be a port such as 443"):
        ports_of([text])


@pytest.mark.req("HOOK-03", "HOOK-04")
@pytest.mark.parametrize("secret", ["x", "a b", "Aladdin:open sesame", 'a="b", c=d', "~" * 4096, ""])
def test_secrets_that_fit_into_a_header(secret: str) -> None:
    assert faults_of(config(token=secret, scheme="Bearer", credentials=secret), DEFAULT) == []


@pytest.mark.req("SSRF-02", "SECR-03")
@pytest.mark.parametrize(
    "secret", ["a\r\nX: y", "a\nb", "a\rb", "a\x00b", "\x7f", "tab\tbed", " a", "a ", "é", "…", "\u2028", "~" * 4097]
)
def test_secrets_that_would_break_a_header_are_refused_without_a_word_about_them(secret: str) -> None:
    faults = faults_of(config(token=secret, scheme="Bearer", credentials=secret), DEFAULT, "outer.")
    assert [fault.field for fault in faults] == ["outer.token", "outer.authentication.credentials"]
    expected = (
        "must have at most 4096 characters, got 4097"
        if len(secret) > 4096
        else "must fit into a header: visible ASCII characters, with blanks only between them"
    )
    assert {fault.description for fault in faults} == {expected}


@pytest.mark.req("HOOK-03")
@pytest.mark.parametrize("scheme", ["Bearer x", "Bea:rer", "Bearer\r\n", "Bearér", "Bearer,", "x" * 257, '"', " "])
def test_a_scheme_is_a_token(scheme: str) -> None:
    right = "must be the name of an HTTP authentication scheme, such as Bearer"
    assert faults_of(config(scheme=scheme), DEFAULT) == [Violation("authentication.scheme", right)]


def test_every_fault_is_named() -> None:
    made = config("http://hook.example/", token="\n", scheme=":", credentials="\n")
    assert [fault.field for fault in faults_of(made, DEFAULT)] == [
        "url",
        "token",
        "authentication.scheme",
        "authentication.credentials",
    ]


def test_what_is_required_is_the_schemas_business() -> None:
    assert faults_of(pb.TaskPushNotificationConfig(authentication=pb.AuthenticationInfo()), DEFAULT) == []


@pytest.mark.req("SECR-03")
@given(st.text(max_size=40))
def test_a_secret_in_a_url_is_not_repeated(secret: str) -> None:
    for url in (f"https://u:p{secret}qrst@hook.example/", f"https://hook.example/p{secret}qrst#"):
        assert f"p{secret}qrst" not in complaint(url)


@given(st.text(max_size=80), st.sampled_from(["https://", "http://", "https://[", "https://hook.example/", ""]))
def test_any_text_is_read_or_refused(text: str, start: str) -> None:
    """What is read is ASCII in one line, and reads the same again."""
    try:
        target = target_of(start + text)
    except ValueError:
        return
    assert target.url.isascii()
    assert target.url.isprintable()
    assert " " not in target.url
    assert target_of(target.url) == target
    again = URL(target.url, encoded=True)
    assert (again.scheme, again.raw_host, again.port) == (target.scheme, str(target.host), target.port)


@pytest.mark.req("LPSH-02")
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "Basic", "ApiKey", "x-acme.v1", "DigestLike"])
def test_fixed_credentials_suffice_for_a_receivers_own_schemes(scheme: str) -> None:
    assert is_served(scheme)


@pytest.mark.req("LPSH-02")
@pytest.mark.parametrize(
    "scheme", ["Digest", "DIGEST", "negotiate", "DPoP", "SCRAM-SHA-256", "a b", "", "é", "a:", "a\n"]
)
def test_what_is_challenged_or_no_name_cannot_be_served(scheme: str) -> None:
    assert not is_served(scheme)


@pytest.mark.req("LPSH-02")
@pytest.mark.parametrize(
    ("said", "offered", "chosen"),
    [
        ("Bearer", (), "Bearer"),
        ("Digest", ("Digest", "Basic", "Bearer"), "Basic"),
        ("Bearer", ("Basic", "Bearer"), "Basic"),  # the client's order, whatever its door took for the first
    ],
)
def test_the_first_that_can_be_served_is_chosen(said: str, offered: tuple[str, ...], chosen: str) -> None:
    config = pb.TaskPushNotificationConfig(authentication=pb.AuthenticationInfo(scheme=said))
    choose_scheme(config, offered)
    assert config.authentication.scheme == chosen
