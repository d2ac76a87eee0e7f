"""HTTP headers as gRPC metadata, and back (spec: DOOR-10, SPAR)."""

import base64

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from a2a_gateway.requests.headers import HeaderMap, RequestMetadata, outgoing, timeout_of
from a2a_gateway.upstream import MetadataPairs
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.options import FORWARDED, RESERVED, WELL_KNOWN

DEFAULT = HeaderMap(FORWARDED, WELL_KNOWN)


def read(*pairs: tuple[str, str], known: HeaderMap = DEFAULT) -> RequestMetadata:
    return known.incoming(CIMultiDictProxy(CIMultiDict(pairs)))


def fault(*pairs: tuple[str, str]) -> tuple[str, str]:
    with pytest.raises(A2AError) as caught:
        read(*pairs)
    (violation,) = caught.value.violations
    return violation.field, violation.description


@pytest.mark.req("DOOR-10", "SPAR-02")
def test_what_is_listed_travels_on_under_the_name_it_should_have() -> None:
    found = read(
        ("A2A-Version", "1.0"),
        ("Authorization", "Bearer T"),
        ("X-API-Key", "K"),
        ("traceparent", "00-a-b-01"),
        ("Idempotency-Key", "k"),
        ("Last-Event-ID", "7"),
        ("Grpc-Metadata-X-Team", "Red"),
        ("User-Agent", "curl"),
        ("Accept", "*/*"),
        ("Host", "x"),
        ("Cookie", "session=1"),
        ("X-Forwarded-For", "192.0.2.1"),
        ("Content-Type", "application/json"),
        ("X-Team", "blue"),
    )
    assert found.metadata == {
        "a2a-version": ("1.0",),
        "authorization": ("Bearer T",),
        "x-api-key": ("K",),
        "traceparent": ("00-a-b-01",),
        "idempotency-key": ("k",),
        "last-event-id": ("7",),
        "x-team": ("Red",),
        "grpcgateway-user-agent": ("curl",),
        "grpcgateway-accept": ("*/*",),
        "grpcgateway-host": ("x",),
    }
    assert (found.binary, found.timeout) == ({}, None)


@pytest.mark.req("SPAR-01", "SPAR-03")
def test_names_have_no_case_values_have_and_lines_are_kept_apart_in_order() -> None:
    found = read(("a2a-EXTENSIONS", "urn:A"), ("A2A-extensions", "urn:b"), ("GRPC-METADATA-a2a-extensions", "urn:C"))
    assert found.metadata == {"a2a-extensions": ("urn:A", "urn:b", "urn:C")}


@pytest.mark.req("DOOR-10")
def test_metadata_named_bin_is_binary() -> None:
    raw = b"\x00\xff\x01"
    padded, bare = base64.b64encode(raw).decode(), base64.b64encode(b"ab").decode().rstrip("=")
    found = read(("Grpc-Metadata-Trace-Bin", f"{padded},{bare}"), ("grpc-metadata-trace-bin", ""))
    assert found.binary == {"trace-bin": (raw, b"ab", b"")}
    assert found.metadata == {}
    assert fault(("Grpc-Metadata-X-Bin", "not base64!"))[0] == "Grpc-Metadata-X-Bin"


@pytest.mark.req("DOOR-10")
@pytest.mark.parametrize("name", ["Grpc-Metadata-grpc-timeout", "grpc-metadata-GRPC-status", "Grpc-Metadata-TE"])
def test_names_that_grpc_keeps_for_itself_are_refused(name: str) -> None:
    assert fault((name, "x")) == (name, "names metadata that gRPC keeps for itself")


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_reserved_name_is_never_metadata_whatever_is_listed(name: str) -> None:
    assert read((name, "x"), known=HeaderMap(["*"], [])).metadata == {}


@pytest.mark.parametrize("name", ["Grpc-Metadata-", "Grpc-Metadata-a!b", "Grpc-Metadata-" + "a" * 300])
def test_a_name_that_cannot_be_one_is_dropped(name: str) -> None:
    assert read((name, "x")).metadata == {}


@pytest.mark.parametrize("value", ["t\u00e9", "a\tb", "\udcff"])
def test_values_are_printable(value: str) -> None:
    assert fault(("Authorization", value)) == ("Authorization", "must be printable ASCII")
    assert read(("Referer", value)).metadata == {}  # nobody's call fails for it


def test_a_malformed_trace_is_nobody_s_error() -> None:
    """It travels on as it is, or as nothing where it cannot: whoever reads traces ignores both."""
    parent = ("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    found = read(parent, ("tracestate", "a=1"), ("TraceState", "b=\u00e9"), ("Grpc-Metadata-Tracestate", "c=3"))
    assert found.metadata == {"traceparent": (parent[1],), "tracestate": ("a=1,,c=3",)}
    assert read(("traceparent", "\udcff")).metadata == {"traceparent": ("",)}
    assert read(("traceparent", "\udcff"), parent).metadata == {"traceparent": (f",{parent[1]}",)}
    assert read(parent, parent).metadata == {"traceparent": (f"{parent[1]},{parent[1]}",)}
    assert read(("traceparent", "nonsense")).metadata == {"traceparent": ("nonsense",)}


@pytest.mark.req("DOOR-10")
def test_operators_choose() -> None:
    chosen = HeaderMap(["X-Team", "x-trace-*"], ["Via"])
    found = read(
        ("x-team", "red"), ("X-Trace-Id", "1"), ("via", "a"), ("Authorization", "b"), ("host", "c"), known=chosen
    )
    assert found.metadata == {"x-team": ("red",), "x-trace-id": ("1",), "grpcgateway-via": ("a",)}


def test_names_that_clients_invent_are_not_kept_for_ever() -> None:
    known = HeaderMap(FORWARDED, WELL_KNOWN)
    for number in range(5000):
        read((f"x-{number}", "v"), known=known)
    assert len(known._remembered) <= 1024  # noqa: SLF001 - there is no other way to see it
    assert read(("a2a-version", "1.0"), known=known).metadata == {"a2a-version": ("1.0",)}


@pytest.mark.req("DOOR-10")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1H", 3600),
        ("2M", 120),
        ("10S", 10),
        ("250m", 0.25),
        ("250000u", 0.25),
        ("1n", 1e-9),
        ("0S", 0),
        (" 5S ", 5),
        ("99999999H", 30 * 24 * 3600),
    ],
)
def test_a_timeout_has_a_unit(text: str, seconds: float) -> None:
    assert timeout_of(text) == pytest.approx(seconds)
    assert read(("grpc-TIMEOUT", text)).timeout == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "S", "5", "5s", "5h", "-1S", "1.5S", "123456789S", "5SS", "\u0665S"])
def test_a_timeout_that_is_none_is_refused(text: str) -> None:
    assert fault(("Grpc-Timeout", text))[0] == "Grpc-Timeout"


@pytest.mark.req("DOOR-10", "SPAR-02")
def test_the_way_back() -> None:
    metadata: MetadataPairs = [("a2a-extensions", "urn:a, urn:b"), ("x-team", "red"), ("trace-bin", b"\x00\xff")]
    trailers: MetadataPairs = [("x-cost", "3"), ("grpc-status-details-bin", b"x"), ("www-authenticate", "Bearer")]
    assert outgoing(metadata, trailers) == [
        ("Grpc-Metadata-a2a-extensions", "urn:a, urn:b"),
        ("Grpc-Metadata-x-team", "red"),
        ("Grpc-Metadata-trace-bin", "AP8="),
        ("Grpc-Trailer-x-cost", "3"),
        ("Grpc-Trailer-www-authenticate", "Bearer"),
        ("A2A-Extensions", "urn:a, urn:b"),
    ]


def test_whatever_an_upstream_says_stays_one_header() -> None:
    assert outgoing([("x", "a\r\nSet-Cookie: b"), ("y", "\u00e9")]) == [
        ("Grpc-Metadata-x", "a??Set-Cookie: b"),
        ("Grpc-Metadata-y", "?"),
    ]
