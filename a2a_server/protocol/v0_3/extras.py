"""Input requests and tool parts in the extra members that some clients of 0.3 use (spec: XTRA-01).

1.0 has both in an extension: in the metadata of a message, and as marked data. The extra members are always read. They
are written only for clients that use them.
"""

from __future__ import annotations

from typing import Final

from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec.compiler import Function
from a2a_server.protocol.codec.faults import WRONG, Faults, complain, faults_in, note
from a2a_server.protocol.codec.wellknown import read_struct
from a2a_server.protocol.names import COMPAT
from a2a_server.protocol.names import INPUT_REQUEST_URI as URI
from a2a_server.protocol.v0_3.configs import JsonObject
from a2a_server.protocol.v0_3.parts import WRAPPED

_RESULT: Final = "tool-result"
KINDS: Final = _RESULT, "tool-use"

MEMBER: Final = "inputRequest"
_KIND: Final = "input-request"
_TYPES: Final = {"prompt": (str, "a string"), "requestId": (str, "a string"), "sensitive": (bool, "true or false")}
_MARK: Final = "partKind"
_ID: Final = "toolUseId"
_OWN: Final = frozenset({"kind", "metadata"})


# -- input requests


def read_input_request(value: JsonObject, message: v03.Message, plain: Function) -> None:
    """Read a message with a request, where `plain` reads one without."""
    request = value[MEMBER]
    faults = faults_in(plain, value, message)
    try:
        told = {**_checked(request), "kind": _KIND}
        own = message.metadata.fields[URI].struct_value.fields[MEMBER]
        read_struct(told, own.struct_value)
    except WRONG as error:
        faults = note(faults, f".{MEMBER}", "an object", request, error)
    if faults:
        raise faults
    if URI not in message.extensions:
        message.extensions.append(URI)
    prompt = request.get("prompt")
    if prompt and not any(part.HasField("text") for part in message.content):
        message.content.add().text = prompt  # for agents and clients who know of no such requests


def _checked(request: object) -> JsonObject:
    """Raise what is wrong with a request; what it says beyond its members is its own."""
    if type(request) is not dict:
        raise TypeError
    faults: Faults | None = None
    if request.get("kind") not in (None, _KIND):
        faults = complain(faults, ".kind", f'"{_KIND}"', request["kind"])
    for name, (kind, expected) in _TYPES.items():
        if request.get(name) is not None and type(request[name]) is not kind:
            faults = complain(faults, f".{name}", expected, request[name])
    if faults:
        raise faults
    return request


def writer(plain: Function) -> Function:
    """What writes a message with its request as a member, where `plain` writes it with one in metadata."""

    def write(message: v03.Message) -> JsonObject:
        written: JsonObject = plain(message)
        return _original(written) if "metadata" in written and URI in written.get("extensions", ()) else written

    return write


def _original(written: JsonObject) -> JsonObject:
    """The message as it is said by who uses such requests, if it makes one that can be read again."""
    own = written["metadata"].get(URI)
    try:
        request = _checked(own.get(MEMBER) if type(own) is dict else None)
    except WRONG:
        return written
    if "kind" not in request:
        return written
    told = {name: item for name, item in written.items() if name not in {"metadata", "extensions"}}
    told[MEMBER] = {"kind": _KIND, **_without(request, "kind")}
    if metadata := _cut(written["metadata"], MEMBER):
        told["metadata"] = metadata
    if extensions := [uri for uri in written["extensions"] if uri != URI or URI in metadata]:
        told["extensions"] = extensions
    return told


# -- parts that are calls of tools or their results


def read_tool_part(value: JsonObject, part: v03.Part) -> None:
    """Read a part of one of these kinds; what it says is data, whatever its members are."""
    kind, metadata = value["kind"], value.get("metadata")
    faults: Faults | None = None
    if kind == _RESULT and type(value.get(_ID)) is not str:
        faults = complain(faults, f".{_ID}", "a string", value.get(_ID))
    try:
        read_struct({name: item for name, item in value.items() if name not in _OWN}, part.data.data)
    except WRONG as error:
        faults = note(faults, "", "an object", value, error)
    try:
        read_struct({} if metadata is None else metadata, part.metadata)
    except WRONG as error:
        faults = note(faults, ".metadata", "an object", metadata, error)
    if faults:
        raise faults
    part.metadata.fields[URI].struct_value.fields[_MARK].string_value = kind


def original_part(written: JsonObject) -> JsonObject:
    """A data part as it is said by who uses such parts, if it can be read again as what it is; otherwise as it was."""
    mark = written.get("metadata", {}).get(URI)
    if type(mark) is not dict or mark.get(_MARK) not in KINDS or not _is_readable(mark[_MARK], written):
        return written
    rest = _cut(written["metadata"], _MARK)
    told: JsonObject = {"kind": mark[_MARK], **written["data"]}
    return {**told, "metadata": rest} if rest else told


def _is_readable(kind: str, written: JsonObject) -> bool:
    data, metadata = written["data"], written["metadata"]
    if _OWN & data.keys() or {COMPAT, WRAPPED} & metadata.keys():
        return False
    return kind != _RESULT or type(data.get(_ID)) is str


def _without(members: JsonObject, key: str) -> JsonObject:
    return {name: item for name, item in members.items() if name != key}


def _cut(metadata: JsonObject, name: str) -> JsonObject:
    """Metadata without one member of the extension's, and without the extension's if that was all."""
    rest = _without(metadata[URI], name)
    return {**metadata, URI: rest} if rest else _without(metadata, URI)
