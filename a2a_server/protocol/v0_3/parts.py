"""Parts: 0.3 nests files and data where 1.0 is flat, and has names and media types for files only (LMAP, CONF-66).

What 0.3 has no member for is kept in metadata and taken out again on the way back (LMAP-02). Only what `downgrade_into`
would have written is taken out; anything else under these names belongs to somebody else and stays.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Final

from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import Violation
from a2a_server.protocol.names import COMPAT, JSON

WRAPPED: Final = "data_part_compat"
"""Marks data that is no object and was wrapped as `{"value": …}`. The official SDK uses the same name: its 0.3
compatibility layer unwraps what is marked so, and marks what it wraps."""

_MEDIA_TYPE: Final = "mediaType"
_FILENAME: Final = "filename"
VALUE: Final = "value"
_KEPT: Final = {_MEDIA_TYPE: "media_type", _FILENAME: "filename"}

Found = list[Violation]
"""What leaves nothing to map, in the spelling of the 0.3 proto, such as `request.content[0].file` (ERRS-05)."""


def upgrade_into(part: pb.Part, legacy: v03.Part, field: str, found: Found) -> None:
    """Fill the empty `part`; `field` is the path to `legacy`."""
    kind = legacy.WhichOneof("part")
    annotated = legacy.HasField("metadata")
    if annotated:
        part.metadata.CopyFrom(legacy.metadata)
    if kind == "text":
        part.text = legacy.text
    elif kind == "file":
        _upgrade_file(part, legacy.file, field, found)
        return
    elif kind == "data":
        _upgrade_data(part, legacy.data, field, found)
    if annotated:
        _restore(part, legacy.metadata)


def _upgrade_file(part: pb.Part, file: v03.FilePart, field: str, found: Found) -> None:
    which = file.WhichOneof("file")
    if which == "file_with_uri":
        part.url = file.file_with_uri
    elif which == "file_with_bytes":
        part.raw = decode_file(file.file_with_bytes)
    else:
        found.append(Violation(_at(field, "file"), "must have file_with_uri or file_with_bytes"))
    part.media_type = file.mime_type
    part.filename = file.name


def _upgrade_data(part: pb.Part, data: v03.DataPart, field: str, found: Found) -> None:
    # Most likely the object was put where its wrapper belongs, and its members were ignored as unknown ones.
    if not data.HasField("data"):
        text = "is required: data holds its object in a member of the same name"
        found.append(Violation(_at(field, "data.data"), text))
    elif _is_wrapped(data.data, part.metadata):
        del part.metadata.fields[WRAPPED]
        part.data.CopyFrom(data.data.fields[VALUE])
    else:
        part.data.struct_value.CopyFrom(data.data)


def _at(field: str, inner: str) -> str:
    return f"{field}.{inner}" if field else inner


def _is_wrapped(data: struct_pb2.Struct, metadata: struct_pb2.Struct) -> bool:
    return WRAPPED in metadata.fields and _would_wrap(metadata.fields[WRAPPED], data)


def _would_wrap(mark: struct_pb2.Value, data: struct_pb2.Struct) -> bool:
    return mark.bool_value and [*data.fields] == [VALUE] and data.fields[VALUE].WhichOneof("kind") != "struct_value"


def wrap_bare(part: v03.Part, holder: Mapping[str, object]) -> None:
    """Mark what was read from JSON, where `holder` had it as `data`, if it is no object (CONF-55). null is a value."""
    if "data" in holder and type(value := holder["data"]) is not dict:
        if value is None:
            part.data.data.fields[VALUE].null_value = struct_pb2.NULL_VALUE
        if mark := _mark(part):
            part.metadata.fields[COMPAT].struct_value.CopyFrom(struct_pb2.Struct(fields={WRAPPED: mark}))


def _mark(legacy: v03.Part) -> struct_pb2.Value | None:
    """Mark data as wrapped, and return what stood in the mark's place."""
    before = _unmark(legacy)
    legacy.metadata.fields[WRAPPED].bool_value = True
    return before


def _unmark(legacy: v03.Part) -> struct_pb2.Value | None:
    fields = legacy.metadata.fields
    if WRAPPED not in fields:
        return None
    before = struct_pb2.Value()
    before.CopyFrom(fields[WRAPPED])
    del fields[WRAPPED]
    return before


def _restore(part: pb.Part, before: struct_pb2.Struct) -> None:
    fields = part.metadata.fields
    if COMPAT in fields and _is_kept(record := {**fields[COMPAT].struct_value.fields}, part):
        if mark := record.pop(WRAPPED, None):
            fields[WRAPPED].CopyFrom(mark)
        for name, text in record.items():
            setattr(part, _KEPT[name], text.string_value)
        del fields[COMPAT]
    if before.fields and not fields:  # all of it was ours
        part.ClearField("metadata")


def _is_kept(record: Mapping[str, struct_pb2.Value], part: pb.Part) -> bool:
    """Whether `downgrade_into` has left this; not if the record looks any different."""
    texts = {name: value.string_value for name, value in record.items() if name != WRAPPED}
    if not record or not all(name in _KEPT and text for name, text in texts.items()):
        return False
    if _is_implied(part, texts.get(_MEDIA_TYPE, "")):
        return False
    return WRAPPED not in record or _is_displaced(record[WRAPPED], part)


def _is_displaced(mark: struct_pb2.Value, part: pb.Part) -> bool:
    if WRAPPED in part.metadata.fields or not part.HasField("data"):
        return False
    return part.data.WhichOneof("kind") != "struct_value" or _would_wrap(mark, part.data.struct_value)


def downgrade_into(legacy: v03.Part, part: pb.Part, *, raw_files: bool) -> None:
    """Fill the empty `legacy`."""
    if part.HasField("metadata"):
        legacy.metadata.CopyFrom(part.metadata)
    kind, mark = part.WhichOneof("content"), None
    if kind == "text":
        legacy.text = part.text
    elif kind == "data":
        mark = _downgrade_data(legacy, part)
    elif kind is not None:
        _downgrade_file(legacy.file, part, raw_files=raw_files)
        return
    if part.media_type or part.filename or mark:
        _keep(legacy, part, mark)


def _downgrade_data(legacy: v03.Part, part: pb.Part) -> struct_pb2.Value | None:
    """Return what stood in the place of the mark."""
    if part.data.WhichOneof("kind") == "struct_value":
        legacy.data.data.CopyFrom(part.data.struct_value)
        looks_wrapped = part.HasField("metadata") and _is_wrapped(part.data.struct_value, part.metadata)
        return _unmark(legacy) if looks_wrapped else None
    legacy.data.data.fields[VALUE].CopyFrom(part.data)
    return _mark(legacy)


def _downgrade_file(file: v03.FilePart, part: pb.Part, *, raw_files: bool) -> None:
    if part.HasField("url"):
        file.file_with_uri = part.url
    else:
        file.file_with_bytes = part.raw if raw_files else encode_file(part.raw)
    file.mime_type = part.media_type
    file.name = part.filename


def _keep(legacy: v03.Part, part: pb.Part, mark: struct_pb2.Value | None) -> None:
    media_type = "" if _is_implied(part, part.media_type) else part.media_type
    record = struct_pb2.Struct()
    for name, text in ((_MEDIA_TYPE, media_type), (_FILENAME, part.filename)):
        if text:
            record.fields[name].string_value = text
    if mark:
        record.fields[WRAPPED].CopyFrom(mark)
    if record.fields:
        legacy.metadata.fields[COMPAT].struct_value.CopyFrom(record)


def _is_implied(part: pb.Part, media_type: str) -> bool:
    """Whether this is what data is anyway, so that it need not be kept."""
    return media_type == JSON and part.HasField("data")


# The SDKs for Python and Go put base64 *text* into 0.3's bytes field, the one for JavaScript the bytes themselves. They
# cannot read each other. Both are read, and what the majority reads is written.


def decode_file(content: bytes) -> bytes:
    """Decode what is base64 to the letter, padding included; anything else is the file itself."""
    try:
        decoded = binascii.a2b_base64(content, strict_mode=True)
    except binascii.Error:
        return content
    # Bits that the last group has left over must be zero, which strict mode does not look at.
    tail = decoded[(len(decoded) - 1) // 3 * 3 :]
    return decoded if content.endswith(encode_file(tail)) else content


def encode_file(raw: bytes) -> bytes:
    return binascii.b2a_base64(raw, newline=False)
