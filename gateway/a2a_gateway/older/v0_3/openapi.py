"""REST's routes of 0.3 in the OpenAPI document, with bodies in both spellings (spec: DOOR-03, LRES-05)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

from google.protobuf.message import Message

from a2a_gateway.older.v0_3.kind_schemas import KindSchemas
from a2a_gateway.openapi.operations import CURSORS, PARAMETERS, referred, refusal_with, resumes, stream_of
from a2a_gateway.openapi.parameters import path_of, query_of
from a2a_gateway.openapi.schemas import Schema, Schemas
from a2a_gateway.routing.annotations import Route
from a2a_gateway.routing.table import Table
from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec.schema import descriptor_of
from a2a_server.protocol.errors import Reason
from a2a_server.protocol.names import JSON, OLD_EXTENSIONS_HEADER, VERSION_HEADER

_TAG: Final = "A2A 0.3"
_TENANT: Final = "tenant"
_HEADERS: Final[Mapping[str, tuple[str, Schema]]] = {
    VERSION_HEADER: ("Need not be said.", {"type": "string", "enum": ["0.3"]}),
    OLD_EXTENSIONS_HEADER: ("URIs of the extensions to activate, with commas between them.", {"type": "string"}),
}
_CARD: Final[Schema] = {
    "type": "object",
    "required": ["protocolVersion", "name", "url", "preferredTransport", "skills"],
    "properties": {"protocolVersion": {"type": "string"}, "url": {"type": "string"}},
}
_CODES: Final = "1.0.0"


class OldRoutes:
    """Adds the routes of a table to a document."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __call__(self, described: dict[str, Any], schemas: Schemas) -> None:
        responses, paths = described["components"]["responses"], described["paths"]
        for status in _statuses():
            responses.setdefault(str(status.value), refusal_with(status))
        _add_card(paths)
        kind = KindSchemas(schemas)
        for name, route in _named(self._table):
            path = path_of(route, schemas)
            operation = _operation(route, path.parameters, schemas, kind)
            paths.setdefault(path.text, {})[route.verb.lower()] = {"operationId": name, **operation}


def _add_card(paths: dict[str, Any]) -> None:
    """Say that the public card has a form of 0.3, too."""
    _, told, version = PARAMETERS[VERSION_HEADER]
    either = {
        "name": VERSION_HEADER,
        "in": "header",
        "description": told,
        "schema": {**version, "enum": ["1.0", "0.3"]},
    }
    for item in paths.values():
        for operation in item.values():
            if "304" in operation.get("responses", ()):  # nothing else is for caches
                named = [it for it in operation["parameters"] if it not in referred(VERSION_HEADER)]
                operation["parameters"] = [*named, either]
                media = operation["responses"]["200"]["content"][JSON]
                media["schema"] = {"anyOf": [media["schema"], _CARD]}


def _statuses() -> set[HTTPStatus]:
    return {HTTPStatus(reason.http(_CODES)) for reason in Reason}


def _named(table: Table) -> Iterator[tuple[str, Route]]:
    seen: dict[str, int] = {}
    for route in table.routes:
        name = f"V0_3_{route.method.name}"
        seen[name] = seen.get(name, 0) + 1
        yield f"{name}{seen[name]}" if seen[name] > 1 else name, route


def _operation(route: Route, in_path: list[dict[str, Any]], schemas: Schemas, kind: KindSchemas) -> dict[str, Any]:
    queried = [
        {name: value for name, value in parameter.items() if name != "required"}
        for parameter in query_of(route, schemas)
        if parameter["name"] != _TENANT
    ]
    headers = [
        {"name": name, "in": "header", "description": told, "schema": it} for name, (told, it) in _HEADERS.items()
    ]
    answer = _answers(route, schemas, kind)
    operation: dict[str, Any] = {
        "tags": [_TAG],
        "summary": route.method.name,
        "parameters": [*in_path, *queried, *headers, *referred(*(CURSORS if resumes(route.method) else ()))],
        "responses": {
            "200": {
                "description": "OK",
                "content": stream_of(answer) if route.method.server_streaming else _json(answer),
            },
            **{str(status.value): {"$ref": f"#/components/responses/{status.value}"} for status in _statuses()},
        },
    }
    if route.body:
        operation["requestBody"] = _body(route, schemas, kind)
    return operation


def _body(route: Route, schemas: Schemas, kind: KindSchemas) -> dict[str, Any]:
    if route.method.input_type.name == "SendMessageRequest":
        both = _both(pb.SendMessageRequest, v03.SendMessageRequest, schemas, kind)
        return {"required": True, "content": _json(both)}
    if route.body == "*":
        schema = {"type": "object", "properties": {"name": {"type": "string"}, "metadata": {"type": "object"}}}
        return {"required": False, "content": _json(schema)}
    wrapped = schemas.of_message(descriptor_of(v03.CreateTaskPushNotificationConfigRequest))
    config = [_config(schemas, kind), wrapped]
    return {"required": True, "content": _json({"anyOf": config})}


def _answers(route: Route, schemas: Schemas, kind: KindSchemas) -> Schema:
    answer = route.method.output_type
    if answer.name == "ListTasksResponse":
        return {"type": "array", "items": _both(pb.Task, v03.Task, schemas, kind)}
    if answer.name == "ListTaskPushNotificationConfigResponse":
        configs = {"type": "array", "items": _config(schemas, kind)}
        return {"type": "object", "properties": {"configs": configs, "nextPageToken": {"type": "string"}}}
    if answer.name == "TaskPushNotificationConfig":
        return _config(schemas, kind)
    if answer.name == "AgentCard":
        return dict(_CARD)
    if answer.name == "Empty":
        return {"type": "object"}
    return _both(getattr(pb, answer.name), getattr(v03, answer.name), schemas, kind)


def _both(new: type[Message], old: type[Message], schemas: Schemas, kind: KindSchemas) -> Schema:
    return {"anyOf": [kind.of(descriptor_of(new)), schemas.of_message(descriptor_of(old))]}


def _config(schemas: Schemas, kind: KindSchemas) -> Schema:
    return _both(pb.TaskPushNotificationConfig, v03.TaskPushNotificationConfig, schemas, kind)


def _json(schema: Schema) -> dict[str, Any]:
    return {JSON: {"schema": schema}}
