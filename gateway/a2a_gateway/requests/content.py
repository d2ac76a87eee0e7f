"""What a REST route answers with: the whole message, or the one field its annotation names (spec: REST-06)."""

from __future__ import annotations

import orjson
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from a2a_gateway.routing.annotations import Route
from a2a_gateway.routing.parameters import is_map
from a2a_server.protocol.codec import Codec

_QUOTED = frozenset({FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64})


def content_of(route: Route, message: Message, codec: Codec) -> bytes:
    """Return the JSON text of an answer."""
    if not route.response_body:
        return codec.encode(message)
    field = route.method.output_type.fields_by_name[route.response_body]
    if isinstance(value := getattr(message, field.name), Message):
        return codec.encode(value)
    members = orjson.loads(codec.encode(message))
    return orjson.dumps(members[field.json_name] if field.json_name in members else _default(field))


def _default(field: FieldDescriptor) -> object:
    """What ProtoJSON leaves out of an object; alone it has to be said."""
    if field.is_repeated:
        return {} if is_map(field) else []
    if field.enum_type is not None:
        return field.enum_type.values_by_number[0].name
    if field.type == FieldDescriptor.TYPE_BYTES:
        return ""
    return "0" if field.cpp_type in _QUOTED else field.default_value
