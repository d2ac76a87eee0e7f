"""Adds the REST routes of 0.3 to the OpenAPI document, with bodies in both spellings (spec: DOOR-03, LRES-05)."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor
from google.protobuf.message import Message

from a2a_gateway.openapi.operations import (
    CURSORS,
    PARAMETERS,
    error_response,
    named_operations,
    parameter,
    references,
    resumes,
    stream_content,
)
from a2a_gateway.openapi.parameters import path_of, query_of
from a2a_gateway.openapi.schemas import Schema, Schemas
from a2a_gateway.routing.annotations import Route
from a2a_gateway.routing.table import Table
from a2a_gateway.routing.url_fields import is_well_known
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec.dialect import descriptor_of
from a2a_server.protocol.errors import Reason
from a2a_server.protocol.names import EXTENSIONS_HEADER, JSON, OLD_EXTENSIONS_HEADER, VERSION_HEADER
from a2a_server.protocol.spellings import KEBAB_STATES, OLD_STATE
from a2a_server.protocol.v0_3.json import KIND_MEMBER, KINDS, is_always_written

_TAG: Final = "A2A 0.3"
_TEXT: Final[Schema] = {"type": "string"}
_OBJECT: Final[Schema] = {"type": "object"}
_HEADERS: Final = (
    parameter(VERSION_HEADER, "header", "Need not be said.", {"type": "string", "enum": ["0.3"]}),
    {**PARAMETERS[EXTENSIONS_HEADER], "name": OLD_EXTENSIONS_HEADER},
)
_CARD: Final[Schema] = {
    "type": "object",
    "required": ["protocolVersion", "name", "url", "preferredTransport", "skills"],
    "properties": {"protocolVersion": _TEXT, "url": _TEXT},
}
_CODES: Final = "1.0.0"


@dataclass(frozen=True, slots=True)
class OldRoutes:
    """Adds the routes of a table to a document."""

    table: Table

    def __call__(self, described: dict[str, Any], schemas: Schemas) -> None:
        responses, paths = described["components"]["responses"], described["paths"]
        for status in _statuses():
            responses.setdefault(str(status.value), error_response(status))
        _add_card(paths)
        kind = KindSchemas(schemas)
        for name, route in named_operations(self.table, "V0_3"):
            path = path_of(route, schemas)
            operation = _operation(route, path.parameters, schemas, kind)
            paths.setdefault(path.text, {})[route.verb.lower()] = {"operationId": name, **operation}


def _add_card(paths: dict[str, Any]) -> None:
    """Add the form of 0.3 to the public card."""
    either = {**PARAMETERS[VERSION_HEADER], "schema": {"type": "string", "enum": ["1.0", "0.3"]}}
    for item in paths.values():
        for operation in item.values():
            if "304" in operation.get("responses", ()):  # only the card can be cached
                named = [it for it in operation["parameters"] if it not in references(VERSION_HEADER)]
                operation["parameters"] = [*named, either]
                media = operation["responses"]["200"]["content"][JSON]
                media["schema"] = {"anyOf": [media["schema"], _CARD]}


def _statuses() -> set[HTTPStatus]:
    return {HTTPStatus(reason.http(_CODES)) for reason in Reason}


def _operation(route: Route, in_path: list[dict[str, Any]], schemas: Schemas, kind: KindSchemas) -> dict[str, Any]:
    queried = [
        {name: value for name, value in parameter.items() if name != "required"}
        for parameter in query_of(route, schemas)
        if parameter["name"] != "tenant"
    ]
    answer = _answers(route, schemas, kind)
    content = stream_content(answer) if route.method.server_streaming else _json(answer)
    refused = {str(status.value): {"$ref": f"#/components/responses/{status.value}"} for status in _statuses()}
    operation: dict[str, Any] = {
        "tags": [_TAG],
        "summary": route.method.name,
        "parameters": [*in_path, *queried, *_HEADERS, *references(*(CURSORS if resumes(route.method) else ()))],
        "responses": {"200": {"description": "OK", "content": content}, **refused},
    }
    if route.body:
        operation["requestBody"] = _body(route, schemas, kind)
    return operation


def _body(route: Route, schemas: Schemas, kind: KindSchemas) -> dict[str, Any]:
    if route.method.input_type.name == "SendMessageRequest":
        return {"required": True, "content": _json(_both(v03.SendMessageRequest, schemas, kind))}
    if route.body == "*":
        schema = {"type": "object", "properties": {"name": _TEXT, "metadata": _OBJECT}}
        return {"required": False, "content": _json(schema)}
    wrapped = schemas.of_message(descriptor_of(v03.CreateTaskPushNotificationConfigRequest))
    config = [_config(schemas, kind), wrapped]
    return {"required": True, "content": _json({"anyOf": config})}


def _answers(route: Route, schemas: Schemas, kind: KindSchemas) -> Schema:
    answer = route.method.output_type
    if answer.name == "ListTasksResponse":
        return {"type": "array", "items": _both(v03.Task, schemas, kind)}
    if answer.name == "ListTaskPushNotificationConfigResponse":
        configs = {"type": "array", "items": _config(schemas, kind)}
        return {"type": "object", "properties": {"configs": configs, "nextPageToken": _TEXT}}
    if answer.name == "AgentCard":
        return _CARD
    if answer.name == "Empty":
        return _OBJECT
    return _both(getattr(v03, answer.name), schemas, kind)


def _both(old: type[Message], schemas: Schemas, kind: KindSchemas) -> Schema:
    return {"anyOf": [kind.of_message(descriptor_of(old)), schemas.of_message(descriptor_of(old))]}


def _config(schemas: Schemas, kind: KindSchemas) -> Schema:
    return _both(v03.TaskPushNotificationConfig, schemas, kind)


def _json(schema: Schema) -> dict[str, Any]:
    return {JSON: {"schema": schema}}


# -- types in the JSON schema of 0.3


def _part_schema(kind: str, content: Schema) -> Schema:
    properties = {"kind": {"const": kind}, kind: content, "metadata": _OBJECT}
    return {"type": "object", "required": ["kind", kind], "properties": properties}


_FILE: Final[Schema] = {
    "type": "object",
    "properties": {
        "bytes": {"type": "string", "contentEncoding": "base64"},
        **dict.fromkeys(("uri", "name", "mimeType"), _TEXT),
    },
    "oneOf": [{"required": ["bytes"]}, {"required": ["uri"]}],
}
_PART: Final[Schema] = {
    "oneOf": [_part_schema("text", _TEXT), _part_schema("file", _FILE), _part_schema("data", _OBJECT)]
}
"""The only type whose JSON is not an object of its fields."""


class KindSchemas(Schemas):
    """Adds the types of 0.3 to a document, under the prefix `v0_3`."""

    def __init__(self, schemas: Schemas) -> None:
        super().__init__()
        self.components = schemas.components

    def of_message(self, kind: Descriptor) -> Schema:
        if is_well_known(kind):
            return super().of_message(kind)
        return self.component(f"v0_3.{kind.name}", lambda: _PART if kind.name == "Part" else self._members(kind))

    def _members(self, kind: Descriptor) -> Schema:
        fields = {KIND_MEMBER(field): field for field in kind.fields}
        properties: dict[str, Any] = {name: self.of_field(field) for name, field in fields.items()}
        required = [name for name, field in fields.items() if is_always_written(field)]
        if kind.name == "TaskPushNotificationConfig":
            properties = {"taskId": _TEXT, **{name: of for name, of in properties.items() if name != "name"}}
            required = ["pushNotificationConfig"]
        elif kind.name == "Message":
            properties |= {"referenceTaskIds": {"type": "array", "items": _TEXT}}
        if constant := KINDS.get(kind.full_name):
            properties, required = {"kind": {"const": constant["kind"]}, **properties}, ["kind", *required]
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def of_enum(self, enum: EnumDescriptor) -> Schema:
        if enum.full_name == OLD_STATE:
            return {"type": "string", "enum": [KEBAB_STATES.written(number) for number in v03.TaskState.values()]}
        return {"type": "string", "enum": ["user", "agent", "unspecified"]}
