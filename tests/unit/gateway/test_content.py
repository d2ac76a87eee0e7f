"""`response_body`: an answer may be one field of the message."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from google.protobuf.message_factory import GetMessageClass

from a2a_gateway.requests.binding import content_of
from a2a_gateway.routing.table import Table
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.json_v1 import V1
from tests.unit.gateway.scratch.library import kind, library, of_source

SCRATCH = Table.of([library()])


def answered(verb: str, path: str, message: Any) -> object:
    return orjson.loads(content_of(SCRATCH.match(verb, path).route, message, V1))


def test_a_whole_message() -> None:
    route = Table.of([pb.DESCRIPTOR.services_by_name["A2AService"]]).match("GET", "/tasks").route
    answer = pb.ListTasksResponse(page_size=7)
    assert content_of(route, answer, V1) == V1.encode(answer)


def test_one_message_of_it() -> None:
    book = {"name": "n", "title": "T"}
    put = kind("PutBookResponse")
    assert answered("PUT", "/v1/shelves/7/books/x", put(book=book)) == book
    assert answered("PUT", "/v1/shelves/7/books/x", put()) == {"name": ""}


def test_a_list_of_it() -> None:
    assert answered("POST", "/v1/shelves/7/books/x/tags", kind("Book")(name="n", tags=["a", "b"])) == ["a", "b"]
    assert answered("POST", "/v1/shelves/7/books/x/tags", kind("Book")(name="n")) == []


FIELDS = [
    # Each row: a type, a value of the field, its JSON, the JSON of its default.
    ("string", "a", "a", ""),
    ("int32", 7, 7, 0),
    ("uint64", 7, "7", "0"),
    ("bool", True, True, False),
    ("double", 1.5, 1.5, 0),
    ("bytes", b"\xff", "/w==", ""),
    ("Colour", 1, "RED", "NONE"),
    ("map<string, int32>", {"a": 1}, {"a": 1}, {}),
]


@pytest.mark.parametrize(("of", "value", "json", "default"), FIELDS, ids=[row[0] for row in FIELDS])
def test_any_other_field(tmp_path: Path, of: str, value: object, json: object, default: object) -> None:
    service = of_source(
        tmp_path,
        'rpc Do(Thing) returns (Answer) { option (google.api.http) = { get: "/a" response_body: "it" }; }',
        f"enum Colour {{ NONE = 0; RED = 1; }} message Answer {{ {of} it = 1; }}",
    )
    route = Table.of([service]).routes[0]
    answer = GetMessageClass(route.method.output_type)
    assert orjson.loads(content_of(route, answer(it=value), V1)) == json
    assert orjson.loads(content_of(route, answer(), V1)) == default
