"""Parts as 0.3's JSON schema has them: told apart by `kind` (spec: LRPC-03, LRPC-08, CONF-56)."""

from __future__ import annotations

from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.compiler import has, which_of
from a2a_server.protocol.codec.leftovers import Leftovers
from a2a_server.protocol.codec.schema import Form
from a2a_server.protocol.codec.wellknown import write_struct
from a2a_server.protocol.dialects import tool_parts
from a2a_server.protocol.dialects.files import FileForm
from a2a_server.protocol.dialects.foreign import IN_KIND_FILE, IN_KIND_PART
from a2a_server.protocol.dialects.kept import Json
from a2a_server.protocol.dialects.parts import CONTENTS, PartReader, annotate, data_of

_FILE: Final = FileForm(
    "uri",
    "bytes",
    {"fileWithUri": "uri", "file_with_uri": "uri", "fileWithBytes": "bytes", "file_with_bytes": "bytes"},
    IN_KIND_FILE,
)
_MEMBERS: Final = Leftovers({name: name for name in ("kind", *CONTENTS, "metadata")}, frozenset(), {}, IN_KIND_PART)


def write(part: pb.Part) -> Json:
    if text := part.text:
        written: Json = {"kind": "text", "text": text}
    else:
        which = which_of(part, "content")
        if which == "data":
            return _write_data(part)
        if which in {"raw", "url"}:
            return _write_file(part, which)
        written = {"kind": "text", "text": ""}  # or no content at all, which nothing else could be said of
    if part.media_type or part.filename or has(part, "metadata"):
        annotate(written, part)
    return written


def _write_data(part: pb.Part) -> Json:
    data, wrapped = data_of(part)
    written: Json = {"kind": "data", "data": data}
    annotate(written, part, wrapped=wrapped)
    return written


def _write_file(part: pb.Part, which: str) -> Json:
    written: Json = {"kind": "file", "file": _FILE.write(part, which)}
    if part.HasField("metadata"):
        written["metadata"] = write_struct(part.metadata)
    return written


def _object(value: object) -> Json:
    if type(value) is not dict:
        raise TypeError
    return value


read: Final = PartReader(
    _MEMBERS, _FILE.reader(), _object, CONTENTS, dict.fromkeys(tool_parts.KINDS, tool_parts.read)
).function()

FORM: Final[Form] = Form(lambda _: write, lambda _: read)


def _write_original(part: pb.Part) -> Json:
    return tool_parts.original(write(part)) if part.HasField("data") else write(part)


WITH_TOOLS: Final = FORM._replace(write=lambda _: _write_original)
"""For clients that use such parts; who does not sees marked data."""
