"""Answers that are no objects of their fields: bare ones, lists, null (spec: LRPC-02, LRES-08, CONF-38)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from a2a_server.protocol.codec.compiler import Compiler, Function, which_of
from a2a_server.protocol.codec.faults import WRONG, complain, expected, note
from a2a_server.protocol.codec.schema import Form, descriptor_of
from a2a_server.protocol.dialects.kept import Json

_FIELDS: Final[Mapping[object, str]] = {
    "task": "task",
    "message": "message",
    "status-update": "status_update",
    "artifact-update": "artifact_update",
}
"""Members of 1.0's wrappers, by the `kind` of what they hold."""


def bare(wrapper: type[Message]) -> Form:
    """What the wrapper's one member holds, without the wrapper."""
    fields = descriptor_of(wrapper).fields_by_name
    inside = {kind: fields[name] for kind, name in _FIELDS.items() if name in fields}

    def writer(writers: Compiler) -> Function:
        functions = {field.name: writers.of(_type(field)) for field in inside.values()}

        def write(message: Message) -> Json:
            which = which_of(message, "payload")
            return functions[which](getattr(message, which)) if which else {}

        return write

    def reader(readers: Compiler) -> Function:
        functions = {kind: readers.of(_type(field)) for kind, field in inside.items()}

        def read(value: object, message: Message) -> None:
            if type(value) is not dict:
                raise TypeError
            if (kind := _kind_of(value)) in functions:
                held = getattr(message, _FIELDS[kind])
                held.SetInParent()
                functions[kind](value, held)
            elif value:
                raise complain(None, ".kind", f"one of {', '.join(map(json.dumps, functions))}", value.get("kind"))

        return read

    return Form(writer, reader)


def _kind_of(value: Json) -> str:
    """Look at what is there if it does not say; "" = nobody could tell."""
    kind = value.get("kind")
    if kind is not None:
        return kind if type(kind) is str else ""
    if "artifact" in value:
        return "artifact-update"
    if "status" in value:
        return "task" if "id" in value else "status-update"
    return "message" if not {"role", "parts", "messageId", "message_id"}.isdisjoint(value) else ""


def listed(wrapper: type[Message], name: str) -> Form:
    """The list that is the wrapper's one member of interest, without the wrapper."""
    field = descriptor_of(wrapper).fields_by_name[name]

    def writer(writers: Compiler) -> Function:
        one = writers.of(_type(field))
        return lambda message: [*map(one, getattr(message, name))]

    def reader(readers: Compiler) -> Function:
        one = readers.of(_type(field))

        def read(value: object, message: Message) -> None:
            if type(value) is not list:
                raise TypeError
            add, faults = getattr(message, name).add, None
            for index, item in enumerate(value):
                try:
                    one(item, add())
                except WRONG as error:
                    faults = note(faults, f"[{index}]", expected(field), item, error)
            if faults:
                raise faults

        return read

    return Form(writer, reader, "a list")


def _type(field: FieldDescriptor) -> Descriptor:
    return cast("Descriptor", field.message_type)


def _write_null(_: Empty) -> None:
    """Say that it is done."""


def _read_null(value: object, _: Empty) -> None:
    if value is not None:
        raise TypeError


NULL: Final[Form] = Form(lambda _: _write_null, lambda _: _read_null, "null")
