"""Requests: a message spread over path, query and body comes back whole, and nothing but faults comes of nonsense."""

from collections.abc import Iterator
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from a2a_gateway.requests.binding import bind
from a2a_gateway.routing.table import Match, Table, UnknownPath, WrongVerb
from a2a_gateway.routing.url_fields import is_map, is_well_known, members
from a2a_proto import a2a_pb2
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.json_v1 import V1
from tests.property.messages import JSON
from tests.unit.gateway.scratch.library import kind, library, scratch

TABLE = Table.of([library(), a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]])
PATH = "/v1/shelves/7/books/x:lend"
Query = list[tuple[str, str]]

TEXT = st.text(max_size=4) | st.sampled_from(["a,b", "true", "7", " ", "null", "{}"])
WORD = TEXT.filter(lambda text: "," not in text)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
UINT64 = st.integers(0, 2**64 - 1)
REAL = st.floats(allow_nan=False) | st.sampled_from(["NaN", "Infinity", "-Infinity"])
FINITE = st.floats(allow_nan=False, allow_infinity=False)
GENRE = st.sampled_from(["GENRE_NOVEL", "GENRE_POEM", 0, 1, 7])
TIME = (
    st.datetimes().map(lambda time: f"{time.isoformat(timespec='milliseconds')}+01:00").filter(lambda it: it > "0002")
)
SEGMENT = st.text(min_size=1, max_size=4).filter(lambda text: "/" not in text)


def listed(of: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(of, min_size=1, max_size=3)


def mapped(of: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(TEXT, of, min_size=1, max_size=3)


def some(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with some of the members."""
    return st.fixed_dictionaries({}, optional=members)


OWNER = some(name=TEXT, age=INT32)
FILTER = some(owner=OWNER, genres=listed(GENRE), since=TIME, pages=INT32) | some(owner=OWNER, thick=st.booleans())
FIND = some(
    filter=FILTER,
    pageSize=INT32,
    words=listed(WORD),
    numbers=listed(INT64),
    labels=mapped(TEXT),
    digest=st.sampled_from(["", "AAAA", "+/8=", "-_8"]),
    price=REAL.filter(lambda it: not isinstance(it, float) or abs(it) != float("inf")),
    limit=INT64,
    signed=st.booleans(),
    patience=st.sampled_from(["0s", "1.5s", "-7s"]),
    mask=st.sampled_from(["", "a", "pageSize,filter.owner"]),
    extra=st.dictionaries(TEXT, JSON, max_size=2),
    hint=JSON,
    exact=st.booleans(),
    offset=UINT64,
    genre=GENRE,
    inner=some(parent=TEXT, exact=st.booleans()),
    **{"@other": TEXT},
)
LEND = some(to=OWNER, days=INT32, labels=mapped(TEXT), rate=INT32)


def spoken(of: Descriptor, value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """What a query says instead of a JSON object."""
    for name, member in value.items():
        field = members(of)[name]
        path = prefix + name
        if is_map(field):
            yield from ((f"{path}[{key}]", item) for key, item in member.items())
        elif field.is_repeated:
            yield from ((path, text(field, item)) for item in member)
        elif field.message_type is not None and not is_well_known(field.message_type):
            yield from spoken(field.message_type, member, f"{path}.")
        else:
            yield path, text(field, member)


def text(field: FieldDescriptor, value: object) -> str:
    of_json = field.message_type is not None and field.message_type.name in {"Struct", "Value"}
    return value if isinstance(value, str) and not of_json else orjson.dumps(value).decode()


def said(value: object) -> object:
    """The same value without objects that say nothing: a query has no words for them."""
    if not isinstance(value, dict):
        return value
    members = {name: said(member) if name not in {"extra", "hint"} else member for name, member in value.items()}
    return {name: member for name, member in members.items() if member != {} or name in {"extra", "hint"}}


def decoded(name: str, value: object) -> Message:
    return V1.decode(value, kind(name))


def encoded(segment: str) -> str:
    return "".join(f"%{byte:02X}" for byte in segment.encode())


@given(FIND, SEGMENT, st.randoms())
def test_all_that_a_query_can_say_comes_back(value: dict[str, Any], shelf: str, random: Any) -> None:
    query = list(spoken(scratch().message_types_by_name["FindBooksRequest"], value))
    names = [name for name, _ in query]
    if len(set(names)) == len(names):  # only the values of one list have an order
        random.shuffle(query)
    match = TABLE.match("GET", f"/v1/shelves/{encoded(shelf)}/books")
    expected = decoded("FindBooksRequest", {**said(value), "parent": f"shelves/{shelf}"})  # type: ignore[dict-item]
    assert bind(match, query, b"", V1) == expected


@given(LEND, SEGMENT, SEGMENT, st.data())
def test_a_message_spread_over_path_query_and_body_comes_back(
    value: dict[str, Any], shelf: str, book: str, data: st.DataObject
) -> None:
    name = f"shelves/{shelf}/books/{book}"
    in_query, in_body = {}, {}
    for member, content in value.items():
        where = data.draw(st.sampled_from(["query", "body", "both"]))
        if where != "body":
            in_query[member] = content
        if where != "query":
            in_body[member] = content
    if data.draw(st.booleans()):
        in_body["name"] = name
    match = TABLE.match("POST", f"/v1/shelves/{encoded(shelf)}/books/{encoded(book)}:lend")
    query = list(spoken(scratch().message_types_by_name["LendBookRequest"], in_query))
    bound = bind(match, query, orjson.dumps(in_body) if in_body else b"", V1)
    expected = decoded("LendBookRequest", {**value, "name": name})
    if in_query.get("to") == {} and "to" not in in_body:
        expected.ClearField("to")
    assert bound == expected


@given(LEND, LEND)
def test_url_and_body_never_override_each_other(url: dict[str, Any], body: dict[str, Any]) -> None:
    query = list(spoken(scratch().message_types_by_name["LendBookRequest"], url))
    from_url, from_body = (decoded("LendBookRequest", value) for value in (said(url), body))
    error = refusal("POST", PATH, query, orjson.dumps(body))
    if error is not None:
        named = {violation.field.partition(".")[0].partition("[")[0] for violation in error.violations}
        assert named <= url.keys() & body.keys()
        return
    bound = bind(TABLE.match("POST", PATH), query, orjson.dumps(body), V1)
    # Each half is part of the whole: to say it again changes nothing.
    for half in (from_url, from_body):
        again = type(bound)()
        again.CopyFrom(bound)
        again.MergeFrom(half)
        assert again == bound


NAMES = st.sampled_from(
    [
        "filter",
        "owner",
        "name",
        "pageSize",
        "page_size",
        "words",
        "labels",
        "inner",
        "numbers",
        "since",
        "extra",
        "owners",
    ]
)
JUNK = st.lists(NAMES | st.text(max_size=3), max_size=4).map(".".join)
KEYS = st.builds(lambda name, key: name + key, JUNK, st.sampled_from(["", "", "[a]", "[", "]", "[]", "[[x]"]))


@given(
    st.lists(st.tuples(KEYS, TEXT | st.text(max_size=3)), max_size=6), st.binary(max_size=6) | JSON.map(orjson.dumps)
)
def test_nonsense_gives_faults_and_nothing_else(query: Query, body: bytes) -> None:
    for verb, path in [("GET", "/v1/books"), ("POST", PATH), ("PUT", "/v1/shelves/7/books/x")]:
        error = refusal(verb, path, query, body)
        if error is not None:
            assert error.reason is Reason.INVALID_PARAMS
            assert 0 < len(error.violations) <= 100
            assert all(violation.description for violation in error.violations)


def refusal(verb: str, path: str, query: Query, body: bytes) -> A2AError | None:
    try:
        bind(TABLE.match(verb, path), query, body, V1)
    except A2AError as error:
        return error
    return None


@given(
    st.sampled_from(["GET", "POST", "DELETE"]), st.text("/:%tasknor12F", max_size=12).map(lambda path: f"/tasks/{path}")
)
def test_any_path_is_bound_or_refused(verb: str, path: str) -> None:
    try:
        match = TABLE.match(verb, path)
    except (A2AError, UnknownPath, WrongVerb):
        return
    assert isinstance(match, Match)
    assert isinstance(bind(match, [], b"", V1), Message)
