"""What should be read: json_format's answer, unless the specification or ProtoJSON is stricter than json_format.

More lenient are states, which are read in every spelling that any version has (CONF-26).

Stricter are: wrong types (CONF-54), two members of a oneof of which one is null as a value (JSON-04), two spellings of
one field, base64 with other letters in it (JSON-05), and numbers, enums and times that only Python takes for ones.
"""

import re
from typing import Any, TypeVar, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from tests.unit.protocol.codec.strategies import entry_of

M = TypeVar("M", bound=Message)

BASE64 = r"([A-Za-z0-9+/_-]{4})*([A-Za-z0-9+/_-]{2}(==?)?|[A-Za-z0-9+/_-]{3}=?)?"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)"
NULL_LISTS = {"manyValue", "many_value"}
"""For null in place of a list of values json_format fails with an AttributeError."""
FLOATS = {FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT}


STATE = pb.TaskState.DESCRIPTOR.full_name
STATES = {"TASK_STATE_CANCELLED": pb.TASK_STATE_CANCELED, "input-required": pb.TASK_STATE_INPUT_REQUIRED}
"""Those among what strategies draw that json_format does not know."""


class Refused(Exception):  # noqa: N818 - an answer
    pass


def reading(value: Any, kind: type[M]) -> M:
    """The message that the value means; raises `Refused`."""
    value = _respelt(value, cast("Descriptor", kind.DESCRIPTOR))
    if not _is_strict(value, cast("Descriptor", kind.DESCRIPTOR)):
        raise Refused
    present = {name: item for name, item in value.items() if item is not None or name not in NULL_LISTS}
    try:
        return ParseDict(present, kind(), ignore_unknown_fields=True)
    except (ParseError, KeyError, AttributeError, TypeError) as error:  # not all that it raises is meant to be
        raise Refused from error


def _respelt(value: Any, kind: Descriptor) -> Any:
    """The same with states as json_format reads them."""
    if not isinstance(value, dict) or kind.file.package == "google.protobuf":
        return value
    fields = {name: field for field in kind.fields for name in (field.json_name, field.name)}
    return {name: _respelt_field(item, fields[name]) if name in fields else item for name, item in value.items()}


def _respelt_field(value: Any, field: FieldDescriptor) -> Any:
    if isinstance(value, list):
        return [_respelt_field(item, field) for item in value]
    if entry := entry_of(field):
        return {k: _respelt_field(item, entry[1]) for k, item in value.items()} if isinstance(value, dict) else value
    if field.enum_type and field.enum_type.full_name == STATE and isinstance(value, str):
        return STATES.get(value, value)
    return _respelt(value, field.message_type) if field.message_type else value


def _is_strict(value: Any, kind: Descriptor) -> bool:
    if not isinstance(value, dict):
        return False
    given = [field for field in kind.fields if _given(field, value)]
    if any({field.name, field.json_name} <= value.keys() for field in kind.fields if field.name != field.json_name):
        return False
    oneofs = [oneof.name for field in given if (oneof := field.containing_oneof)]
    return len(oneofs) == len(set(oneofs)) and all(_is_strict_field(_content(field, value), field) for field in given)


def _content(field: FieldDescriptor, value: dict[str, Any]) -> Any:
    return value.get(field.json_name, value.get(field.name))


def _given(field: FieldDescriptor, value: dict[str, Any]) -> bool:
    if not {field.name, field.json_name} & value.keys():
        return False
    kind = field.message_type or field.enum_type
    nullable = kind is not None and kind.name in {"Value", "NullValue"} and not field.is_repeated
    return nullable or _content(field, value) is not None


def _is_strict_field(value: Any, field: FieldDescriptor) -> bool:
    if entry := entry_of(field):
        values = value.values() if isinstance(value, dict) else ()
        return all(_is_strict_item(item, entry[1]) for item in values)
    if field.is_repeated:
        return not isinstance(value, list) or all(_is_strict_item(item, field) for item in value)
    return _is_strict_item(value, field)


def _is_strict_item(value: Any, field: FieldDescriptor) -> bool:
    if field.message_type:
        return _is_strict_message(value, field.message_type)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return isinstance(value, str) and bool(re.fullmatch(BASE64, value))
    if field.enum_type:
        return _is_strict_enum(value, field.enum_type)
    if field.cpp_type in FLOATS:
        return not isinstance(value, bool) and value != "1e400"
    return True


def _is_strict_message(value: Any, kind: Descriptor) -> bool:
    if kind.name == "Timestamp":
        return isinstance(value, str) and bool(re.fullmatch(TIME, value))
    if kind.file.name.endswith("/wrappers.proto"):
        return _is_strict_item(value, kind.fields_by_name["value"])
    return kind.file.package == "google.protobuf" or _is_strict(value, kind)


def _is_strict_enum(value: Any, enum: EnumDescriptor) -> bool:
    if isinstance(value, str):  # unknown names are skipped with the unknown members
        is_number = bool(re.fullmatch(r"-?(0|[1-9]\d*)", value))
        return value in enum.values_by_name or (is_number and _is_int32(float(value)))
    return value is None or (type(value) in {int, float} and _is_int32(value))


def _is_int32(value: float) -> bool:
    # json_format looks numbers up by their lowest 32 bits.
    return float(value).is_integer() and -(2**31) <= value < 2**31
