"""Headers as gRPC metadata and back, and media types (spec: DOOR-10, DOOR-11, SPAR, MEDI, CONF-03, CONF-04)."""

import base64
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict, CIMultiDictProxy

from a2a_gateway.http.cors import ANYBODY, Cors
from a2a_gateway.http.replies import Reply
from a2a_gateway.requests.headers import HeaderMap, RequestMetadata, outgoing, timeout_of
from a2a_gateway.requests.media_types import accepted_types, answer_type, error_type, must_be_json, stream_type
from a2a_gateway.upstream import MetadataPairs
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import A2A_JSON, JSON, NDJSON, SSE
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


UNARY = [
    (None, A2A_JSON),
    ("", A2A_JSON),
    ("*/*", A2A_JSON),
    ("application/*", A2A_JSON),
    ("application/json", JSON),
    ("application/a2a+json", A2A_JSON),
    ("APPLICATION/JSON", JSON),
    ("application/json; charset=utf-8", JSON),
    ("application/json, application/a2a+json", A2A_JSON),  # ours to choose among equals
    ("application/json, text/plain, */*", A2A_JSON),  # it allows more than JSON (CONF-04)
    ("application/a2a+json;q=0.5, application/json", JSON),
    ("application/a2a+json;q=0, */*", JSON),
    ("application/json;q=0, */*;q=0.1", A2A_JSON),
    ("text/html, application/json;q=0.2, */*;q=0.1", JSON),
    ("text/html, *;q=.2", A2A_JSON),  # as Java's HttpURLConnection writes it
    ("application/json;q=1.0;ext=1", JSON),
    ("application/json;q=banana", JSON),
    ("application/json;q=nan, application/a2a+json;q=0.9", JSON),
    (", ,application/json,", JSON),
]


@pytest.mark.req("MEDI-01", "MEDI-06")
@pytest.mark.parametrize(("header", "kind"), UNARY)
def test_an_answer_has_the_type_that_the_client_likes_best(header: str | None, kind: str) -> None:
    assert answer_type(header) == kind


@pytest.mark.parametrize(
    "header",
    ["text/html", "text/*", "application/xml, text/plain", "*/*;q=0", "application/json;q=0", "text/event-stream"],
)
def test_a_client_that_wants_none_of_them_is_told_what_there_is(header: str) -> None:
    with pytest.raises(A2AError) as caught:
        answer_type(header)
    assert caught.value.reason is Reason.NOT_ACCEPTABLE
    assert "application/a2a+json, application/json" in caught.value.message
    assert error_type(header) == A2A_JSON  # an explanation it gets all the same


@pytest.mark.req("MEDI-04")
@pytest.mark.parametrize(
    ("header", "kind"),
    [
        (None, SSE),
        ("*/*", SSE),
        ("text/event-stream", SSE),
        ("text/*", SSE),
        ("application/json", SSE),
        ("application/json, text/event-stream", SSE),
        ("application/x-ndjson", NDJSON),
        ("application/x-ndjson, */*", SSE),
        ("application/x-ndjson, */*;q=0.1", NDJSON),
        ("text/event-stream;q=0.5, application/x-ndjson", NDJSON),
    ],
)
def test_a_stream_is_server_sent_events_unless_lines_are_liked_better(header: str | None, kind: str) -> None:
    assert stream_type(header) == kind


def test_a_stream_has_no_other_form() -> None:
    with pytest.raises(A2AError, match="There is text/event-stream, application/x-ndjson; Accept"):
        stream_type("text/html")


def test_several_lines_are_one_list() -> None:
    assert accepted_types(CIMultiDict([("Accept", "text/html"), ("accept", "application/json")])) == (
        "text/html, application/json"
    )
    assert accepted_types(CIMultiDict()) is None


def test_a_long_header_is_not_read_to_its_end() -> None:
    assert answer_type("application/json," + "a/b;q=0.1," * 1000 + "*/*") == JSON


@pytest.mark.req("MEDI-02")
@pytest.mark.parametrize(
    "header",
    [
        None,
        "application/json",
        "application/a2a+json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "application/a2a+json ; version=1",
        "application/json;",
    ],
)
def test_a_body_is_json(header: str | None) -> None:
    must_be_json(header)


@pytest.mark.req("MEDI-05")
@pytest.mark.parametrize(
    "header",
    ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "application/json; charset=latin-1"],
)
def test_a_body_of_another_type_is_refused(header: str) -> None:
    with pytest.raises(A2AError) as caught:
        must_be_json(header)
    assert caught.value.reason is Reason.CONTENT_TYPE_NOT_SUPPORTED
    assert caught.value.metadata == {"contentType": header}


OURS = "https://console.example"
NOBODY = Cors([])
SOME = Cors([OURS + "/", "http://LOCALHOST:3000"])
ALL = Cors(["*"])


def ask(origin: str | None = OURS, **fields: str) -> Any:
    pairs = {name.replace("_", "-"): value for name, value in fields.items()}
    return make_mocked_request("GET", "/", headers=CIMultiDict({**pairs, **({"Origin": origin} if origin else {})}))


def own(answer: Reply) -> list[tuple[str, str]]:
    """The headers that are not those of every answer."""
    usual = {"Server", "Cache-Control", "Content-Type"}
    return [(name, value) for name, value in answer.headers.items() if name not in usual]


def marked(cors: Cors, origin: str | None, *fields: tuple[str, str]) -> list[tuple[str, str]]:
    answer = Reply(b"", "", fields)
    cors.mark(ask(origin), answer)
    return own(answer)


EXPOSE = ("Access-Control-Expose-Headers", "*")
VARY = ("Vary", "Origin")


@pytest.mark.req("DOOR-04")
def test_it_is_off_by_default() -> None:
    assert marked(NOBODY, OURS) == []
    assert own(NOBODY.preflight(ask(), ["GET"])) == [("Allow", "GET")]


@pytest.mark.req("DOOR-04")
def test_listed_origins_may_read_and_caches_know_that_it_depends() -> None:
    assert marked(SOME, OURS) == [("Access-Control-Allow-Origin", OURS), EXPOSE, VARY]
    assert marked(SOME, "http://localhost:3000")[0] == ("Access-Control-Allow-Origin", "http://localhost:3000")


@pytest.mark.parametrize(
    "origin", [None, "null", "", "https://console.example.evil", "http://console.example", OURS + ":8443", OURS + "/x"]
)
def test_others_may_not(origin: str | None) -> None:
    assert marked(SOME, origin) == [VARY]
    assert not [name for name in SOME.preflight(ask(origin), ["GET"]).headers if name.startswith("Access-")]


@pytest.mark.parametrize("origin", [None, "null", OURS])
def test_a_star_is_everybody_without_credentials(origin: str | None) -> None:
    fields = marked(ALL, origin)
    assert fields == [("Access-Control-Allow-Origin", "*"), EXPOSE] == list(ANYBODY)
    for cors in (SOME, ALL):
        assert "Access-Control-Allow-Credentials" not in dict(cors.preflight(ask(), ["GET"]).headers)


def test_what_is_public_stays_public() -> None:
    for cors in (NOBODY, SOME, ALL):
        assert marked(cors, "https://elsewhere.example", *ANYBODY) == list(ANYBODY)


@pytest.mark.req("DOOR-04")
def test_a_preflight_says_what_may_be_sent() -> None:
    asking = ask(Access_Control_Request_Method="POST", Access_Control_Request_Headers="authorization,a2a-version")
    answer = SOME.preflight(asking, ["OPTIONS", "POST"])
    assert answer.status == 204
    assert own(answer) == [
        ("Allow", "OPTIONS, POST"),
        ("Access-Control-Allow-Origin", OURS),
        EXPOSE,
        VARY,
        ("Access-Control-Allow-Methods", "OPTIONS, POST"),
        ("Access-Control-Allow-Headers", "authorization,a2a-version"),
        ("Access-Control-Max-Age", "600"),
    ]


def test_every_page_may_ask_for_what_is_public_with_any_header() -> None:
    answer = NOBODY.preflight(ask("null", Access_Control_Request_Headers="a2a-version"), ["GET"], public=True)
    assert dict(answer.headers)["Access-Control-Allow-Origin"] == "*"
    assert dict(answer.headers)["Access-Control-Allow-Headers"] == "a2a-version"
