"""What 0.3 has no member for is kept in metadata, and taken out again on the way back (spec: LMAP-02).

Only what `downgrade` would have written is taken; anything else under these names is somebody's own and stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from google.protobuf import struct_pb2

from a2a_server.protocol.names import COMPAT

WRAPPED: Final = "data_part_compat"
"""Marks data that is no object and was wrapped as `{"value": …}`. The name is the official SDK's, whose 0.3
compatibility layer unwraps what it finds so marked, and marks what it wraps."""

_REFERENCES: Final = "referenceTaskIds"
_VALUE: Final = "value"


def put_texts(metadata: struct_pb2.Struct, texts: Mapping[str, str]) -> None:
    """Keep short texts by name."""
    record = struct_pb2.Struct()
    for name, text in texts.items():
        record.fields[name].string_value = text
    metadata.fields[COMPAT].struct_value.CopyFrom(record)


def texts_of(metadata: struct_pb2.Struct, names: Collection[str]) -> Mapping[str, str]:
    """Read what `put_texts` left, if it is nothing but texts of these names."""
    if COMPAT not in metadata.fields:
        return {}
    record = metadata.fields[COMPAT].struct_value.fields
    texts = {name: value.string_value for name, value in record.items()}
    return texts if all(name in names and text for name, text in texts.items()) else {}


def put_references(metadata: struct_pb2.Struct, task_ids: Sequence[str]) -> None:
    record = struct_pb2.Struct()
    for task_id in task_ids:
        record.fields[_REFERENCES].list_value.values.add().string_value = task_id
    metadata.fields[COMPAT].struct_value.CopyFrom(record)


def take_references(metadata: struct_pb2.Struct) -> Sequence[str]:
    if COMPAT not in metadata.fields:
        return ()
    record = metadata.fields[COMPAT].struct_value.fields
    values = record[_REFERENCES].list_value.values if [*record] == [_REFERENCES] else ()
    if not all(value.WhichOneof("kind") == "string_value" for value in values):
        return ()
    task_ids = [value.string_value for value in values]
    if task_ids:
        del metadata.fields[COMPAT]
    return task_ids


def wrap(data: struct_pb2.Struct, metadata: struct_pb2.Struct, value: struct_pb2.Value) -> None:
    """Put a value that is no object where only an object may stand."""
    data.fields[_VALUE].CopyFrom(value)
    metadata.fields[WRAPPED].bool_value = True


def unwrap(data: struct_pb2.Struct, metadata: struct_pb2.Struct) -> struct_pb2.Value | None:
    """Take the value out again; None = this is an object in its own right."""
    if WRAPPED not in metadata.fields or not metadata.fields[WRAPPED].bool_value:
        return None
    if [*data.fields] != [_VALUE] or data.fields[_VALUE].WhichOneof("kind") == "struct_value":
        return None
    del metadata.fields[WRAPPED]
    return data.fields[_VALUE]
