"""Path, query and body become one request, and everything wrong with them is told at once."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_gateway.requests.binding import bind, content_of
from a2a_gateway.routing.table import Table
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.json_v1 import V1
from tests.unit.gateway.scratch.library import kind, library, of_source

A2A = Table.of([pb.DESCRIPTOR.services_by_name["A2AService"]])
SCRATCH = Table.of([library()])

Query = list[tuple[str, str]]


def request(verb: str, path: str, query: Query | None = None, body: bytes = b"", *, table: Table = A2A) -> Message:
    return bind(table.match(verb, path), query or [], body, V1)


def scratch(verb: str, path: str, query: Query | None = None, body: bytes = b"") -> dict[str, Any]:
    return MessageToDict(request(verb, path, query, body, table=SCRATCH))


def find_books(*query: tuple[str, str]) -> dict[str, Any]:
    return scratch("GET", "/v1/books", list(query))


def faults(
    verb: str, path: str, query: Query | None = None, body: bytes = b"", *, table: Table = A2A
) -> dict[str, str]:
    with pytest.raises(A2AError) as caught:
        request(verb, path, query, body, table=table)
    assert caught.value.reason is Reason.INVALID_PARAMS
    told = {violation.field: violation.description for violation in caught.value.violations}
    assert len(told) == len(caught.value.violations)
    return told


def scratch_faults(*query: tuple[str, str]) -> dict[str, str]:
    return faults("GET", "/v1/books", list(query), table=SCRATCH)


class TestPath:
    def test_captures_are_set(self) -> None:
        bound = request("GET", "/north/tasks/t%2F1/pushNotificationConfigs/c")
        assert bound == pb.GetTaskPushNotificationConfigRequest(tenant="north", task_id="t/1", id="c")

    def test_nested_fields_are_set(self) -> None:
        assert scratch("GET", "/v1/ann/books:found") == {"filter": {"owner": {"name": "ann"}}}

    def test_numbers_and_times_are_read(self) -> None:
        bound = scratch("GET", "/pages/7/at/2026-02-03T05:05:06+01:00")
        assert bound == {"number": 7, "time": "2026-02-03T04:05:06Z"}

    def test_values_are_judged(self) -> None:
        assert faults("GET", "/pages/seven/at/noon", table=SCRATCH) == {
            "number": 'must be a whole number from -2147483648 to 2147483647, got "seven"',
            "time": 'must be a time such as "2026-02-03T04:05:06.789Z", got "noon"',
        }


@pytest.mark.req("QPAR-01")
class TestQueriesOfA2A:
    def test_get(self) -> None:
        bound = request("GET", "/tasks/t", [("historyLength", "0"), ("tenant", "north")])
        assert bound == pb.GetTaskRequest(tenant="north", id="t", history_length=0)
        assert bound.HasField("history_length")

    def test_list(self) -> None:
        query = [
            ("contextId", "c"),
            ("status", "TASK_STATE_WORKING"),
            ("pageSize", "7"),
            ("pageToken", "p"),
            ("historyLength", "3"),
            ("statusTimestampAfter", "2026-02-03T04:05:06Z"),
            ("includeArtifacts", "true"),
            ("tenant", "north"),
        ]
        expected = pb.ListTasksRequest(
            context_id="c",
            status=pb.TASK_STATE_WORKING,
            page_size=7,
            page_token="p",
            history_length=3,
            include_artifacts=True,
            tenant="north",
        )
        expected.status_timestamp_after.FromJsonString("2026-02-03T04:05:06Z")
        assert request("GET", "/tasks", query) == expected

    def test_config_list(self) -> None:
        bound = request("GET", "/tasks/t/pushNotificationConfigs", [("pageSize", "7"), ("pageToken", "p")])
        assert bound == pb.ListTaskPushNotificationConfigsRequest(task_id="t", page_size=7, page_token="p")

    def test_delete(self) -> None:
        bound = request("DELETE", "/tasks/t/pushNotificationConfigs/c", [("tenant", "north")])
        assert bound == pb.DeleteTaskPushNotificationConfigRequest(task_id="t", id="c", tenant="north")

    def test_snake_case_is_read(self) -> None:  # CONF-71
        bound = request("GET", "/tasks", [("page_size", "7"), ("context_id", "c")])
        assert bound == pb.ListTasksRequest(page_size=7, context_id="c")

    @pytest.mark.req("GEN-06")
    def test_unknown_names_are_ignored(self) -> None:
        query = [
            ("A2A-Version", "1.0"),
            ("lastEventId", "7"),
            ("utm_source", "x"),
            ("", ""),
            ("pageSize.x", "1"),
            (".", ""),
        ]
        assert request("GET", "/tasks", query) == pb.ListTasksRequest()


TEXTS = [
    # Each row: what the query says, what is bound.
    ([("exact", "true"), ("signed", "false")], {"exact": True, "signed": False}),
    ([("pageSize", "-7")], {"pageSize": -7}),
    ([("pageSize", "007")], {"pageSize": 7}),
    ([("offset", "18446744073709551615")], {"offset": "18446744073709551615"}),
    ([("price", "2.5")], {"price": 2.5}),
    ([("price", "-1e3")], {"price": -1000.0}),
    ([("genre", "GENRE_POEM")], {"genre": "GENRE_POEM"}),
    ([("genre", "2")], {"genre": "GENRE_POEM"}),  # as json_format reads it in a body
    ([("parent", "")], {}),
    ([("parent", "a,b")], {"parent": "a,b"}),  # one value: a comma is data
    ([("digest", "-_8=")], {"digest": "+/8="}),  # both alphabets of base64
    ([("limit", "5")], {"limit": "5"}),  # wrappers are read as what they wrap
    ([("patience", "1.5s")], {"patience": "1.500s"}),
    ([("mask", "pageSize,filter.owner")], {"mask": "pageSize,filter.owner"}),
    (
        [("extra", '{"a":[1,null]}')],
        {"extra": {"a": [1.0, None]}},
    ),  # as grpc-gateway does: JSON where nothing else fits
    ([("hint", '"x"')], {"hint": "x"}),
    ([("hint", "null")], {"hint": None}),
    ([("@other", "x")], {"@other": "x"}),
    ([("renamed", "x")], {"@other": "x"}),
    # Lists: repeated, with commas, or both.
    ([("words", "a"), ("words", "b,c")], {"words": ["a", "b", "c"]}),
    ([("numbers", "1,2")], {"numbers": ["1", "2"]}),
    (
        [("filter.genres", "GENRE_POEM,1"), ("filter.genres", "GENRE_POEM")],
        {"filter": {"genres": ["GENRE_POEM", "GENRE_NOVEL", "GENRE_POEM"]}},
    ),
    ([("words", "")], {"words": [""]}),
    # Nested fields, in any spelling.
    ([("filter.owner.name", "ann"), ("filter.owner.age", "7")], {"filter": {"owner": {"name": "ann", "age": 7}}}),
    ([("inner.inner.page_size", "1"), ("inner.pageSize", "2")], {"inner": {"pageSize": 2, "inner": {"pageSize": 1}}}),
    # Maps as grpc-gateway does it; a key may hold anything.
    (
        [("labels[a]", "1"), ("labels[b.c]", "2"), ("labels[]", "3"), ("labels[d[e]]", "4")],
        {"labels": {"a": "1", "b.c": "2", "": "3", "d[e]": "4"}},
    ),
    # An unencoded plus arrives as a space.
    ([("filter.since", "2026-02-03T04:05:06 02:00")], {"filter": {"since": "2026-02-03T02:05:06Z"}}),
    ([("filter.since", "2026-02-03T04:05:06.5-02:00")], {"filter": {"since": "2026-02-03T06:05:06.500Z"}}),
]


@pytest.mark.req("QPAR-02")
@pytest.mark.parametrize(("query", "bound"), TEXTS, ids=[str(row[0]) for row in TEXTS])
def test_texts_of_a_query(query: Query, bound: dict[str, Any]) -> None:
    assert find_books(*query) == bound


INT32 = "must be a whole number from -2147483648 to 2147483647"
TIME = 'must be a time such as "2026-02-03T04:05:06.789Z"'
MISFITS = [
    # Each row: a parameter, and what is said of it.
    ("exact", "1", 'must be true or false, got "1"'),
    ("exact", "True", 'must be true or false, got "True"'),
    ("exact", "", 'must be true or false, got ""'),
    ("signed", "yes", 'must be true or false, got "yes"'),
    ("pageSize", "", f'{INT32}, got ""'),
    ("pageSize", "seven", f'{INT32}, got "seven"'),
    ("pageSize", "1.0", f'{INT32}, got "1.0"'),
    ("pageSize", "1e3", f'{INT32}, got "1e3"'),
    ("pageSize", "0x10", f'{INT32}, got "0x10"'),
    ("pageSize", " 7", f'{INT32}, got " 7"'),
    ("pageSize", "1_000", f'{INT32}, got "1_000"'),
    ("pageSize", "٣", f'{INT32}, got "٣"'),
    ("pageSize", "2147483648", f"{INT32}, got 2147483648"),
    ("pageSize", "9" * 5000, f'{INT32}, got "{"9" * 40}"…'),
    ("offset", "-1", "must be a whole number from 0 to 18446744073709551615, got -1"),
    ("price", "1,5", 'must be a number, got "1,5"'),
    ("price", "inf", 'must be a number, got "inf"'),
    ("price", "1e999", 'must be a number, got "1e999"'),
    ("genre", "POEM", 'must be one of GENRE_NOVEL, GENRE_POEM, got "POEM"'),
    ("digest", "!", "must be base64, got a string"),
    ("limit", "x", "must be a whole number from -9223372036854775808 to 9223372036854775807"),
    ("patience", "5", 'must be a duration such as "1.5s", got "5"'),
    ("filter.since", "yesterday", f'{TIME}, got "yesterday"'),
    ("filter.since", "2026-02-03", f'{TIME}, got "2026-02-03"'),
    ("filter.since", "2026-02-03 04:05:06Z", f'{TIME}, got "2026-02-03 04:05:06Z"'),
    ("extra", "{", 'must be an object, got "{"'),
    ("extra", "[]", "must be an object, got a list"),
    ("hint", "x", 'must be a JSON value, got "x"'),
    ("filter", "{}", "is an object; name its members, as in filter.member=value"),
    ("labels", "{}", "is a map; write labels[key]=value"),
    ("owners[7]", "x", "is a map of objects, which has no form in a URL"),
    ("words[]", "a", "is not a map, so it takes no [key]; give a list by repeating the plain name"),
    ("filter.owners", "x", "is a list of objects, which has no form in a URL"),
    ("filter.owners.name", "x", 'is inside of the list "owners", which has no form in a URL'),
    ("inner." * 40 + "pageSize", "1", "must not go deeper than 32 names"),
]


@pytest.mark.req("QPAR-02")
@pytest.mark.parametrize(("name", "text", "description"), MISFITS, ids=[f"{row[0]}={row[1]}"[:40] for row in MISFITS])
def test_texts_that_do_not_fit(name: str, text: str, description: str) -> None:
    ((field, told),) = scratch_faults((name, text)).items()
    assert field == name[:100]
    assert told.startswith(description)


def test_a_single_value_given_twice_is_refused() -> None:
    told = scratch_faults(("pageSize", "1"), ("page_size", "1"), ("labels[a]", "1"), ("labels[a]", "2"))
    assert told == {
        "pageSize": "is given 2 times and takes one value",
        'labels["a"]': "is given 2 times and takes one value",
    }


def test_members_of_a_list_are_numbered() -> None:
    assert list(scratch_faults(("numbers", "1,x"), ("numbers", "3"), ("numbers", "y"))) == ["numbers[1]", "numbers[3]"]


def test_two_of_a_oneof_are_refused() -> None:
    assert len(scratch_faults(("filter.pages", "1"), ("filter.thick", "true"))) == 1


@pytest.mark.req("ERRS-05")
def test_all_faults_are_told_at_once() -> None:
    query = [("metadata", "nonsense"), ("id", "other"), ("unknown", "x")]
    told = faults("POST", "/north/tasks/t:cancel", query, b'{"tenant": 7}')
    assert told == {
        "metadata": 'must be an object, got "nonsense"',
        "id": 'is "t" in the path and "other" in the query; leave it out there',
        "tenant": "must be a string, got 7",
    }


def test_no_more_faults_are_told_than_anybody_reads() -> None:
    query = [(f"labels[{number}]", "x") for number in range(300)] * 2
    with pytest.raises(A2AError) as caught:
        request("GET", "/v1/books", query, table=SCRATCH)
    assert len(caught.value.violations) == 100


class TestBody:
    @pytest.mark.req("REST-04")
    def test_it_is_the_whole_message(self) -> None:
        message = pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text="hi")])
        bound = request("POST", "/message:send", body=V1.encode(pb.SendMessageRequest(message=message)))
        assert bound == pb.SendMessageRequest(message=message)

    @pytest.mark.req("REST-04")
    @pytest.mark.parametrize(
        "body", [b'{"url":"u"}', b'{"url":"u","taskId":"t"}', b'{"url":"u","task_id":"t","tenant":""}']
    )
    def test_what_the_path_says_may_be_left_out_or_repeated(self, body: bytes) -> None:
        bound = request("POST", "/north/tasks/t/pushNotificationConfigs", body=body)
        assert bound == pb.TaskPushNotificationConfig(tenant="north", task_id="t", url="u")

    @pytest.mark.req("REST-05")
    @pytest.mark.parametrize("body", [b"", b"{}", b'{"metadata":{"a":1}}'])
    def test_cancel_may_say_nothing(self, body: bytes) -> None:
        bound = request("POST", "/tasks/t:cancel", body=body)
        expected = pb.CancelTaskRequest(id="t")
        if len(body) > 2:
            expected.metadata["a"] = 1
        assert bound == expected

    @pytest.mark.req("REST-03")
    @pytest.mark.parametrize("body", [b"", b"{}", b'{"id":"t"}', b'{"tenant":"north"}'])
    def test_subscribe_by_post_needs_none(self, body: bytes) -> None:
        bound = request("POST", "/tasks/t:subscribe", body=body)
        assert bound == pb.SubscribeToTaskRequest(id="t", tenant="north" if b"north" in body else "")

    @pytest.mark.parametrize("body", [b"null", b"[]", b'"x"', b"7"])
    def test_it_must_be_an_object(self, body: bytes) -> None:
        assert "must be an object" in faults("POST", "/message:send", body=body)["body"]
        assert "must be an object" in faults("POST", "/tasks/t:cancel", body=body)["body"]

    def test_it_must_be_json(self) -> None:
        told = faults("POST", "/tasks/t:cancel", [("id", "u")], b"{")
        assert told["body"].startswith("This is not valid JSON")
        assert set(told) == {"body", "id"}

    def test_without_a_place_for_it_it_is_ignored(self) -> None:
        """RFC 9110, 9.3.1: content of a GET cannot alter its meaning; grpc-gateway does not read it either."""
        for body in (b"{}", b'{"historyLength":7}', b"not even JSON"):
            assert request("GET", "/tasks/t", body=body) == pb.GetTaskRequest(id="t")
        bound = request("DELETE", "/tasks/t/pushNotificationConfigs/c", body=b"{}")
        assert bound == pb.DeleteTaskPushNotificationConfigRequest(task_id="t", id="c")

    def test_it_may_be_one_field(self) -> None:
        query = [("create", "true"), ("mask", "title")]
        bound = scratch("PUT", "/v1/shelves/7/books/x", query, b'{"title":"T","sold":"9"}')
        book = {"name": "shelves/7/books/x", "title": "T", "sold": "9"}
        assert bound == {"book": book, "create": True, "mask": "title"}

    @pytest.mark.parametrize("body", [b"", b"{}", b"null"])
    def test_one_field_may_be_left_out(self, body: bytes) -> None:
        assert scratch("PATCH", "/v1/shelves/7/books/x", body=body) == {"book": {"name": "shelves/7/books/x"}}

    def test_it_may_be_a_list(self) -> None:
        bound = scratch("POST", "/v1/shelves/7/books/x/tags", body=b'["a","b"]')
        assert bound == {"name": "shelves/7/books/x", "tags": ["a", "b"]}

    def test_faults_inside_of_one_field_name_it(self) -> None:
        told = faults("PUT", "/v1/shelves/7/books/x", [], b'{"sold":-1,"tags":[1]}', table=SCRATCH)
        assert set(told) == {"book.sold", "book.tags[0]"}


class TestAgreement:
    @pytest.mark.req("TENA-03")
    def test_tenants_of_path_and_body_must_agree(self) -> None:
        body = b'{"tenant":"south"}'
        assert faults("POST", "/north/tasks/t:cancel", body=body) == {
            "tenant": 'is "north" in the URL and "south" in the body; they must be the same'
        }
        assert request("POST", "/south/tasks/t:cancel", body=body).tenant == "south"  # type: ignore[attr-defined]

    @pytest.mark.req("TENA-03")
    def test_tenants_of_path_and_query_must_agree(self) -> None:
        assert faults("GET", "/north/tasks", [("tenant", "south")]) == {
            "tenant": 'is "north" in the path and "south" in the query; leave it out there'
        }
        for text in ("north", ""):
            assert request("GET", "/north/tasks", [("tenant", text)]) == pb.ListTasksRequest(tenant="north")

    @pytest.mark.req("TENA-02")
    def test_the_query_may_say_the_tenant_beside_a_body(self) -> None:
        bound = request("POST", "/tasks/t:cancel", [("tenant", "north")], b"{}")
        assert bound == pb.CancelTaskRequest(id="t", tenant="north")
        assert "tenant" in faults("POST", "/tasks/t:cancel", [("tenant", "north")], b'{"tenant":"south"}')

    def test_the_query_never_rebinds_what_the_path_says(self) -> None:
        assert "id" in faults("GET", "/tasks/mine", [("id", "yours")])
        assert "taskId" in faults("GET", "/tasks/mine/pushNotificationConfigs", [("task_id", "yours")])
        assert "name" in faults("GET", "/v1/shelves/7/books/x", [("name", "shelves/7/books/y")], table=SCRATCH)

    def test_nested_fields_are_joined(self) -> None:
        body = b'{"title":"T","readers":{"a":{"name":"A"}},"tags":["x"]}'
        query = [("book.genre", "GENRE_POEM"), ("book.tags", "x"), ("book.title", "T"), ("book.weight", "1.5")]
        bound = scratch("PUT", "/v1/shelves/7/books/x", query, body)["book"]
        assert bound == {
            "name": "shelves/7/books/x",
            "title": "T",
            "genre": "GENRE_POEM",
            "tags": ["x"],
            "readers": {"a": {"name": "A"}},
            "weight": 1.5,
        }

    def test_contradictions_are_named_however_deep(self) -> None:
        body = b'{"name":"shelves/1/books/y","genre":1,"tags":["x"],"colour":"red","weight":2,"price":1}'
        query = [
            ("book.genre", "2"),
            ("book.tags", "y"),
            ("book.picture", "AAAA"),
            ("book.weight", "1.5"),
            ("book.price", "2"),
        ]
        assert faults("PUT", "/v1/shelves/7/books/x", query, body, table=SCRATCH) == {
            "book.name": 'is "shelves/7/books/x" in the URL and "shelves/1/books/y" in the body; they must be the same',
            "book.genre": "is 2 in the URL and 1 in the body; they must be the same",
            "book.tags": "is another value in the URL and another value in the body; they must be the same",
            "book.picture": 'cannot be in the URL while the body has "colour": only one may be given',
            "book.weight": "is another value in the URL and another value in the body; they must be the same",
            "book.price": "is 2.0 in the URL and 1.0 in the body; they must be the same",
        }

    def test_maps_are_joined_by_key(self) -> None:
        path, body = "/v1/shelves/7/books/x:lend", b'{"labels":{"a":"1","b":"2"}}'
        bound = scratch("POST", path, [("labels[b]", "2"), ("labels[c]", "3")], body)
        assert bound["labels"] == {"a": "1", "b": "2", "c": "3"}
        assert faults("POST", path, [("labels[b]", "3")], body, table=SCRATCH) == {
            'labels["b"]': 'is "3" in the URL and "2" in the body; they must be the same'
        }

    def test_a_default_counts_where_its_presence_is_tracked(self) -> None:
        path = "/v1/shelves/7/books/x:lend"
        assert scratch("POST", path, [("days", "7")], b'{"days":0}')["days"] == 7
        assert set(faults("POST", path, [("rate", "7")], b'{"rate":0}', table=SCRATCH)) == {"rate"}
        assert scratch("POST", path, [("rate", "0")], b"{}")["rate"] == 0


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
