"""Any annotated service behind the gateway: every form of google.api.http, over REST and JSON-RPC (spec: DOOR-01)."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson
import pytest

from tests.support.http import get, once, post
from tests.support.librarian import BOOK, PAGES, WHERE, Librarian, Where, lending
from tests.unit.gateway.scratch.library import library

BOOKS = {"books": [BOOK, {"name": ""}]}  # what is required is always written
FILE = {"path": "a/b.txt"}
NAME = "/v1/shelves/1/books/2"

QUERY = [
    *[("words", "a"), ("words", "b,c"), ("numbers", "1,-2"), ("exact", "true"), ("page_size", "0"), ("genre", "2")],
    *[("filter.owner.name", "ann"), ("filter.owner.age", "7"), ("filter.genres", "GENRE_POEM,GENRE_NOVEL")],
    *[("filter.since", "2026-02-03T05:05:06+01:00"), ("filter.thick", "false"), ("inner.inner.words", "deep")],
    *[("labels[a.b]", "1"), ("labels[x]", "y"), ("digest", "YQ"), ("price", "NaN"), ("limit", "7"), ("signed", "true")],
    *[("patience", "1.5s"), ("mask", "a.b,c"), ("extra", '{"a":[1]}'), ("hint", "null")],
    *[("offset", str(2**64 - 1)), ("@other", "r"), ("unheard-of", "x")],
]
ASKED = {
    "words": ["a", "b", "c"],
    "numbers": ["1", "-2"],
    "exact": True,
    "pageSize": 0,
    "genre": "GENRE_POEM",
    "filter": {
        "owner": {"name": "ann", "age": 7},
        "genres": ["GENRE_POEM", "GENRE_NOVEL"],
        "since": "2026-02-03T04:05:06Z",
        "thick": False,
    },
    "inner": {"inner": {"words": ["deep"]}},
    "labels": {"a.b": "1", "x": "y"},
    "digest": "YQ==",
    "price": "NaN",
    "limit": "7",
    "signed": True,
    "patience": "1.500s",
    "mask": "a.b,c",
    "extra": {"a": [1.0]},
    "hint": None,
    "offset": str(2**64 - 1),
    "@other": "r",
}


class Row(NamedTuple):
    """A request over REST, what the library is asked, and what it answers."""

    verb: str
    target: str
    body: object
    rpc: str
    asked: dict[str, Any]
    answer: object


ROWS = [
    # Fields in the query: nested, repeated, in maps, of every type.
    Row("GET", f"/v1/books?{urlencode(QUERY)}", None, "FindBooks", ASKED, BOOKS),
    # A capture of several segments, with a query beside it.
    Row("GET", "/v1/shelves/7/books?words=a", None, "FindBooks", {"parent": "shelves/7", "words": ["a"]}, BOOKS),
    # Additional bindings: one without captures, one that captures a field of a field before a suffix.
    Row("GET", "/v1/books", None, "FindBooks", {}, BOOKS),
    Row("GET", "/v1/a%2Fb/books:found", None, "FindBooks", {"filter": {"owner": {"name": "a/b"}}}, BOOKS),
    # In several segments an encoded slash stays as it is.
    Row(
        "GET",
        "/v1/shelves/a%2Fb/books/%C3%BC?full=true",
        None,
        "GetBook",
        {"name": "shelves/a%2Fb/books/ü", "full": True},
        BOOK,
    ),
    # A literal before a wildcard.
    Row("GET", "/v1/shelves/best/books/one", None, "GetBestBook", {}, BOOK),
    # The body is one field, and so is the answer; the path says what stands in the body's field.
    Row(
        "PUT",
        f"{NAME}?create=true&mask=title",
        {"title": "Emma"},
        "PutBook",
        {"book": {"name": "shelves/1/books/2", "title": "Emma"}, "create": True, "mask": "title"},
        BOOK,
    ),
    # The same by another verb, whose answer is the whole message.
    Row("PATCH", NAME, {"sold": 7}, "PutBook", {"book": {"name": "shelves/1/books/2", "sold": "7"}}, {"book": BOOK}),
    # The body, and the answer, may be a list.
    Row("POST", f"{NAME}/tags", ["x", "y"], "TagBook", {"name": "shelves/1/books/2", "tags": ["x", "y"]}, BOOK["tags"]),
    # No body: what is sent all the same is not read.
    Row("DELETE", NAME, None, "BurnBook", {"name": "shelves/1/books/2"}, {}),
    Row("DELETE", NAME, {"name": 7}, "BurnBook", {"name": "shelves/1/books/2"}, {}),
    # The body is the whole message, behind a suffix.
    Row(
        "POST",
        f"{NAME}:lend",
        {"to": {"name": "ann"}, "days": 3, "labels": {"a": "b"}, "rate": 0},
        "LendBook",
        {"name": "shelves/1/books/2", "to": {"name": "ann"}, "days": 3, "labels": {"a": "b"}, "rate": 0},
        BOOK,
    ),
    # A custom verb.
    Row("LINK", NAME, {"to": {}}, "LinkBook", {"name": "shelves/1/books/2", "to": {}}, BOOK),
    # Any verb, and all that is left of the path.
    *[
        Row(verb, "/files/a/b%2Fc//d?note=n", None, "GetFile", {"path": "a/b%2Fc//d", "note": "n"}, FILE)
        for verb in ("GET", "POST", "DELETE", "PROPFIND", "M-SEARCH")
    ],
    Row("GET", "/files", None, "GetFile", {}, FILE),
    Row("POST", "/files/a/b:stamp", {"note": "n"}, "StampFile", {"path": "a/b", "note": "n"}, FILE),
    # Wildcards that nobody captures.
    Row("GET", "/ping/x/now", None, "Ping", {}, {}),
    Row("GET", "/ping/all/x/y", None, "Ping", {}, {}),
]


def request(row: Row, *fields: str) -> bytes:
    if row.body is None:
        return get(row.target, *fields, verb=row.verb)
    return post(row.target, orjson.dumps(row.body), *fields, verb=row.verb)


def asked(librarian: Librarian) -> tuple[str, dict[str, Any]]:
    """The one call that there has been."""
    (call,) = librarian.asked
    return call


@pytest.mark.req("DOOR-01", "REST-04", "REST-07", "QPAR-01", "QPAR-02")
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("row", ROWS, ids=[f"{row.verb} {row.target[:40]}" for row in ROWS])
async def test_a_route_of_any_service_is_bound_called_and_answered(row: Row, where: Where) -> None:
    async with lending(where) as (librarian, door):
        answer = await once(door.port, request(row))
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/a2a+json"), answer.body
        assert asked(librarian) == (row.rpc, row.asked)
        assert answer.json == row.answer


@pytest.mark.parametrize("target", ["/head", "/v1/books", "/files/a"])
async def test_head_is_served_where_it_is_annotated_and_where_get_is(target: str) -> None:
    async with lending("here") as (librarian, door):
        answer = await once(door.port, get(target, verb="HEAD"), head=True)
        assert answer.status == 200
        assert len(librarian.asked) == 1


@pytest.mark.parametrize("where", WHERE)
async def test_a_stream_of_any_service_is_a_stream(where: Where) -> None:
    target = "/pages/3/at/2026-02-03T05:05:06+01:00"
    lines = [orjson.dumps(page) for page in PAGES]
    async with lending(where) as (librarian, door):
        events = await once(door.port, get(target))
        assert events.body == b"".join(b"data: %b\n\n" % line for line in lines)
        ndjson = await once(door.port, get(target, "Accept: application/x-ndjson"))
        assert ndjson.body == b"".join(b'{"result":%b}\n' % line for line in lines)
        assert librarian.asked == [("GetPage", {"number": 3, "time": "2026-02-03T04:05:06Z"})] * 2


RPCS = [
    ("FindBooks", ASKED, BOOKS),
    ("GetBook", {"name": "x", "full": True}, BOOK),
    ("GetBestBook", {}, BOOK),
    ("PutBook", {"book": {"name": "x", "notes": [1.0, None]}, "create": True}, {"book": BOOK}),
    ("TagBook", {"tags": ["x"]}, BOOK),
    ("BurnBook", {"name": "x"}, {}),
    ("LendBook", {"name": "x", "to": {"age": 7}}, BOOK),
    ("LinkBook", {"name": "x"}, BOOK),
    ("GetFile", {"path": "a/b"}, FILE),
    ("StampFile", {"path": "a/b", "note": "n"}, FILE),
    ("Ping", {}, {}),
    ("Head", {}, {}),
    ("Hidden", {}, {}),  # JSON-RPC needs no annotation
]


def rpc(name: str, params: object) -> bytes:
    return post("/", orjson.dumps({"jsonrpc": "2.0", "id": 7, "method": name, "params": params}))


@pytest.mark.req("DOOR-01", "JRPC-02", "JRPC-03")
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(("name", "params", "result"), RPCS, ids=[row[0] for row in RPCS])
async def test_a_method_of_any_service_is_called_by_its_name(
    name: str, params: dict[str, Any], result: object, where: Where
) -> None:
    async with lending(where) as (librarian, door):
        answer = await once(door.port, rpc(name, params))
        assert answer.json == {"jsonrpc": "2.0", "id": 7, "result": result}
        assert asked(librarian) == (name, params)


@pytest.mark.req("JRPC-07")
@pytest.mark.parametrize("where", WHERE)
async def test_a_streaming_method_of_any_service_streams(where: Where) -> None:
    async with lending(where) as (librarian, door):
        answer = await once(door.port, rpc("GetPage", {"number": 3}))
        told = [{"jsonrpc": "2.0", "id": 7, "result": page} for page in PAGES]
        assert answer.body == b"".join(b"data: %b\n\n" % orjson.dumps(one) for one in told)
        assert asked(librarian) == ("GetPage", {"number": 3})


def test_no_rpc_of_the_library_is_forgotten() -> None:
    names = {method.name for method in library().methods}
    assert {row[0] for row in RPCS} | {"GetPage"} == names
    assert {row.rpc for row in ROWS} | {"GetPage", "Head", "Hidden"} == names


# -- what is wrong


@pytest.mark.req("ERRS-05")
@pytest.mark.parametrize(
    ("wrong", "faults"),
    [
        (post(f"{NAME}", b'{"title":1,"price":"x"}', verb="PUT"), {"book.title", "book.price"}),
        (post(f"{NAME}", b'{"name":"other"}', verb="PUT"), {"book.name"}),
        (post(f"{NAME}/tags", b'["a",1]'), {"tags[1]"}),
        (post(f"{NAME}:lend?days=x", b'{"rate":"y"}'), {"days", "rate"}),
        (
            get("/v1/shelves/7/books?parent=shelves/8&numbers=1,x&labels=a&genre=NONE"),
            {"parent", "numbers[1]", "labels", "genre"},
        ),
        (get("/pages/three/at/noon"), {"number", "time"}),
        (rpc("FindBooks", {"words": "a", "inner": {"limit": "x"}}), {"words", "inner.limit"}),
    ],
    ids=["body", "body and path", "list", "query and body", "query", "path", "params"],
)
async def test_everything_wrong_is_told_and_nobody_is_asked(wrong: bytes, faults: set[str]) -> None:
    async with lending("here") as (librarian, door):
        answer = await once(door.port, wrong)
        error = answer.json["error"]
        assert answer.status == (200 if b"jsonrpc" in wrong else 400)
        details = error.get("details") or error["data"]
        assert {fault["field"] for fault in details[0]["fieldViolations"]} == faults
        assert not librarian.asked


ALLOW = [
    ("/v1/shelves/1/books/2", "DELETE, GET, HEAD, LINK, OPTIONS, PATCH, PUT"),
    ("/v1/shelves/best/books/one", "DELETE, GET, HEAD, LINK, OPTIONS, PATCH, PUT"),
    ("/v1/shelves/1/books/2:lend", "OPTIONS, POST"),
    ("/v1/books", "GET, HEAD, OPTIONS"),
    ("/files/a:stamp", "OPTIONS, POST"),
    ("/head", "HEAD, OPTIONS"),
]


@pytest.mark.parametrize(("path", "allow"), ALLOW)
async def test_what_a_path_takes_is_told(path: str, allow: str) -> None:
    async with lending("here") as (librarian, door):
        told = await once(door.port, get(path, verb="OPTIONS"))
        assert (told.status, told.headers["Allow"]) == (204, allow)
        refused = await once(door.port, get(path, verb="TRACE"))
        assert (refused.status, refused.reason, refused.headers["Allow"]) == (405, "METHOD_NOT_ALLOWED", allow)
        assert not librarian.asked


VERBS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT", "QUERY", "TRACE", "PROPFIND", "M-SEARCH")


async def test_a_path_that_takes_any_verb_tells_the_usual_ones() -> None:
    async with lending("here") as (librarian, door):
        told = await once(door.port, get("/files/a", verb="OPTIONS"))
        assert (told.status, told.headers["Allow"]) == (204, "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT")
        for verb in VERBS:
            assert (await once(door.port, get("/files/a", verb=verb), head=verb == "HEAD")).status == 200
        assert len(librarian.asked) == len(VERBS)


@pytest.mark.req("DOOR-03")
async def test_every_route_that_openapi_tells_of_is_served() -> None:
    async with lending("here") as (_, door):
        paths = (await once(door.port, get("/openapi.json"))).json["paths"]
        for path, item in paths.items():
            others = item.pop("x-additional-operations", {})
            for verb in [*map(str.upper, item), *others]:
                target = path.replace("{time}", "2026-02-03T04:05:06Z").replace("{", "").replace("}", "")
                asked_for = get(target.replace("number", "7"), verb="GET" if verb == "*" else verb)
                answer = await once(door.port, asked_for, head=verb == "HEAD")
                assert answer.status != 404, (verb, path)
