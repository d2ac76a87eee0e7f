"""What JSON should be written: json_format's, with what the specification demands on top (JSON-08, JSON-09)."""

import math
from typing import Any, cast

from google.api.field_behavior_pb2 import REQUIRED, field_behavior
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tests.unit.protocol.codec.strategies import OWN_FORM, entry_of


def written(message: Any) -> Any:
    kind, found = message.DESCRIPTOR, cast("Any", MessageToDict(message))
    if kind.full_name == "google.protobuf.Any" and message.type_url:
        return _any(message)
    if kind.full_name == "google.protobuf.Timestamp":
        whole, _, fraction = found.removesuffix("Z").partition(".")
        return f"{whole}.{fraction[:3] or '000'}Z"
    if has_own_form(message):
        return found
    for field in kind.fields:
        _complete(message, field, found)
    return found


def has_own_form(message: Message) -> bool:
    kind = message.DESCRIPTOR
    return kind.file.package == "google.protobuf" and (kind.name in OWN_FORM or kind.name.endswith("Value"))


def _any(message: Any) -> Any:
    name = message.type_url.split("/")[-1]
    inner = GetMessageClass(message.DESCRIPTOR.file.pool.FindMessageTypeByName(name))()
    message.Unpack(inner)
    return {"@type": message.type_url, **({"value": written(inner)} if has_own_form(inner) else written(inner))}


def _complete(message: Any, field: FieldDescriptor, found: dict[str, Any]) -> None:
    name, content = field.json_name, getattr(message, field.name)
    if entry := entry_of(field):
        if entry[1].message_type and content:
            found[name] = {str(key): written(content[key]) for key in content}
            if entry[0].type == FieldDescriptor.TYPE_BOOL:
                found[name] = {key.lower(): value for key, value in found[name].items()}
    elif field.message_type and field.is_repeated:
        if content:
            found[name] = [written(item) for item in content]
    elif field.message_type and message.HasField(field.name):
        found[name] = written(content)
    if name not in found and REQUIRED in field.GetOptions().Extensions[field_behavior]:
        _default(field, content, found)


def _default(field: FieldDescriptor, content: Any, found: dict[str, Any]) -> None:
    if field.has_presence and not field.message_type:
        return
    if field.is_repeated:
        found[field.json_name] = {} if entry_of(field) else []
    elif field.enum_type:
        found[field.json_name] = field.enum_type.values_by_number[0].name
    elif isinstance(content, Message):
        if content.DESCRIPTOR.name not in {"Loop", "Timestamp", "Value"}:
            found[field.json_name] = written(content)
    elif field.cpp_type in {FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64}:
        found[field.json_name] = "0"
    else:
        found[field.json_name] = "" if isinstance(content, bytes) else content


def canonical(value: Any) -> Any:
    """Equal for equal JSON: 1 and 1.0 are, 1 and true are not, 0 and -0 are not."""
    if isinstance(value, dict):
        return {key: canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number", float(value), math.copysign(1, value)
    return value
