"""Reads and writes messages, parts and answers in 0.3's JSON schema (LRPC-02, -03, -04, -08, LRES-08, CONF-56).

Parts are told apart by `kind`, data needs no wrapper, and messages have a member for references to other tasks.
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Mapping
from typing import Final

from google.protobuf import struct_pb2
from google.protobuf.message import Message

from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec.compiler import Compiler, Function, has, which_of
from a2a_server.protocol.codec.dialect import Form, descriptor_of
from a2a_server.protocol.codec.faults import WRONG, Faults, complain, elements, faults_in, note
from a2a_server.protocol.codec.scalars import octets
from a2a_server.protocol.codec.wellknown import read_struct, read_value, write_struct
from a2a_server.protocol.v0_3 import extras
from a2a_server.protocol.v0_3.configs import JsonObject
from a2a_server.protocol.v0_3.messages import put_references, take_references
from a2a_server.protocol.v0_3.parts import VALUE, wrap_bare
from a2a_server.protocol.v0_3.resource_names import text_of

_PART: Final = descriptor_of(v03.Part)
_MESSAGE: Final = descriptor_of(v03.Message)
_EXPECTED: Final[Mapping[str, str]] = {"text": "a string", "file": "an object", "data": "an object"}
_CONTENTS: Final = tuple(_EXPECTED)
"""The members of which a part has one, and the values of its `kind`."""
_PLAIN: Final = "kind", "text"
"""The members of nearly all parts."""
_REFERENCES: Final = "referenceTaskIds"


# -- parts


def _part_writer(writers: Compiler) -> Function:
    plain = writers.plain(_PART)

    def write(part: v03.Part) -> JsonObject:
        kind = which_of(part, "part")
        if kind is None:  # or no content at all, of which nothing else could be said
            return {"kind": "text", "text": "", **plain(part)}
        return {"kind": kind, **plain(part)}

    return write


def _part_reader(readers: Compiler) -> Function:
    plain = readers.plain(_PART)

    def read(value: object, part: v03.Part) -> None:
        if type(value) is not dict:
            raise TypeError
        kind = value.get("kind")
        if kind == "text" and len(value) == len(_PLAIN) and (text := value.get("text")) is not None:
            _read_text(text, part)
            return
        if type(kind) is str and kind in extras.KINDS:
            extras.read_tool_part(value, part)
            return
        faults = faults_in(plain, value, part)
        is_null = kind in (None, "data") and "data" in value and not any(value.get(it) is not None for it in _CONTENTS)
        if not is_null and kind is not None and not (kind in _CONTENTS and value.get(kind) is not None):
            faults = _wrong_kind(kind, value, faults)
        if faults:
            raise faults
        if is_null or part.HasField("data"):
            wrap_bare(part, value)

    return read


def _read_text(text: str, part: v03.Part) -> None:
    try:
        part.text = text
    except WRONG as error:
        raise note(None, ".text", _EXPECTED["text"], text, error) from None


def _wrong_kind(kind: object, value: JsonObject, faults: Faults | None) -> Faults:
    if given := [name for name in _CONTENTS if value.get(name) is not None]:
        return complain(faults, ".kind", json.dumps(given[0]), kind)
    if type(kind) is str and kind in _CONTENTS:
        return complain(faults, f".{kind}", _EXPECTED[kind], None)
    return complain(faults, ".kind", f"one of {', '.join(map(json.dumps, _CONTENTS))}", kind)


def _tool_part_writer(writers: Compiler) -> Function:
    write = _part_writer(writers)

    def write_original(part: v03.Part) -> JsonObject:
        return extras.original_part(write(part)) if part.HasField("data") else write(part)

    return write_original


def _read_data(value: object, data: v03.DataPart) -> None:
    _read_any(value, data.data)


def _read_any(value: object, data: struct_pb2.Struct) -> None:
    """Read an object, or any other value as it is when it has been wrapped; `wrap_bare` says so."""
    if type(value) is dict:
        read_struct(value, data)
    else:
        read_value(value, data.fields[VALUE])


def _write_data(data: v03.DataPart) -> JsonObject:
    return write_struct(data.data)


def _bytes_as_text(value: object) -> bytes:
    return b2a_base64(octets(value), newline=False)


PARTS: Final[Mapping[str, Form]] = {
    "a2a.v1.Part": Form(_part_writer, _part_reader),
    "a2a.v1.DataPart": Form(lambda _: _write_data, lambda _: _read_data),
    # 0.3's bytes field holds base64 text, which is what JSON has.
    "a2a.v1.FilePart.file_with_bytes": Form(lambda _: bytes.decode, lambda _: _bytes_as_text),
}


def _nested_reader(readers: Compiler) -> Function:
    plain = readers.plain(_PART)

    def read(value: object, part: v03.Part) -> None:
        plain(value, part)
        if part.HasField("data"):
            assert type(value) is dict  # noqa: S101 - or plain had raised something else
            wrap_bare(part, value["data"])

    return read


NESTED: Final[Mapping[str, Form]] = {
    "a2a.v1.Part": Form(None, _nested_reader),
    "a2a.v1.DataPart.data": Form(None, lambda _: _read_any),
}
"""Parts of the proto's spelling and the draft's, where data stands in a member of data."""
TOOL_PARTS: Final = PARTS["a2a.v1.Part"]._replace(write=_tool_part_writer)
"""For clients that use parts of tools. Others see marked data."""


# -- messages


def _message_writer(writers: Compiler) -> Function:
    plain = writers.plain(_MESSAGE)

    def write(message: v03.Message) -> JsonObject:
        if not (has(message, "metadata") and (task_ids := take_references(message.metadata))):
            return plain(message)  # type: ignore[no-any-return]
        if not message.metadata.fields:  # all of it was ours
            message.ClearField("metadata")
        return {**plain(message), _REFERENCES: task_ids}

    return write


def _message_reader(readers: Compiler) -> Function:
    plain = readers.plain(_MESSAGE)

    def read(value: object, message: v03.Message) -> None:
        if type(value) is not dict or (ids := value.get(_REFERENCES, value.get("reference_task_ids"))) is None:
            plain(value, message)
            return
        faults = faults_in(plain, value, message)
        if faults := elements(faults, f".{_REFERENCES}", ids, text_of, "a string"):
            raise faults
        if ids:
            put_references(message.metadata, ids)

    def read_message(value: object, message: v03.Message) -> None:
        if type(value) is dict and value.get(extras.MEMBER) is not None:
            extras.read_input_request(value, message, read)
        else:
            read(value, message)

    return read_message


MESSAGE: Final[Form] = Form(_message_writer, _message_reader)
WITH_INPUT_REQUESTS: Final = MESSAGE._replace(write=lambda writers: extras.writer(_message_writer(writers)))
"""For clients that use input requests. Others see an extension in metadata."""


def blocking_form(kind: type[Message], field: str) -> Form:
    """A configuration of which this field is true unless it says `blocking` (CONF-08)."""

    def reader(readers: Compiler) -> Function:
        plain = readers.plain(descriptor_of(kind))

        def read(value: object, configuration: Message) -> None:
            plain(value, configuration)
            if type(value) is dict and value.get("blocking") is None:
                setattr(configuration, field, True)

        return read

    return Form(None, reader)


# -- answers that are no objects of their fields


def bare(wrapper: type[Message]) -> Form:
    """What the wrapper's one member holds, without the wrapper."""

    def writer(writers: Compiler) -> Function:
        fields = descriptor_of(wrapper).oneofs_by_name["payload"].fields
        functions = {field.name: writers.of(field.message_type) for field in fields if field.message_type}

        def write(message: Message) -> JsonObject:
            which = which_of(message, "payload")
            return functions[which](getattr(message, which)) if which else {}

        return write

    return Form(writer)


def listed(wrapper: type[Message], name: str) -> Form:
    """The list that is the wrapper's one member of interest, without the wrapper."""

    def writer(writers: Compiler) -> Function:
        kind = descriptor_of(wrapper).fields_by_name[name].message_type
        assert kind is not None  # noqa: S101 - lists of messages are meant
        one = writers.of(kind)
        return lambda message: [*map(one, getattr(message, name))]

    return Form(writer)


def _write_null(_: object) -> None:
    pass


NULL: Final[Form] = Form(lambda _: _write_null)
