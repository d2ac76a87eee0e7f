"""Types of 1.0 as JSON Schemas of what 0.3's schema spelling makes of them (spec: DOOR-03, LRPC-03; wire-0.3, 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from a2a_gateway.openapi.schemas import Schema, Schemas
from a2a_gateway.routing.url_fields import is_well_known
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.dialects import members
from a2a_server.protocol.dialects.enums import KEBAB_STATES, STATE

_PREFIX: Final = "v0_3."
_KINDS: Final = {
    "Task": "task",
    "Message": "message",
    "TaskStatusUpdateEvent": "status-update",
    "TaskArtifactUpdateEvent": "artifact-update",
}
_TEXT: Final[Schema] = {"type": "string"}
_OBJECT: Final[Schema] = {"type": "object"}


def _closed(kind: str, member: str, content: Schema) -> Schema:
    properties = {"kind": {"const": kind}, member: content, "metadata": _OBJECT}
    return {"type": "object", "required": ["kind", member], "properties": properties}


_FILE: Final[Schema] = {
    "type": "object",
    "properties": {
        "bytes": {"type": "string", "contentEncoding": "base64"},
        **dict.fromkeys(("uri", "name", "mimeType"), _TEXT),
    },
    "oneOf": [{"required": ["bytes"]}, {"required": ["uri"]}],
}
_CONFIG: Final[Schema] = {
    "type": "object",
    "required": ["url"],
    "properties": {
        **dict.fromkeys(("id", "url", "token"), _TEXT),
        "authentication": {
            "type": "object",
            "properties": {"schemes": {"type": "array", "items": _TEXT}, "credentials": _TEXT},
        },
    },
}
_OWN: Final[Mapping[str, Schema]] = {
    "Part": {
        "oneOf": [_closed("text", "text", _TEXT), _closed("file", "file", _FILE), _closed("data", "data", _OBJECT)]
    },
    "TaskPushNotificationConfig": {
        "type": "object",
        "required": ["pushNotificationConfig"],
        "properties": {"taskId": _TEXT, "pushNotificationConfig": _CONFIG},
    },
    "SendMessageConfiguration": {
        "type": "object",
        "properties": {
            "acceptedOutputModes": {"type": "array", "items": _TEXT},
            "historyLength": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 2**31 - 1},
            "pushNotificationConfig": _CONFIG,
            "blocking": {"type": "boolean"},
        },
    },
}
"""Types that have another form than their fields."""

_member = members.member(members.NAMES)


class KindSchemas:
    """Adds types to a document, under names of their own."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    def of(self, kind: Descriptor) -> Schema:
        if is_well_known(kind):
            return self._schemas.of_message(kind)
        name = _PREFIX + kind.name
        if name not in self._schemas.components:
            self._schemas.components[name] = {}  # types may contain themselves
            self._schemas.components[name].update(_OWN.get(kind.name) or self._members(kind))
        return {"$ref": f"#/components/schemas/{name}"}

    def _members(self, kind: Descriptor) -> Schema:
        fields = {_member(field): field for field in kind.fields if _member(field)}
        properties = {name: self._field(field) for name, field in fields.items()}
        required = [name for name, field in fields.items() if members.always(field)]
        if constant := _KINDS.get(kind.name):
            properties, required = {"kind": {"const": constant}, **properties}, ["kind", *required]
        if kind.name == pb.TaskStatusUpdateEvent.DESCRIPTOR.name:
            properties["final"], required = {"type": "boolean"}, [*required, "final"]
        schema: Schema = {"type": "object", "properties": properties}
        return {**schema, "required": required} if required else schema

    def _field(self, field: FieldDescriptor) -> Schema:
        schema = self._one(field)
        return {"type": "array", "items": schema} if field.is_repeated else schema

    def _one(self, field: FieldDescriptor) -> dict[str, Any]:
        if field.message_type is not None:
            return self.of(field.message_type)
        if field.enum_type is None:
            plain = self._schemas.of_field(field)
            return dict(plain["items"]) if field.is_repeated else plain
        if field.enum_type.full_name == STATE:
            return {"type": "string", "enum": [KEBAB_STATES.written(number) for number in pb.TaskState.values()]}
        return {"type": "string", "enum": ["user", "agent", "unspecified"]}
