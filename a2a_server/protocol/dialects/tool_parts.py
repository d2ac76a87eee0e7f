"""Parts that are calls of tools or their results, in the shape that 1.0 carries as marked data (spec: XTRA-01)."""

from __future__ import annotations

from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.faults import WRONG, complain, note
from a2a_server.protocol.codec.wellknown import read_struct
from a2a_server.protocol.dialects import kept
from a2a_server.protocol.dialects.kept import Json
from a2a_server.protocol.names import COMPAT, INPUT_REQUEST_URI

RESULT: Final = "tool-result"
KINDS: Final = RESULT, "tool-use"

_MARK: Final = "partKind"
_ID: Final = "toolUseId"
_OWN: Final = frozenset({"kind", "metadata"})


def read(value: Json, part: pb.Part) -> None:
    """Read a part of one of these kinds; what it says is data, whatever its members are."""
    kind, metadata, faults = value["kind"], value.get("metadata"), None
    if kind == RESULT and type(value.get(_ID)) is not str:
        faults = complain(faults, f".{_ID}", "a string", value.get(_ID))
    try:
        read_struct({name: item for name, item in value.items() if name not in _OWN}, part.data.struct_value)
    except WRONG as error:
        faults = note(faults, "", "an object", value, error)
    try:
        read_struct({} if metadata is None else metadata, part.metadata)
    except WRONG as error:
        faults = note(faults, ".metadata", "an object", metadata, error)
    if faults:
        raise faults
    part.metadata.fields[INPUT_REQUEST_URI].struct_value.fields[_MARK].string_value = kind


def original(written: Json) -> Json:
    """A data part as it is said by who uses such parts, if it can be read again as what it is; otherwise as it was."""
    metadata = written.get("metadata", {})
    mark = metadata.get(INPUT_REQUEST_URI)
    if type(mark) is not dict or mark.get(_MARK) not in KINDS or not _is_readable(mark[_MARK], written):
        return written
    rest = kept.cut(metadata, INPUT_REQUEST_URI, _MARK)
    told: Json = {"kind": mark[_MARK], **written["data"]}
    return {**told, "metadata": rest} if rest else told


def _is_readable(kind: str, written: Json) -> bool:
    data, metadata = written["data"], written["metadata"]
    if _OWN & data.keys() or {COMPAT, kept.WRAPPED} & metadata.keys():
        return False
    return kind != RESULT or type(data.get(_ID)) is str
