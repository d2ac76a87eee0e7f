"""Makes JSON Schemas for the ProtoJSON of message types (spec: JSON, DOOR-03)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor

from a2a_gateway.routing.url_fields import is_map, is_well_known
from a2a_server.protocol.codec.dialect import is_required

Schema = dict[str, Any]

REAL_WORDS: Final = ["NaN", "Infinity", "-Infinity"]

_REAL: Final[Schema] = {"anyOf": [{"type": "number"}, {"type": "string", "enum": REAL_WORDS}]}
_SCALARS: Final[Mapping[int, Schema]] = MappingProxyType(
    {
        FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
        FieldDescriptor.CPPTYPE_DOUBLE: _REAL,
        FieldDescriptor.CPPTYPE_FLOAT: _REAL,
        FieldDescriptor.CPPTYPE_INT32: {
            "type": "integer",
            "format": "int32",
            "minimum": -(2**31),
            "maximum": 2**31 - 1,
        },
        FieldDescriptor.CPPTYPE_UINT32: {"type": "integer", "format": "uint32", "minimum": 0, "maximum": 2**32 - 1},
        # A JavaScript number cannot hold 64 bits, so ProtoJSON writes them in quotes.
        FieldDescriptor.CPPTYPE_INT64: {"type": "string", "format": "int64", "pattern": "^-?[0-9]{1,19}$"},
        FieldDescriptor.CPPTYPE_UINT64: {"type": "string", "format": "uint64", "pattern": "^[0-9]{1,20}$"},
        FieldDescriptor.CPPTYPE_STRING: {"type": "string"},
    }
)
_WELL_KNOWN: Final[Mapping[str, Schema]] = MappingProxyType(
    {
        "Any": {"type": "object", "properties": {"@type": {"type": "string"}}},
        "Duration": {"type": "string", "pattern": r"^-?[0-9]{1,12}(\.[0-9]{1,9})?s$"},
        "Empty": {"type": "object"},
        "FieldMask": {"type": "string"},
        "ListValue": {"type": "array"},
        "Struct": {"type": "object"},
        "Timestamp": {"type": "string", "format": "date-time"},
        "Value": {},
    }
)


class Schemas:
    """Collects the schemas of all types that a document refers to."""

    def __init__(self, **fixed: Schema) -> None:
        self.components: dict[str, Schema] = fixed
        self._names: dict[str, str] = {}

    def of_field(self, field: FieldDescriptor) -> Schema:
        if is_map(field) and field.message_type is not None:
            value = field.message_type.fields_by_name["value"]
            return {"type": "object", "additionalProperties": self._of_value(value)}
        schema = self._of_value(field)
        return {"type": "array", "items": schema} if field.is_repeated else schema

    def _of_value(self, field: FieldDescriptor) -> Schema:
        if (kind := field.message_type) is not None:
            return self.of_message(kind)
        if (enum := field.enum_type) is not None:
            return self.of_enum(enum)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return {"type": "string", "contentEncoding": "base64"}
        return dict(_SCALARS[field.cpp_type])

    def of_message(self, kind: Descriptor) -> Schema:
        if is_well_known(kind):
            known = _WELL_KNOWN.get(kind.name)
            return self._of_value(kind.fields_by_name["value"]) if known is None else dict(known)
        return self.component(self._name(kind), lambda: self.of_members(kind))

    def of_enum(self, enum: EnumDescriptor) -> Schema:
        if enum.full_name == "google.protobuf.NullValue":
            return {"type": "null"}
        return self.component(self._name(enum), lambda: {"type": "string", "enum": [it.name for it in enum.values]})

    def _name(self, kind: Descriptor | EnumDescriptor) -> str:
        short = kind.full_name.removeprefix(f"{kind.file.package}.")
        return self._names.setdefault(kind.full_name, kind.full_name if short in self.components else short)

    def component(self, name: str, schema: Callable[[], Schema]) -> Schema:
        """Return a reference to a component, which is added if it is new."""
        if name not in self.components:
            self.components[name] = {}  # before its content is made, because types can be recursive
            self.components[name].update(schema())
        return {"$ref": f"#/components/schemas/{name}"}

    def of_members(self, kind: Descriptor, optional: Collection[str] = ()) -> Schema:
        """Return an object with the members of a type; `optional` names required members that may be left out."""
        schema: Schema = {"type": "object", "properties": {it.json_name: self._of_member(it) for it in kind.fields}}
        if required := [it.json_name for it in kind.fields if is_required(it) and it.name not in optional]:
            schema["required"] = required
        if choices := [_choice(oneof) for oneof in kind.oneofs if len(oneof.fields) > 1]:
            schema["allOf"] = choices
        return schema

    def _of_member(self, field: FieldDescriptor) -> Schema:
        schema = self.of_field(field)
        return {**schema, "deprecated": True} if field.GetOptions().deprecated else schema


def _choice(oneof: OneofDescriptor) -> Schema:
    """Allow at most one of the members."""
    members: list[Schema] = [{"required": [field.json_name]} for field in oneof.fields]
    return {"oneOf": [*members, {"not": {"anyOf": members}}]}
