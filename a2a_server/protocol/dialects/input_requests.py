"""Questions with an id as members of messages, which 1.0 carries in metadata (spec: XTRA-01)."""

from __future__ import annotations

from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.compiler import Compiler, Function
from a2a_server.protocol.codec.faults import WRONG, Faults, complain, note
from a2a_server.protocol.codec.schema import Form, descriptor_of
from a2a_server.protocol.codec.wellknown import read_struct
from a2a_server.protocol.dialects import kept
from a2a_server.protocol.dialects.kept import Json
from a2a_server.protocol.dialects.tool_parts import KINDS
from a2a_server.protocol.names import INPUT_REQUEST_URI

_MEMBER: Final = "inputRequest"
_KIND: Final = "input-request"
_TYPES: Final = {"prompt": (str, "a string"), "requestId": (str, "a string"), "sensitive": (bool, "true or false")}
_MESSAGE: Final = descriptor_of(pb.Message)


def is_used(send: Json) -> bool:
    """Whether a sound send makes such a request, or has parts of tools in a shape of their own."""
    message = send.get("message") or {}
    return message.get(_MEMBER) is not None or any(part.get("kind") in KINDS for part in message.get("parts") or ())


def _reader(readers: Compiler) -> Function:
    plain = readers.plain(_MESSAGE)

    def read(value: object, message: pb.Message) -> None:
        if type(value) is dict and value.get(_MEMBER) is not None:
            _read(value, message, plain)
        else:
            plain(value, message)

    return read


def _read(value: Json, message: pb.Message, plain: Function) -> None:
    request, faults = value[_MEMBER], None
    try:
        plain(value, message)
    except Faults as found:
        faults = found
    try:
        told = {**_checked(request), "kind": _KIND}
        own = message.metadata.fields[INPUT_REQUEST_URI].struct_value.fields[_MEMBER]
        read_struct(told, own.struct_value)
    except WRONG as error:
        faults = note(faults, f".{_MEMBER}", "an object", request, error)
    if faults:
        raise faults
    if INPUT_REQUEST_URI not in message.extensions:
        message.extensions.append(INPUT_REQUEST_URI)
    prompt = request.get("prompt")
    if prompt and not any(part.HasField("text") for part in message.parts):
        message.parts.add().text = prompt  # for agents and clients who know of no such requests


def _checked(request: object) -> Json:
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


def _writer(writers: Compiler) -> Function:
    plain = writers.plain(_MESSAGE)

    def write(message: pb.Message) -> Json:
        written: Json = plain(message)
        return (
            _original(written)
            if "metadata" in written and INPUT_REQUEST_URI in written.get("extensions", ())
            else written
        )

    return write


def _original(written: Json) -> Json:
    """The message as it is said by who uses such requests, if it makes one that can be read again."""
    own = written["metadata"].get(INPUT_REQUEST_URI)
    try:
        request = _checked(own.get(_MEMBER) if type(own) is dict else None)
    except WRONG:
        return written
    if "kind" not in request:
        return written
    told = {name: item for name, item in written.items() if name not in {"metadata", "extensions"}}
    told[_MEMBER] = {"kind": _KIND, **kept.without(request, "kind")}
    if metadata := kept.cut(written["metadata"], INPUT_REQUEST_URI, _MEMBER):
        told["metadata"] = metadata
    if extensions := [
        uri for uri in written["extensions"] if uri != INPUT_REQUEST_URI or INPUT_REQUEST_URI in metadata
    ]:
        told["extensions"] = extensions
    return told


READ: Final[Form] = Form(None, _reader)
FORM: Final[Form] = Form(_writer, _reader)
