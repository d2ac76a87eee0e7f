"""Parts from Python values and back: the only place where JSON meets protobuf's Struct (spec: EXEC-05, SEND-14)."""

from __future__ import annotations

import math
import mimetypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import InvalidAgentResponse, never_run
from a2a_server.protocol.codec.wellknown import write_struct, write_value
from a2a_server.protocol.names import BINARY

JsonValue: TypeAlias = Mapping[str, Any] | Sequence[Any] | str | int | float | bool | None
Chunk: TypeAlias = str | bytes | pb.Part | JsonValue
"""What becomes one part."""
Content: TypeAlias = str | pb.Part | Sequence[str | pb.Part] | pb.Message
"""What becomes a message to the client."""

DEPTH = 30
"""Protobuf parsers stop at 100 nested messages, and one level of JSON takes three of them."""

EXACT = 2**53
"""JSON numbers travel as doubles; integers beyond this would arrive as other numbers."""

to_python, from_struct = write_value, write_struct
"""The Python values of a data part and of metadata; whole numbers are ints again."""


def text_part(text: str, *, media_type: str = "") -> pb.Part:
    return pb.Part(text=text, media_type=media_type)


def data_part(value: JsonValue, *, media_type: str = "") -> pb.Part:
    """A part with any JSON value."""
    part = pb.Part(media_type=media_type)
    check_json(value, "data")
    _fill(part.data, value)
    return part


def file_part(content: bytes | str, *, filename: str = "", media_type: str = "") -> pb.Part:
    """A file: its bytes, or the URL it can be fetched from. The media type is guessed from the name when not given."""
    kind = media_type or mimetypes.guess_type(filename)[0] or BINARY
    if isinstance(content, str):
        return pb.Part(url=content, filename=filename, media_type=kind)
    return pb.Part(raw=content, filename=filename, media_type=kind)


def as_part(value: Chunk, media_type: str = "") -> pb.Part:
    """The part that a value stands for: text for str, a file for bytes, data for every other JSON value."""
    if isinstance(value, str):
        return pb.Part(text=value, media_type=media_type)
    if isinstance(value, pb.Part):
        if value.WhichOneof("content") is None:
            raise InvalidAgentResponse("a part needs one of text, raw, url or data")
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return pb.Part(raw=bytes(value), media_type=media_type or BINARY)
    return data_part(value, media_type=media_type)


def as_parts(value: Chunk | Sequence[pb.Part], media_type: str = "") -> list[pb.Part]:
    """The parts that a whole result stands for: several only for a list of parts; any other list is JSON."""
    if isinstance(value, list | tuple) and value and all(isinstance(item, pb.Part) for item in value):
        return [as_part(item) for item in value]
    return [as_part(cast("Chunk", value), media_type)]


def as_message(content: Content) -> pb.Message:
    """A message of the agent; the server fills in its ids."""
    if isinstance(content, str):
        return pb.Message(role=pb.ROLE_AGENT, parts=[pb.Part(text=content)])
    if isinstance(content, pb.Message):
        message = pb.Message(role=pb.ROLE_AGENT)
        message.MergeFrom(content)
        return message
    if not isinstance(content, Iterable) and (fault := never_run(content)):
        raise InvalidAgentResponse(f"message: {fault}")
    parts = [content] if isinstance(content, pb.Part) else content
    return pb.Message(role=pb.ROLE_AGENT, parts=[as_part(part) for part in parts])


def check_json(value: object, where: str, depth: int = DEPTH) -> None:
    """Refuse what JSON cannot say, naming the place."""
    if value is None or isinstance(value, bool | str | int):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidAgentResponse(f"{where}: JSON has no {value}; send null or a text")
    elif depth == 0:
        raise InvalidAgentResponse(f"{where[:80]}…: nested deeper than {DEPTH} levels, which clients cannot read")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidAgentResponse(f"{where}: JSON keys are text, not {type(key).__name__}")
            check_json(item, f"{where}.{key}", depth - 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            check_json(item, f"{where}[{index}]", depth - 1)
    else:
        fault = f"{type(value).__name__} is no JSON value; use dict, list, str, int, float, bool or None"
        raise InvalidAgentResponse(f"{where}: {never_run(value) or fault}")


def to_struct(fields: Mapping[str, JsonValue], where: str = "metadata") -> struct_pb2.Struct:
    check_json(fields, where)
    struct = struct_pb2.Struct()
    for key, item in fields.items():
        _fill(struct.fields[key], item)
    return struct


def _fill(target: struct_pb2.Value, value: JsonValue) -> None:
    if value is None:
        target.null_value = struct_pb2.NULL_VALUE
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, str):
        target.string_value = value
    elif isinstance(value, int | float):
        target.number_value = _double(value)
    elif isinstance(value, Mapping):
        target.struct_value.SetInParent()
        for key, item in value.items():
            _fill(target.struct_value.fields[key], item)
    else:
        target.list_value.SetInParent()
        for item in value:
            _fill(target.list_value.values.add(), item)


def _double(value: float) -> float:
    if isinstance(value, int) and abs(value) > EXACT:
        raise InvalidAgentResponse("an integer beyond 2**53 would arrive as another number; send it as text")
    return float(value)
