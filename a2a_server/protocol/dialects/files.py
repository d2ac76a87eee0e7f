"""Files inside parts: an address or bytes, a name and a type (spec: CONF-56, CONF-66)."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.faults import WRONG, Faults, note
from a2a_server.protocol.codec.leftovers import Leftovers, clash
from a2a_server.protocol.codec.scalars import base64, octets
from a2a_server.protocol.dialects.kept import Json
from a2a_server.protocol.dialects.members import snake


@dataclass(frozen=True, slots=True, eq=False)
class FileForm:
    """How one spelling has files."""

    uri: str
    content: str
    also: Mapping[str, str]
    """Further names that are read."""
    foreign: Mapping[str, str]
    write_bytes: Callable[[bytes], str] = base64
    read_bytes: Callable[[object], bytes] = octets
    media_type: str = "mimeType"

    def write(self, part: pb.Part, which: str) -> Json:
        file: Json = {self.uri: part.url} if which == "url" else {self.content: self.write_bytes(part.raw)}
        if name := part.filename:
            file["name"] = name
        if media_type := part.media_type:
            file[self.media_type] = media_type
        return file

    def reader(self) -> Callable[[object, pb.Part], None]:
        own = {name: name for name in (self.content, self.uri, "name", self.media_type)}
        members = Leftovers(
            {**own, snake(self.media_type): self.media_type, **self.also}, frozenset(), {}, self.foreign
        )

        def read(value: object, part: pb.Part) -> None:
            if type(value) is not dict:
                raise TypeError
            found, faults = members(value, None)
            if faults := self._read(found, part, faults):
                raise faults

        return read

    def _read(self, found: Json, part: pb.Part, faults: Faults | None) -> Faults | None:
        if self.uri in found and self.content in found:
            faults = clash(faults, f".{self.uri}", self.content, f"{self.content}, {self.uri}")
        elif not (self.uri in found or self.content in found or faults):
            faults = Faults()
            faults.add("", f"must have {self.content} or {self.uri}")
        for name, item in found.items():
            try:
                self._set(part, name, item)
            except WRONG as error:
                expected = "base64" if name == self.content else "a string"
                faults = note(faults, f".{name}", expected, item, error)
        return faults

    def _set(self, part: pb.Part, name: str, item: object) -> None:
        if name == self.content:
            part.raw = self.read_bytes(item)
        elif type(item) is not str:
            raise TypeError
        elif name == self.uri:
            part.url = item
        elif name == "name":
            part.filename = item
        else:
            part.media_type = item


# What SDKs make of 0.3's bytes field: those for Python and Go put base64 *text* into it, the one for JavaScript the
# bytes themselves. Both are read, and what the majority reads is written.


def text_in_bytes(raw: bytes) -> str:
    """ProtoJSON of a bytes field that holds base64 text."""
    return base64(binascii.b2a_base64(raw, newline=False))


def bytes_or_text_in_bytes(value: object) -> bytes:
    """Decode what is base64 to the letter, padding included; anything else is the file itself."""
    content = octets(value)
    try:
        decoded = binascii.a2b_base64(content, strict_mode=True)
    except binascii.Error:
        return content
    # Bits that the last group has left over must be zero, which strict mode does not look at.
    tail = decoded[(len(decoded) - 1) // 3 * 3 :]
    return decoded if content.endswith(binascii.b2a_base64(tail, newline=False)) else content
