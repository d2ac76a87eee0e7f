"""Parts: 0.3 nests files and data where 1.0 is flat, and knows names and media types of files only (spec: LMAP)."""

from __future__ import annotations

from typing import Final

from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import Violation
from a2a_server.protocol.names import COMPAT, JSON
from a2a_server.protocol.v0_3 import files, kept
from a2a_server.protocol.v0_3.faults import Faults
from a2a_server.protocol.v0_3.options import Options

_MEDIA_TYPE: Final = "mediaType"
_FILENAME: Final = "filename"
_KEPT: Final = frozenset({_MEDIA_TYPE, _FILENAME})


def upgrade_into(part: pb.Part, legacy: v03.Part, field: str, faults: Faults) -> None:
    """`part` is empty; `field` is the path to `legacy`."""
    kind = legacy.WhichOneof("part")
    annotated = legacy.HasField("metadata")
    if annotated:
        part.metadata.CopyFrom(legacy.metadata)
    if kind == "text":
        part.text = legacy.text
    elif kind == "file":
        _upgrade_file(part, legacy.file, field, faults)
        return
    elif kind == "data":
        _upgrade_data(part, legacy.data, field, faults)
    if annotated:
        _restore(part, legacy.metadata)


def _upgrade_file(part: pb.Part, file: v03.FilePart, field: str, faults: Faults) -> None:
    which = file.WhichOneof("file")
    if which == "file_with_uri":
        part.url = file.file_with_uri
    elif which == "file_with_bytes":
        part.raw = files.decode(file.file_with_bytes)
    else:
        faults.append(Violation(f"{field}.file", "must have file_with_uri or file_with_bytes"))
    part.media_type = file.mime_type
    part.filename = file.name


def _upgrade_data(part: pb.Part, data: v03.DataPart, field: str, faults: Faults) -> None:
    # Most likely the object was put where its wrapper belongs, and its members were ignored as unknown ones.
    if not data.HasField("data"):
        faults.append(
            Violation(f"{field}.data.data", "is required: data holds its object in a member of the same name")
        )
        return
    value = kept.unwrap(data.data, part.metadata)
    if value is None:
        part.data.struct_value.CopyFrom(data.data)
    else:
        part.data.CopyFrom(value)


def _restore(part: pb.Part, before: struct_pb2.Struct) -> None:
    texts = kept.texts_of(part.metadata, _KEPT)
    media_type = texts.get(_MEDIA_TYPE, "")
    if texts and not _is_implied(part, media_type):
        del part.metadata.fields[COMPAT]
        part.media_type = media_type
        part.filename = texts.get(_FILENAME, "")
    if before.fields and not part.metadata.fields:  # all of it was ours
        part.ClearField("metadata")


def downgrade_into(legacy: v03.Part, part: pb.Part, options: Options) -> None:
    """`legacy` is empty."""
    if part.HasField("metadata"):
        legacy.metadata.CopyFrom(part.metadata)
    kind = part.WhichOneof("content")
    if kind == "text":
        legacy.text = part.text
    elif kind == "data":
        _downgrade_data(legacy, part)
    elif kind is not None:
        _downgrade_file(legacy.file, part, options)
        return
    if part.media_type or part.filename:
        _keep(legacy, part)


def _downgrade_data(legacy: v03.Part, part: pb.Part) -> None:
    if part.data.WhichOneof("kind") == "struct_value":
        legacy.data.data.CopyFrom(part.data.struct_value)
    else:
        kept.wrap(legacy.data.data, legacy.metadata, part.data)


def _downgrade_file(file: v03.FilePart, part: pb.Part, options: Options) -> None:
    if part.HasField("url"):
        file.file_with_uri = part.url
    else:
        file.file_with_bytes = part.raw if options.raw_files else files.encode(part.raw)
    file.mime_type = part.media_type
    file.name = part.filename


def _keep(legacy: v03.Part, part: pb.Part) -> None:
    media_type = "" if _is_implied(part, part.media_type) else part.media_type
    texts = {name: text for name, text in ((_MEDIA_TYPE, media_type), (_FILENAME, part.filename)) if text}
    if texts:
        kept.put_texts(legacy.metadata, texts)


def _is_implied(part: pb.Part, media_type: str) -> bool:
    """Whether this is what data is anyway, so that it need not be kept."""
    return media_type == JSON and part.HasField("data")
