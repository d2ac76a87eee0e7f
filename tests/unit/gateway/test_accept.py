"""Which media type a client gets (spec: MEDI, CONF-03, CONF-04, DOOR-11)."""

import pytest
from multidict import CIMultiDict

from a2a_gateway.requests.headers import accepted_types, answer_type, error_type, must_be_json, stream_type
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import A2A_JSON, JSON, NDJSON, SSE

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
