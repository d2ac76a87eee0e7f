"""The route table: what the annotations say, and which route a request means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from google.protobuf.descriptor import ServiceDescriptor

from a2a_gateway.older.draft.doors import routes
from a2a_gateway.routing.annotations import Alias, RouteError
from a2a_gateway.routing.table import Match, Table, UnknownPath, WrongVerb
from a2a_proto import a2a_pb2, discovery_pb2
from a2a_server.protocol.errors import A2AError, Reason
from tests.support.doors import DISCOVERY, SERVICE
from tests.unit.gateway.scratch.library import library, of_source

SERVICES = (a2a_pb2.DESCRIPTOR.services_by_name["A2AService"], discovery_pb2.DESCRIPTOR.services_by_name["Discovery"])


@pytest.fixture(scope="module")
def table() -> Table:
    return Table.of(SERVICES)


@pytest.fixture(scope="module")
def scratch() -> Table:
    return Table.of([library()])


def found(match: Match) -> tuple[str, dict[str, str]]:
    return match.route.method.name, dict(match.captures)


# The map of the specification (wire-1.0.md, section 3), by hand: the table must come to the same by annotations alone.
PLAIN = [
    ("POST", "/message:send", "SendMessage", {}),
    ("POST", "/message:stream", "SendStreamingMessage", {}),
    ("GET", "/tasks/t-1", "GetTask", {"id": "t-1"}),
    ("GET", "/tasks", "ListTasks", {}),
    ("POST", "/tasks/t-1:cancel", "CancelTask", {"id": "t-1"}),
    ("GET", "/tasks/t-1:subscribe", "SubscribeToTask", {"id": "t-1"}),
    ("POST", "/tasks/t-1:subscribe", "SubscribeToTask", {"id": "t-1"}),
    ("POST", "/tasks/t-1/pushNotificationConfigs", "CreateTaskPushNotificationConfig", {"task_id": "t-1"}),
    ("GET", "/tasks/t-1/pushNotificationConfigs/c", "GetTaskPushNotificationConfig", {"task_id": "t-1", "id": "c"}),
    ("GET", "/tasks/t-1/pushNotificationConfigs", "ListTaskPushNotificationConfigs", {"task_id": "t-1"}),
    (
        "DELETE",
        "/tasks/t-1/pushNotificationConfigs/c",
        "DeleteTaskPushNotificationConfig",
        {"task_id": "t-1", "id": "c"},
    ),
    ("GET", "/extendedAgentCard", "GetExtendedAgentCard", {}),
    ("GET", "/.well-known/agent-card.json", "GetAgentCard", {}),
]
NAMES = [f"{verb} {path}" for verb, path, _, _ in PLAIN]


@pytest.mark.req("REST-01")
@pytest.mark.parametrize(("verb", "path", "method", "captures"), PLAIN, ids=NAMES)
def test_every_route_exists(table: Table, verb: str, path: str, method: str, captures: dict[str, str]) -> None:
    assert found(table.match(verb, path)) == (method, captures)


@pytest.mark.req("REST-02")
@pytest.mark.parametrize(("verb", "path", "method", "captures"), PLAIN, ids=NAMES)
def test_every_route_exists_in_a_tenant(
    table: Table, verb: str, path: str, method: str, captures: dict[str, str]
) -> None:
    assert found(table.match(verb, f"/north{path}")) == (method, {"tenant": "north", **captures})


def test_there_are_no_other_routes(table: Table) -> None:
    assert len(table.routes) == 2 * len(PLAIN)


@pytest.mark.req("REST-03")
def test_the_alias_is_the_only_addition(table: Table) -> None:
    annotated = Table.of(SERVICES, aliases=())
    added = {(route.verb, route.template.text, route.body) for route in table.routes[len(annotated.routes) :]}
    assert added == {
        ("POST", "/tasks/{id=*}:subscribe", "*"),
        ("POST", "/{tenant}/tasks/{id=*}:subscribe", "*"),
    }
    with pytest.raises(WrongVerb):
        annotated.match("POST", "/tasks/t-1:subscribe")


def test_an_alias_yields_to_an_annotation(tmp_path: Path) -> None:
    service = of_source(
        tmp_path,
        """
        rpc Ask(Thing) returns (Thing) { option (google.api.http) = { get: "/things:ask" }; }
        rpc Put(Thing) returns (Thing) { option (google.api.http) = { post: "/things:ask" }; }
        """,
    )
    table = Table.of([service], [Alias("ask", "GET", also="POST", body="*")])
    assert found(table.match("POST", "/things:ask")) == ("Put", {})
    assert len(table.routes) == 2


SUFFIXES = [
    # Each row: verb, path, method, captures.
    ("GET", "/tasks/urn:7", "GetTask", {"id": "urn:7"}),  # a colon is data unless it starts a known suffix
    ("POST", "/tasks/urn:7:cancel", "CancelTask", {"id": "urn:7"}),  # the last one counts
    ("POST", "/tasks/x%3Acancel", "CancelTask", {"id": "x"}),  # encoded or not (REST-07)
    ("POST", "/tasks/x%3acancel", "CancelTask", {"id": "x"}),
    ("GET", "/tasks/x%3Asubscribe", "SubscribeToTask", {"id": "x"}),
    ("POST", "/message%3Asend", "SendMessage", {}),
    ("GET", "/tasks/x%253Acancel", "GetTask", {"id": "x%3Acancel"}),  # decoded once, not twice
    ("GET", "/tasks/x:cancel%20", "GetTask", {"id": "x:cancel "}),  # not quite the suffix
    ("GET", "/tasks/message:send", "GetTask", {"id": "message:send"}),  # a suffix of other routes
    ("GET", "/tasks/x:", "GetTask", {"id": "x:"}),
    ("GET", "/tasks/:x", "GetTask", {"id": ":x"}),
    (
        "GET",
        "/tasks/x:cancel/pushNotificationConfigs",  # not in the last segment
        "ListTaskPushNotificationConfigs",
        {"task_id": "x:cancel"},
    ),
]


@pytest.mark.req("REST-07")
@pytest.mark.parametrize(("verb", "path", "method", "captures"), SUFFIXES, ids=[row[1] for row in SUFFIXES])
def test_suffixes(table: Table, verb: str, path: str, method: str, captures: dict[str, str]) -> None:
    assert found(table.match(verb, path)) == (method, captures)


ENCODED = [
    ("/tasks/a%2Fb", "a/b"),  # one segment whatever is in it
    ("/tasks/a%2fb%3Fc%23d%25", "a/b?c#d%"),
    ("/tasks/a+b", "a+b"),
    ("/tasks/a%20b", "a b"),
    ("/tasks/%C3%BC", "ü"),
    ("/tasks/ü", "ü"),
    ("/tasks/.", "."),  # dots are data: there are no directories
    ("/tasks/..", ".."),
    ("/tasks/%2e%2e", ".."),
    ("/tasks/%00", "\0"),  # what an id may hold is the service's business
    ("/tasks/{id}", "{id}"),
    ("/tasks/*", "*"),
]


@pytest.mark.req("REST-07")
@pytest.mark.parametrize(("path", "task_id"), ENCODED, ids=[row[0] for row in ENCODED])
def test_an_id_is_one_decoded_segment(table: Table, path: str, task_id: str) -> None:
    assert found(table.match("GET", path)) == ("GetTask", {"id": task_id})


@pytest.mark.parametrize("path", ["/tasks/%", "/tasks/a%2", "/tasks/%zz", "/%zz/%zz", "/tasks/%ff", "/tasks/\udcff"])
def test_an_encoding_that_is_none_is_a_validation_error(table: Table, path: str) -> None:
    with pytest.raises(A2AError) as caught:
        table.match("GET", path)
    assert caught.value.reason is Reason.INVALID_PARAMS
    assert [violation.field for violation in caught.value.violations] == ["path"]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "*",  # as in OPTIONS *
        "tasks",
        "/",
        "/nothing",
        "/tasks/",
        "//tasks",
        "/tasks//pushNotificationConfigs",  # an empty segment is no id
        "/tasks/:cancel",
        "/TASKS",
        "/tasks/a/b",
        "/north/tasks/a/b",
        "/tasks?pageSize=1",  # the query is not the table's business
        "/v1/north/tasks",
    ],
)
def test_unknown_paths(table: Table, path: str) -> None:
    with pytest.raises(UnknownPath):
        table.match("GET", path)


def test_a_slash_too_many_is_told(table: Table) -> None:
    for verb, path in [
        ("GET", "/tasks/"),
        ("POST", "/message:send/"),
        ("GET", "/tasks/x/"),
        ("GET", "/message:send//"),
    ]:
        with pytest.raises(UnknownPath, match="Leave out the slash at its end"):
            table.match(verb, path)
    with pytest.raises(UnknownPath) as caught:
        table.match("GET", "/nothing/")
    assert "slash" not in str(caught.value)


WRONG = [
    ("GET", "/message:send", ["OPTIONS", "POST"]),
    ("PUT", "/tasks", ["GET", "HEAD", "OPTIONS"]),
    ("DELETE", "/tasks/x", ["GET", "HEAD", "OPTIONS"]),
    # Somebody who forgets `-X POST` must not be told that there is no such task.
    ("GET", "/tasks/x:cancel", ["OPTIONS", "POST"]),
    ("DELETE", "/tasks/x:subscribe", ["GET", "HEAD", "OPTIONS", "POST"]),
    ("PATCH", "/tasks/x/pushNotificationConfigs/y", ["DELETE", "GET", "HEAD", "OPTIONS"]),
    ("OPTIONS", "/north/tasks/x/pushNotificationConfigs", ["GET", "HEAD", "OPTIONS", "POST"]),
    ("get", "/tasks", ["GET", "HEAD", "OPTIONS"]),  # methods are case-sensitive
]


@pytest.mark.parametrize(("verb", "path", "allow"), WRONG, ids=[f"{row[0]} {row[1]}" for row in WRONG])
def test_wrong_verbs(table: Table, verb: str, path: str, allow: Sequence[str]) -> None:
    with pytest.raises(WrongVerb) as caught:
        table.match(verb, path)
    assert list(caught.value.allow) == allow
    assert all(known in str(caught.value) for known in allow)


def test_head_is_answered_as_get(table: Table, scratch: Table) -> None:
    for path in ("/tasks", "/tasks/x", "/.well-known/agent-card.json"):
        assert table.match("HEAD", path) == table.match("GET", path)
    assert found(scratch.match("HEAD", "/head")) == ("Head", {})
    with pytest.raises(WrongVerb) as caught:
        scratch.match("GET", "/head")
    assert list(caught.value.allow) == ["HEAD", "OPTIONS"]


COLLISIONS = [
    # CONF-49: what a plain route takes never reaches a tenant of that name.
    ("GET", "/tasks/tasks", "GetTask", {"id": "tasks"}),
    ("GET", "/tasks/extendedAgentCard", "GetTask", {"id": "extendedAgentCard"}),
    ("GET", "/tasks/tasks/tasks", "GetTask", {"tenant": "tasks", "id": "tasks"}),  # no plain route has this shape
    ("GET", "/v1/tasks", "ListTasks", {"tenant": "v1"}),
]


@pytest.mark.parametrize(("verb", "path", "method", "captures"), COLLISIONS, ids=[row[1] for row in COLLISIONS])
@pytest.mark.parametrize("services", [SERVICES, SERVICES[::-1]], ids=["in order", "reversed"])
def test_fixed_routes_come_before_tenants(
    services: Sequence[ServiceDescriptor], verb: str, path: str, method: str, captures: dict[str, str]
) -> None:
    assert found(Table.of(services).match(verb, path)) == (method, captures)


@pytest.mark.req("CONF-49", "TENA-07")
def test_a_name_that_begins_with_a_dot_is_no_tenants(table: Table) -> None:
    for path in ("/.well-known/.well-known/agent-card.json", "/.x/tasks", "/%2Ex/tasks/t", "/.x/message:send"):
        assert not table.has(path)
        for verb in ("GET", "HEAD", "POST"):
            with pytest.raises(UnknownPath):
                table.match(verb, path)


SCRATCH = [
    ("GET", "/v1/shelves/7/books", "FindBooks", {"parent": "shelves/7"}),
    ("GET", "/v1/books", "FindBooks", {}),
    ("GET", "/v1/ann/books:found", "FindBooks", {"filter.owner.name": "ann"}),
    ("GET", "/v1/shelves/7/books/x", "GetBook", {"name": "shelves/7/books/x"}),
    ("GET", "/v1/shelves/best/books/one", "GetBestBook", {}),  # the literal wins
    ("PUT", "/v1/shelves/best/books/one", "PutBook", {"book.name": "shelves/best/books/one"}),  # it has no PUT
    ("GET", "/v1/shelves/best/books/two", "GetBook", {"name": "shelves/best/books/two"}),
    ("PATCH", "/v1/shelves/7/books/x", "PutBook", {"book.name": "shelves/7/books/x"}),
    ("DELETE", "/v1/shelves/7/books/x", "BurnBook", {"name": "shelves/7/books/x"}),
    ("LINK", "/v1/shelves/7/books/x", "LinkBook", {"name": "shelves/7/books/x"}),
    ("POST", "/v1/shelves/7/books/x:lend", "LendBook", {"name": "shelves/7/books/x"}),
    ("POST", "/v1/shelves/7/books/x%3Alend", "LendBook", {"name": "shelves/7/books/x"}),
    ("GET", "/v1/shelves/7/books/x:y", "GetBook", {"name": "shelves/7/books/x:y"}),
    ("POST", "/v1/shelves/7/books/x/tags", "TagBook", {"name": "shelves/7/books/x"}),
    # In several segments an encoded slash stays encoded (http.proto), all else is decoded.
    ("GET", "/v1/shelves/a%2Fb/books/%C3%BC%20", "GetBook", {"name": "shelves/a%2Fb/books/ü "}),
    ("POST", "/v1/shelves/a%2Fb/books/%2F%3Alend", "LendBook", {"name": "shelves/a%2Fb/books/%2F"}),
    ("GET", "/v1/a%2Fb/books:found", "FindBooks", {"filter.owner.name": "a/b"}),
    ("GET", "/v1/shel%76es/7/books", "FindBooks", {"parent": "shelves/7"}),  # a literal, needlessly encoded
    ("GET", "/files/a/b.txt", "GetFile", {"path": "a/b.txt"}),
    ("PROPFIND", "/files/a/b.txt", "GetFile", {"path": "a/b.txt"}),
    ("HEAD", "/files/a", "GetFile", {"path": "a"}),
    ("GET", "/files", "GetFile", {"path": ""}),  # `**` takes nothing, too
    ("GET", "/files/", "GetFile", {"path": ""}),
    ("GET", "/files/a//b/", "GetFile", {"path": "a//b/"}),  # and for it empty segments are data
    ("POST", "/files/a/b:stamp", "StampFile", {"path": "a/b"}),
    ("POST", "/files/a/b:other", "GetFile", {"path": "a/b:other"}),
    ("POST", "/files:stamp", "StampFile", {"path": ""}),
    ("GET", "/ping/x/now", "Ping", {}),
    ("GET", "/ping/all/x/y", "Ping", {}),
    ("GET", "/ping/all/now", "Ping", {}),
    ("GET", "/pages/7/at/2026-02-03T04:05:06Z", "GetPage", {"number": "7", "time": "2026-02-03T04:05:06Z"}),
]


@pytest.mark.parametrize(("verb", "path", "method", "captures"), SCRATCH, ids=[f"{row[0]} {row[1]}" for row in SCRATCH])
def test_every_form_of_annotation(scratch: Table, verb: str, path: str, method: str, captures: dict[str, str]) -> None:
    assert found(scratch.match(verb, path)) == (method, captures)


def test_rpcs_without_annotation_have_no_route(scratch: Table) -> None:
    assert "Hidden" in {method.name for method in library().methods}
    assert "Hidden" not in {route.method.name for route in scratch.routes}


def test_a_suffix_of_all_that_is_left_belongs_to_it(scratch: Table) -> None:
    with pytest.raises(WrongVerb) as caught:
        scratch.match("GET", "/files/a:stamp")
    assert list(caught.value.allow) == ["OPTIONS", "POST"]


def test_the_root_is_a_path(tmp_path: Path) -> None:
    service = of_source(tmp_path, 'rpc Root(Thing) returns (Thing) { option (google.api.http) = { get: "/" }; }')
    assert found(Table.of([service]).match("GET", "/")) == ("Root", {})


def rpc(rule: str, *, request: str = "Thing", answer: str = "Thing") -> str:
    return f"rpc Do({request}) returns ({answer}) {{ option (google.api.http) = {{ {rule} }}; }}"


REFUSED = [
    (rpc('get: "/a/"'), 'path template "/a/": a segment is empty'),
    (rpc('body: "*"'), "has no pattern"),
    (rpc('get: "/a" additional_bindings { body: "*" }'), "has no pattern"),
    (rpc('custom { path: "/a" }'), "has no kind"),
    (rpc('custom { kind: "FOO" path: "/a" }'), 'method "FOO"; the kind may be * or one of ACL,'),
    (rpc('custom { kind: "link" path: "/a" }'), 'no request can have the method "link"'),
    (rpc('custom { kind: "OPTIONS" path: "/a" }'), "the gateway itself answers OPTIONS"),
    (rpc('get: "/{other}"'), '"other", which small.Thing does not have'),
    (rpc('get: "/{id.other}"'), '"id.other", which small.Thing does not have'),
    (rpc('get: "/{part}"'), '"part", which is an object'),
    (rpc('get: "/{ids}"'), '"ids", which is a list'),
    (rpc('get: "/{labels}"'), '"labels", which is a map'),
    (rpc(f'get: "/{{{"inner." * 40}id}}"'), "must not go deeper than 32"),
    (rpc('post: "/a" body: "other"'), 'small.Thing has no field "other"'),
    (rpc('post: "/a" body: "part.id"'), 'small.Thing has no field "part.id"'),
    (rpc('get: "/a" response_body: "other"'), 'small.Thing has no field "other"'),
    (rpc('get: "/a" body: "*"'), "GET takes no body"),
    (rpc('get: "/a" additional_bindings { get: "/b" additional_bindings { get: "/c" } }'), "cannot be nested"),
    (rpc('get: "/a" response_body: "part"', answer="stream Thing"), "a stream has no response_body"),
    (rpc('post: "/a"', request="stream Thing"), "a stream of requests needs a body"),
]


@pytest.mark.parametrize(("source", "reason"), REFUSED, ids=[row[1] for row in REFUSED])
def test_annotations_that_cannot_be_served(tmp_path: Path, source: str, reason: str) -> None:
    service = of_source(tmp_path, source)
    with pytest.raises(RouteError) as caught:
        Table.of([service])
    assert str(caught.value).startswith("small.Small.Do: ")
    assert reason in str(caught.value)


SAME = [
    ('get: "/a/{id}"', 'get: "/a/{part.id}"'),  # names do not make a difference
    ('get: "/a/{id=*}:x"', 'get: "/a/*:x"'),
    ('get: "/a/{id=b/*}"', 'get: "/{id=a/b/*}"'),
    ('get: "/a"', 'get: "/%61"'),
    ('custom { kind: "*" path: "/a" }', 'custom { kind: "*" path: "/a" }'),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_two_routes_for_the_same_requests_are_refused(tmp_path: Path, first: str, second: str) -> None:
    service = of_source(tmp_path, rpc(first) + rpc(second).replace("rpc Do", "rpc Redo"))
    with pytest.raises(RouteError, match=r"small.Small.Redo and small.Small.Do both answer"):
        Table.of([service])


def test_routes_that_overlap_are_fine(tmp_path: Path) -> None:
    rules = ['get: "/a/{id}"', 'get: "/a/{id}:x"', 'get: "/{id}/b"', 'post: "/a/{id}"', 'get: "/a/**"', 'get: "/a/b"']
    source = "".join(rpc(rule).replace("rpc Do", f"rpc Do{number}") for number, rule in enumerate(rules))
    table = Table.of([of_source(tmp_path, source)])
    assert len(table.routes) == len(rules)
    assert table.match("GET", "/a/b").route.method.name == "Do5"
    assert table.match("GET", "/c/b").route.method.name == "Do2"
    assert table.match("GET", "/a/c").route.method.name == "Do0"
    assert table.match("GET", "/a/b:x").route.method.name == "Do1"
    assert table.match("GET", "/a/b/c").route.method.name == "Do4"


TABLE = routes()

# wire-0.3, section 9.
PATHS = [
    ("POST", "message:send", "SendMessage"),
    ("POST", "message:stream", "SendStreamingMessage"),
    ("GET", "tasks", "ListTasks"),
    ("GET", "tasks/t", "GetTask"),
    ("POST", "tasks/t:cancel", "CancelTask"),
    ("POST", "tasks/t:subscribe", "SubscribeToTask"),
    ("GET", "tasks/t:subscribe", "SubscribeToTask"),
    ("POST", "tasks/t/pushNotificationConfigs", "CreateTaskPushNotificationConfig"),
    ("GET", "tasks/t/pushNotificationConfigs", "ListTaskPushNotificationConfigs"),
    ("GET", "tasks/t/pushNotificationConfigs/c", "GetTaskPushNotificationConfig"),
    ("DELETE", "tasks/t/pushNotificationConfigs/c", "DeleteTaskPushNotificationConfig"),
    ("GET", "extendedAgentCard", "GetExtendedAgentCard"),
]


@pytest.mark.req("DRFT-01")
@pytest.mark.parametrize(("verb", "path", "rpc"), PATHS)
@pytest.mark.parametrize("form", ["/", "/v1/", "/north/", "/north/v1/"])
def test_the_table(form: str, verb: str, path: str, rpc: str) -> None:
    route, captures = TABLE.match(verb, form + path)
    assert (route.method.name, route.method.containing_service) == (rpc, SERVICE)
    assert captures.get("tenant") == ("north" if "north" in form else None)
    expected = {"t", "c"} if path.endswith("/c") else {"t"} if "tasks/t" in path else set()
    assert {*captures.values()} - {"north"} == expected


@pytest.mark.req("DRFT-01")
def test_every_rpc_has_all_forms() -> None:
    assert {path[2] for path in PATHS} == {method.name for method in SERVICE.methods}
    assert len(TABLE.routes) == len(PATHS) * 4 + 2 * len(DISCOVERY.methods)


@pytest.mark.parametrize("path", ["/v1", "/v1/north/tasks/t/x", "/north/v1/v1/tasks", "/v1/", "/agent.json"])
def test_there_is_nothing_else(path: str) -> None:
    with pytest.raises(UnknownPath):
        TABLE.match("GET", path)
