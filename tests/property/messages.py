"""Arbitrary messages of any type, sound and unsound, made from descriptors."""

from typing import Any, TypeVar, cast

from google.protobuf import struct_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

NAMES = st.one_of(
    st.sampled_from(["", "a", "task-1", "text/plain", "https://x.example/", "a\0b", "ü" * 300]), st.text()
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def struct(fields: dict[str, Any]) -> struct_pb2.Struct:
    return ParseDict(fields, struct_pb2.Struct())


STRUCTS = st.dictionaries(st.text(max_size=5), JSON, max_size=3).map(struct)
VALUES = st.just(struct_pb2.Value()) | JSON.map(lambda content: ParseDict(content, struct_pb2.Value()))

SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: NAMES,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=5),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1) | st.integers(-1, 101),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_ENUM: st.integers(0, 9) | st.integers(-(2**31), 2**31 - 1),
}


M = TypeVar("M", bound=Message)


def messages(kind: type[M]) -> st.SearchStrategy[M]:
    return _of(cast("Descriptor", kind.DESCRIPTOR))


def _of(kind: Descriptor) -> st.SearchStrategy[Any]:
    if kind.full_name == "google.protobuf.Struct":
        return STRUCTS
    if kind.full_name == "google.protobuf.Value":
        return VALUES
    fields = {field.name: _field(field) for field in kind.fields}
    return st.fixed_dictionaries({}, optional=fields).map(lambda members: GetMessageClass(kind)(**members))


def _field(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.message_type and field.message_type.GetOptions().map_entry:
        return st.dictionaries(st.text(max_size=5), _single(field.message_type.fields_by_name["value"]), max_size=2)
    return st.lists(_single(field), max_size=3) if field.is_repeated else _single(field)


def _single(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    kind = field.message_type
    return st.deferred(lambda: _of(kind)) if kind else SCALARS[field.type]
