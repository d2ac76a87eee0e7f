"""What would be right, in words, for every kind of field (spec: JSON-13)."""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from a2a_server.protocol.codec import times
from a2a_server.protocol.codec.schema import Dialect

_PLAIN: Final = Dialect()
_NUMBERS: Final = {
    FieldDescriptor.CPPTYPE_INT32: f"a whole number from {-(2**31)} to {2**31 - 1}",
    FieldDescriptor.CPPTYPE_INT64: f"a whole number from {-(2**63)} to {2**63 - 1}",
    FieldDescriptor.CPPTYPE_UINT32: f"a whole number from 0 to {2**32 - 1}",
    FieldDescriptor.CPPTYPE_UINT64: f"a whole number from 0 to {2**64 - 1}",
    FieldDescriptor.CPPTYPE_DOUBLE: "a number",
    FieldDescriptor.CPPTYPE_FLOAT: "a number of single precision",
    FieldDescriptor.CPPTYPE_BOOL: "true or false",
}
_WELL_KNOWN: Final = {
    "google.protobuf.Timestamp": times.EXPECTED,
    "google.protobuf.Duration": 'a duration such as "1.5s"',
    "google.protobuf.FieldMask": 'names such as "user.displayName,photo"',
    "google.protobuf.ListValue": "a list",
    "google.protobuf.Value": "a JSON value",
}


def expected(field: FieldDescriptor, dialect: Dialect = _PLAIN) -> str:
    """One value of the field."""
    if (form := dialect.forms.get(field.full_name)) and form.expected:
        return form.expected
    if kind := field.message_type:
        return expected_message(kind, dialect)
    if enum := field.enum_type:
        own = dialect.enums.get(enum.full_name)
        return own.expected if own else _enum(enum)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return "base64"
    return _NUMBERS.get(field.cpp_type, "a string")


def expected_message(kind: Descriptor, dialect: Dialect = _PLAIN) -> str:
    if (form := dialect.forms.get(kind.full_name)) and form.expected:
        return form.expected
    if kind.file.name == "google/protobuf/wrappers.proto":
        return expected(kind.fields_by_name["value"])
    return _WELL_KNOWN.get(kind.full_name, "an object")


def _enum(enum: EnumDescriptor) -> str:
    # Zero is the unspecified value: it may be sent and means absence.
    names = [value.name for value in enum.values if value.number or len(enum.values) == 1]
    return f"one of {', '.join(names)}" if len(names) > 1 else names[0]
