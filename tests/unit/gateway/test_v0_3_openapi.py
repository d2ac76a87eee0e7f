"""What /openapi.json says of 0.3 is valid, and what is served (spec: DOOR-03)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import json_format
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from a2a_gateway.cards.agent_card import Cards, LegacyCards
from a2a_gateway.http import frames
from a2a_gateway.older.v0_3.openapi import OldRoutes
from a2a_gateway.older.v0_3.rest import routes
from a2a_gateway.openapi import document
from a2a_gateway.routing.table import Table
from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2
from tests.support.door_old import say, tell
from tests.unit.protocol import spelling as spellings

NEW = Table.of([pb.DESCRIPTOR.services_by_name["A2AService"], discovery_pb2.DESCRIPTOR.services_by_name["Discovery"]])
TOLD = json.loads(json.dumps(document(NEW, more=[OldRoutes(routes())])))

TASK = json_format.ParseDict(
    {
        "id": "t",
        "contextId": "c",
        "status": {"state": "TASK_STATE_INPUT_REQUIRED", "timestamp": "2026-01-01T00:00:00Z"},
        "artifacts": [{"artifactId": "a", "parts": [{"raw": "eA==", "mediaType": "a/b"}, {"data": {"x": 1}}]}],
        "history": [{"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}, {"url": "https://x.example/"}]}],
        "metadata": {"k": [1]},
    },
    pb.Task(),
)
STATUS = pb.StreamResponse(status_update=pb.TaskStatusUpdateEvent(task_id="t", context_id="c", status=TASK.status))
CHUNK = pb.StreamResponse(
    artifact_update=pb.TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=TASK.artifacts[0], append=True)
)
CONFIG = pb.TaskPushNotificationConfig(
    task_id="t", id="c", url="https://x.example/", authentication=pb.AuthenticationInfo(scheme="Bearer")
)


def operation(verb: str, path: str) -> Any:
    return TOLD["paths"][path][verb]


def complaints(schema: Any, value: object) -> list[str]:
    return [error.message for error in OAS31Validator({**schema, "components": TOLD["components"]}).iter_errors(value)]


@pytest.mark.req("DOOR-03")
def test_it_is_valid() -> None:
    assert [str(error) for error in OpenAPIV31SpecValidator(TOLD).iter_errors()] == []


@pytest.mark.req("DOOR-03", "LRES-01")
def test_every_route_is_there_beside_those_of_1_0() -> None:
    old = {(verb, path) for path, item in TOLD["paths"].items() if path.startswith("/v1/") for verb in item}
    assert old == {
        ("post", "/v1/message:send"),
        ("post", "/v1/message:stream"),
        ("get", "/v1/tasks"),
        ("get", "/v1/tasks/{name}"),
        ("post", "/v1/tasks/{name}:cancel"),
        ("get", "/v1/tasks/{name}:subscribe"),
        ("post", "/v1/tasks/{name}:subscribe"),
        ("post", "/v1/tasks/{parent}/pushNotificationConfigs"),
        ("post", "/v1/task/{parent}/pushNotificationConfigs"),
        ("get", "/v1/tasks/{parent}/pushNotificationConfigs"),
        ("get", "/v1/tasks/{name1}/pushNotificationConfigs/{name2}"),
        ("delete", "/v1/tasks/{name1}/pushNotificationConfigs/{name2}"),
        ("get", "/v1/card"),
    }
    assert len([path for path in TOLD["paths"] if not path.startswith("/v1/")]) == len(document(NEW)["paths"])
    every = [it["operationId"] for item in TOLD["paths"].values() for it in item.values() if "operationId" in it]
    assert len(every) == len(set(every))


@pytest.mark.req("DOOR-03", "LRES-05")
@pytest.mark.parametrize("spelling", ["KIND_REST", "PROTO"])
def test_what_is_written_is_as_described(spelling: str) -> None:
    codec, last = getattr(spellings, spelling)[:2]
    sent = operation("post", "/v1/message:send")["responses"]["200"]["content"]["application/json"]["schema"]
    for answer in (pb.SendMessageResponse(task=TASK), pb.SendMessageResponse(message=TASK.history[0])):
        assert complaints(sent, json.loads(codec.encode(answer))) == []
    got = operation("get", "/v1/tasks/{name}")["responses"]["200"]["content"]["application/json"]["schema"]
    assert complaints(got, json.loads(codec.encode(TASK))) == []
    stream = operation("post", "/v1/message:stream")["responses"]["200"]["content"]["text/event-stream"]["schema"]
    for item in (STATUS, CHUNK, pb.StreamResponse(task=TASK)):
        for writer in (codec, last):
            assert complaints(stream["contentSchema"], json.loads(writer.encode(item))) == []
    listed = operation("get", "/v1/tasks")["responses"]["200"]["content"]["application/json"]["schema"]
    assert complaints(listed, json.loads(codec.encode(pb.ListTasksResponse(tasks=[TASK, TASK])))) == []
    path = "/v1/tasks/{parent}/pushNotificationConfigs"
    made = operation("post", path)["responses"]["200"]["content"]["application/json"]["schema"]
    assert complaints(made, json.loads(codec.encode(CONFIG))) == []
    configs = operation("get", path)["responses"]["200"]["content"]["application/json"]["schema"]
    whole = pb.ListTaskPushNotificationConfigsResponse(configs=[CONFIG], next_page_token="x")
    assert complaints(configs, json.loads(codec.encode(whole))) == []


@pytest.mark.req("DOOR-03", "LRES-05", "LRES-06")
def test_what_is_read_is_as_described() -> None:
    body = operation("post", "/v1/message:send")["requestBody"]["content"]["application/json"]["schema"]
    file = {"kind": "file", "file": {"uri": "https://x.example/", "mimeType": "a/b"}}
    for value in (say(), tell(), say(parts=[file], configuration={"blocking": False, "historyLength": 1})):
        assert complaints(body, value) == []
    for value in ({}, say(role="robot"), {"message": 7}, say(parts=[{"kind": "file", "file": {}}])):
        schema = {"$ref": "#/components/schemas/v0_3.SendMessageRequest"}
        assert complaints(schema, value) != []
    config = operation("post", "/v1/tasks/{parent}/pushNotificationConfigs")["requestBody"]["content"]
    inner = {"pushNotificationConfig": {"url": "https://x.example/", "authentication": {"schemes": ["Basic"]}}}
    for value in (
        inner,
        {"taskId": "t", **inner},
        {"name": "tasks/t/pushNotificationConfigs/c", **inner},
        {"config": inner},
    ):
        assert complaints(config["application/json"]["schema"], value) == []


@pytest.mark.req("DOOR-03", "LCRD-01")
def test_the_public_card_is_described_in_both_forms() -> None:
    it = operation("get", "/.well-known/agent-card.json")
    (version,) = [named for named in it["parameters"] if named.get("name") == "A2A-Version"]
    assert version["schema"]["enum"] == ["1.0", "0.3"]
    assert {"$ref": "#/components/parameters/A2A-Version"} not in it["parameters"]
    legacy = LegacyCards()
    cards = Cards(base="http://a.example", max_age=60, legacy=legacy)
    card = cards.with_doors(pb.AgentCard(name="A", skills=[pb.AgentSkill(id="s")]), "")
    schema = it["responses"]["200"]["content"]["application/json"]["schema"]
    for asked in ((), ("1.0",), ("0.3",)):
        assert complaints(schema, json.loads(cards.written(card, asked))) == []
    assert complaints(schema, {"name": "A"})
    assert operation("get", "/tasks/{id}")["parameters"].count({"$ref": "#/components/parameters/A2A-Version"}) == 1


@pytest.mark.req("DOOR-03", "DOOR-11")
def test_its_streams_are_described_as_those_of_1_0() -> None:
    cursors = [{"$ref": f"#/components/parameters/{name}"} for name in ("Last-Event-ID", "lastEventId")]
    for verb in ("get", "post"):
        it = operation(verb, "/v1/tasks/{name}:subscribe")
        assert [named for named in it["parameters"] if named in cursors] == cursors
        lines = it["responses"]["200"]["content"]["application/x-ndjson"]["schema"]["contentSchema"]
        event = frames.LINES.event(0, spellings.PROTO.codec.encode(pb.StreamResponse(task=TASK)))
        assert complaints(lines, json.loads(event)) == []
        assert complaints(lines, json.loads(event)["result"])


@pytest.mark.req("DOOR-03", "LRES-09")
def test_every_status_of_its_errors_is_foreseen() -> None:
    statuses = set(operation("get", "/v1/tasks/{name}")["responses"])
    assert {"200", "400", "404", "409", "415", "502", "503"} <= statuses
    assert all(status == "200" or status in TOLD["components"]["responses"] for status in statuses)
