"""Parts as ProtoJSON of the 0.3 proto has them (spec: LRES-05, CONF-66)."""

from __future__ import annotations

from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.faults import Faults
from a2a_server.protocol.codec.leftovers import Leftovers
from a2a_server.protocol.codec.schema import Form
from a2a_server.protocol.codec.wellknown import write_struct
from a2a_server.protocol.dialects.files import FileForm, bytes_or_text_in_bytes, text_in_bytes
from a2a_server.protocol.dialects.foreign import IN_PROTO_FILE, IN_PROTO_PART
from a2a_server.protocol.dialects.kept import Json
from a2a_server.protocol.dialects.parts import CONTENTS, PartReader, annotate, data_of

_NAMES: Final = "fileWithUri", "fileWithBytes"
_ALSO: Final = {"file_with_uri": "fileWithUri", "file_with_bytes": "fileWithBytes"}
_TEXT: Final = FileForm(*_NAMES, _ALSO, IN_PROTO_FILE, text_in_bytes, bytes_or_text_in_bytes)
_RAW: Final = FileForm(*_NAMES, _ALSO, IN_PROTO_FILE, read_bytes=bytes_or_text_in_bytes)
_MEMBERS: Final = Leftovers({name: name for name in (*CONTENTS, "metadata")}, frozenset(), {}, IN_PROTO_PART)


def form(*, raw_files: bool) -> Form:
    """With `raw_files` the bytes of files are written as they are."""
    return form_with(_RAW if raw_files else _TEXT, _MEMBERS)


def form_with(files: FileForm, members: Leftovers) -> Form:
    """Parts with this form of files; the names of `members` are read."""

    def write(part: pb.Part) -> Json:
        if text := part.text:
            return _annotated({"text": text}, part)
        which = part.WhichOneof("content")
        if which == "data":
            return _data(part)
        if which in {"raw", "url"}:
            written: Json = {"file": files.write(part, which)}
            if part.HasField("metadata"):
                written["metadata"] = write_struct(part.metadata)
            return written
        return _annotated({"text": ""} if which else {}, part)

    read = PartReader(members, files.reader(), _object).function()
    return Form(lambda _: write, lambda _: read)


def _annotated(written: Json, part: pb.Part) -> Json:
    if part.media_type or part.filename or part.HasField("metadata"):
        annotate(written, part)
    return written


def _data(part: pb.Part) -> Json:
    data, wrapped = data_of(part)
    written: Json = {"data": {"data": data}}
    annotate(written, part, wrapped=wrapped)
    return written


def _object(value: object) -> Json:
    if type(value) is not dict:
        raise TypeError
    data = value.get("data")
    if type(data) is not dict:
        # Most likely the object was put where its wrapper belongs, and its members were ignored as unknown ones.
        faults = Faults()
        faults.add(".data", "must be an object: data holds its object in a member of the same name")
        raise faults
    return data
