"""The OpenAPI document is valid, and says what the gateway does."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from google.protobuf.message import Message
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from a2a_gateway.errors import explain
from a2a_gateway.http.frames import LINES
from a2a_gateway.openapi import document
from a2a_gateway.requests.binding import bind
from a2a_gateway.routing.table import Match, Table
from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2
from a2a_server.protocol.errors import A2AError, Reason, Violation
from a2a_server.protocol.json_v1 import V1
from tests.unit.gateway.scratch.library import kind, library

A2A = Table.of([pb.DESCRIPTOR.services_by_name["A2AService"], discovery_pb2.DESCRIPTOR.services_by_name["Discovery"]])
SCRATCH = Table.of([library()])
TABLES = pytest.mark.parametrize("table", [A2A, SCRATCH], ids=["A2A", "scratch"])

EXTENSION = "x-additional-operations"


@cache
def of(table: Table) -> dict[str, Any]:
    return document(table)


def operations(described: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in described["paths"].items():
        for verb, operation in item.items():
            if verb == EXTENSION:
                yield from ((other, path, it) for other, it in operation.items())
            else:
                yield verb.upper(), path, operation


def operation(table: Table, verb: str, path: str) -> dict[str, Any]:
    return next(it for v, p, it in operations(of(table)) if (v, p) == (verb, path))


def names(described: dict[str, Any], place: str) -> list[str]:
    return [it["name"] for it in described["parameters"] if it.get("in") == place]


def complaints(table: Table, schema: dict[str, Any], value: object) -> list[str]:
    whole = {**schema, "components": of(table)["components"]}
    return [error.message for error in OAS31Validator(whole).iter_errors(value)]


@pytest.mark.req("DOOR-03")
@TABLES
def test_it_is_valid(table: Table) -> None:
    described = json.loads(json.dumps(document(table, server="https://agent.example")))
    assert [str(error) for error in OpenAPIV31SpecValidator(described).iter_errors()] == []


@pytest.mark.req("DOOR-03")
@TABLES
def test_every_route_is_in_it(table: Table) -> None:
    found = list(operations(of(table)))
    assert len(found) == len(table.routes)
    assert len({it["operationId"] for _, _, it in found}) == len(found)
    assert [
        it["summary"] for _, _, it in found if not it["operationId"].startswith(f"{it['tags'][0]}_{it['summary']}")
    ] == []


def example(schema: dict[str, Any]) -> str:
    return (
        {"integer": "7", "string": "a/b ü"}[schema["type"]]
        if schema.get("format") != "date-time"
        else "2026-02-03T04:05:06Z"
    )


@TABLES
def test_its_paths_lead_where_they_say(table: Table) -> None:
    for verb, template, it in operations(of(table)):
        path = template
        for parameter in it["parameters"]:
            if parameter.get("in") == "path":
                value = quote(example(parameter["schema"]), safe="")
                path = path.replace(f"{{{parameter['name']}}}", value)
        assert "{" not in path
        assert table.match("PROPFIND" if verb == "*" else verb, path).route.method.name == it["summary"]


QUERY: dict[str, str] = {
    "boolean": "true",
    "integer": "7",
    "string": "7",
    "object": "{}",
    "array": "[]",
}


def spoken(parameter: dict[str, Any], schemas: dict[str, Any]) -> tuple[str, str]:
    """A parameter with a value that its schema allows."""
    name, schema = parameter["name"], parameter.get("schema") or parameter["content"]["application/json"]["schema"]
    if parameter.get("style") == "deepObject":
        return f"{name}[key]", "7"
    if schema.get("type") == "array" and "content" not in parameter:
        schema = schema["items"]
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        return name, schema["enum"][-1]
    formats = {"date-time": "2026-02-03T04:05:06Z"}
    texts = formats.get(schema.get("format", "")) or ("7s" if "s$" in schema.get("pattern", "") else "")
    base64 = "AAAA" if schema.get("contentEncoding") else ""
    return name, texts or base64 or QUERY[schema.get("type", "integer")]


@TABLES
def test_its_query_parameters_are_understood(table: Table) -> None:
    described = of(table)
    found = 0
    by_id = {it["operationId"]: it for _, _, it in operations(described)}
    for route, it in zip(table.routes, in_order(table, by_id), strict=True):
        captures = dict.fromkeys((variable.path for variable in route.template.variables), "7")
        captures |= {"time": "2026-02-03T04:05:06Z"} if "time" in captures else {}
        bare = bind(Match(route, captures), [], b"", V1)
        for parameter in it["parameters"]:
            if parameter.get("in") == "query":
                found += 1
                assert (
                    bind(Match(route, captures), [spoken(parameter, described["components"]["schemas"])], b"", V1)
                    != bare
                )
    assert found > 10


def in_order(table: Table, by_id: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    seen: dict[str, int] = {}
    for route in table.routes:
        name = f"{route.method.containing_service.name}_{route.method.name}"
        seen[name] = seen.get(name, 0) + 1
        yield by_id[name if seen[name] == 1 else f"{name}{seen[name]}"]


@pytest.mark.req("QPAR-01")
def test_list_takes_what_the_specification_says() -> None:
    it = operation(A2A, "GET", "/tasks")
    assert set(names(it, "query")) == {
        "tenant",
        "contextId",
        "status",
        "pageSize",
        "pageToken",
        "historyLength",
        "statusTimestampAfter",
        "includeArtifacts",
    }
    assert "tenant" not in names(operation(A2A, "GET", "/{tenant}/tasks"), "query")


def test_every_form_of_query_parameter_is_described() -> None:
    described = {parameter.get("name"): parameter for parameter in operation(SCRATCH, "GET", "/v1/books")["parameters"]}
    assert described["words"]["schema"] == {"type": "array", "items": {"type": "string"}}
    assert described["labels"]["style"] == "deepObject"
    assert described["extra"]["content"] == {"application/json": {"schema": {"type": "object"}}}
    assert described["filter.owner.name"]["schema"] == {"type": "string"}
    assert described["limit"]["schema"]["format"] == "int64"
    assert described["@other"]["schema"] == {"type": "string"}
    # No form in a URL, or no end.
    assert not {"owners", "filter.owners", "filter", "inner", "inner.parent"} & set(described)


def test_beside_a_body_there_are_fewer() -> None:
    assert names(operation(SCRATCH, "PUT", "/v1/shelves/{name1}/books/{name2}"), "query") == ["create", "mask"]
    assert names(operation(SCRATCH, "POST", "/v1/shelves/{name1}/books/{name2}:lend"), "query") == []


class TestRequestBodies:
    def test_both_media_types_are_taken(self) -> None:
        body = operation(A2A, "POST", "/message:send")["requestBody"]
        assert set(body["content"]) == {"application/a2a+json", "application/json"}
        assert body["required"] is True

    @pytest.mark.req("REST-05")
    @pytest.mark.parametrize("path", ["/tasks/{id}:cancel", "/tasks/{id}:subscribe"])
    def test_none_is_needed_when_the_path_says_all(self, path: str) -> None:
        body = operation(A2A, "POST", path)["requestBody"]
        assert body["required"] is False
        assert complaints(A2A, body["content"]["application/json"]["schema"], {}) == []

    def test_one_field_is_described_as_itself(self) -> None:
        tags = operation(SCRATCH, "POST", "/v1/shelves/{name1}/books/{name2}/tags")
        assert tags["requestBody"]["content"]["application/json"]["schema"]["type"] == "array"
        assert tags["responses"]["200"]["content"]["application/json"]["schema"]["type"] == "array"

    def test_get_and_delete_have_none(self) -> None:
        assert not [it for verb, _, it in operations(of(A2A)) if verb in {"GET", "DELETE"} and "requestBody" in it]


class TestAnswers:
    def test_streams_are_streams(self) -> None:
        for path in ("/message:stream", "/tasks/{id}:subscribe"):
            content = operation(A2A, "POST", path)["responses"]["200"]["content"]
            assert set(content) == {"text/event-stream", "application/x-ndjson"}
        event = content["text/event-stream"]["schema"]["contentSchema"]
        assert event == {"$ref": "#/components/schemas/StreamResponse"}

    @pytest.mark.req("DOOR-11")
    def test_every_line_of_json_lines_is_described(self) -> None:
        lines = operation(A2A, "POST", "/message:stream")["responses"]["200"]["content"]["application/x-ndjson"]
        schema = lines["schema"]["contentSchema"]
        event = V1.encode(pb.StreamResponse(task=pb.Task(id="t")))
        failure = explain(A2AError(Reason.SLOW_READER, "Too slow.", retry_after=1))
        for line in (LINES.event(7, event), LINES.error(failure)):
            assert complaints(A2A, schema, orjson.loads(line)) == []
        assert complaints(A2A, schema, orjson.loads(event))

    @pytest.mark.req("RPLY-01")
    def test_a_stream_that_is_read_can_be_continued_under_either_verb(self) -> None:
        cursors = [{"$ref": f"#/components/parameters/{name}"} for name in ("Last-Event-ID", "lastEventId")]
        subscribes = [operation(A2A, verb, "/{tenant}/tasks/{id}:subscribe") for verb in ("GET", "POST")]
        for subscribe in (*subscribes, operation(SCRATCH, "GET", "/pages/{number}/at/{time}")):
            assert [it for it in subscribe["parameters"] if it in cursors] == cursors
        assert not [it for it in operation(A2A, "POST", "/message:stream")["parameters"] if it in cursors]
        components = of(A2A)["components"]["parameters"]
        assert [components[name]["in"] for name in ("Last-Event-ID", "lastEventId")] == ["header", "query"]

    def test_every_error_of_the_catalogue_is_foreseen(self) -> None:
        described = of(A2A)
        for reason in Reason:
            failure = explain(A2AError(reason, "No.", violations=[Violation("a", "b")]))
            for _, _, it in operations(described):
                assert str(failure.http) in it["responses"]
            media = described["components"]["responses"][str(failure.http)]["content"]["application/json"]
            assert complaints(A2A, media["schema"], orjson.loads(failure.rest())) == []

    def test_codes_of_1_0_0_are_foreseen(self) -> None:
        assert {"409", "502"} <= set(document(A2A, codes="1.0.0")["components"]["responses"])

    def test_the_public_card_is_for_caches(self) -> None:
        it = operation(A2A, "GET", "/.well-known/agent-card.json")
        assert "304" in it["responses"]
        assert set(it["responses"]["200"]["content"]) == {"application/json"}
        assert it["security"] == []


MESSAGES: list[tuple[Table, Message]] = [
    (A2A, pb.Task()),
    (
        A2A,
        pb.Task(
            id="t", status=pb.TaskStatus(state=pb.TASK_STATE_WORKING), history=[pb.Message(parts=[pb.Part(raw=b"x")])]
        ),
    ),
    (A2A, pb.ListTasksResponse(tasks=[pb.Task()])),
    (A2A, pb.AgentCard(signatures=[pb.AgentCardSignature()], capabilities=pb.AgentCapabilities(streaming=False))),
    (A2A, pb.StreamResponse(message=pb.Message(role=pb.ROLE_AGENT))),
    (
        SCRATCH,
        kind("Book")(
            name="n",
            genre="GENRE_POEM",
            tags=["a"],
            picture=b"\xff",
            readers={"ann": {"name": "Ann", "age": 7}},
            weight={"value": 1.5},
            sold=2**64 - 1,
            price=float("nan"),
        ),
    ),
]


@pytest.mark.parametrize(("table", "message"), MESSAGES)
def test_what_the_codec_writes_is_as_described(table: Table, message: Message) -> None:
    schema = {"$ref": f"#/components/schemas/{message.DESCRIPTOR.name}"}
    assert complaints(table, schema, orjson.loads(V1.encode(message))) == []


WRONG = [
    # Each row: a type, a value that its schema must not allow.
    ("Task", {"status": {"state": "TASK_STATE_WORKING"}}),  # id is required
    ("TaskStatus", {"state": "WORKING"}),
    ("TaskStatus", {"state": "TASK_STATE_WORKING", "timestamp": 7}),
    ("Part", {"text": "a", "url": "b"}),  # one of them
    ("Part", {"text": "a", "metadata": []}),
    ("SendMessageConfiguration", {"historyLength": 2**31}),
    ("SendMessageConfiguration", {"acceptedOutputModes": "text/plain"}),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_schemas_say_no(name: str, value: object) -> None:
    assert complaints(A2A, {"$ref": f"#/components/schemas/{name}"}, value)


def test_without_a_card_nothing_is_said_of_credentials() -> None:
    """Which is not to say that none are needed."""
    told = of(A2A)
    assert "security" not in told
    assert "securitySchemes" not in told["components"]
    assert "lacks its name and its security schemes" in told["info"]["description"]
    assert document(A2A, card=pb.AgentCard())["security"] == []


def test_the_card_says_who_and_how() -> None:
    card = pb.AgentCard(name="Ledger", description="Books", version="4.2")
    schemes = card.security_schemes
    schemes["key"].api_key_security_scheme.CopyFrom(pb.APIKeySecurityScheme(location="header", name="X-Key"))
    schemes["jwt"].http_auth_security_scheme.CopyFrom(
        pb.HTTPAuthSecurityScheme(scheme="Bearer", bearer_format="JWT", description="A token.")
    )
    schemes["my idp"].open_id_connect_security_scheme.open_id_connect_url = "https://idp.example"
    schemes["mtls"].mtls_security_scheme.SetInParent()
    code = schemes["oauth"].oauth2_security_scheme.flows.authorization_code
    code.authorization_url, code.token_url, code.scopes["read"] = "https://a.example", "https://t.example", "Read."
    schemes["device"].oauth2_security_scheme.flows.device_code.token_url = "https://t.example"
    card.security_requirements.add().schemes["jwt"].SetInParent()
    card.security_requirements.add().schemes["my idp"].list.append("read")
    described = document(A2A, card=card)
    assert [str(error) for error in OpenAPIV31SpecValidator(described).iter_errors()] == []
    assert described["info"] == {"title": "Ledger", "version": "4.2", "description": "Books"}
    assert described["security"] == [{"jwt": []}, {"my_idp": ["read"]}]
    assert described["components"]["securitySchemes"] == {
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "jwt": {"type": "http", "scheme": "Bearer", "bearerFormat": "JWT", "description": "A token."},
        "my_idp": {"type": "openIdConnect", "openIdConnectUrl": "https://idp.example"},
        "mtls": {"type": "mutualTLS"},
        "oauth": {
            "type": "oauth2",
            "flows": {
                "authorizationCode": {
                    "authorizationUrl": "https://a.example",
                    "tokenUrl": "https://t.example",
                    "scopes": {"read": "Read."},
                }
            },
        },
        "device": {
            "type": "oauth2",
            "flows": {"x-deviceAuthorization": {"tokenUrl": "https://t.example", "scopes": {}}},
        },
    }
