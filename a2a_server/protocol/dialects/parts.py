"""Parts of 0.3: files and data are nested where 1.0 is flat, only files have names and types (spec: LMAP, LRPC-04)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.compiler import Function
from a2a_server.protocol.codec.faults import WRONG, Faults, complain, key_path, note
from a2a_server.protocol.codec.leftovers import Leftovers, clash
from a2a_server.protocol.codec.wellknown import read_struct, read_value, write_struct, write_value
from a2a_server.protocol.dialects import kept
from a2a_server.protocol.dialects.kept import Json
from a2a_server.protocol.names import COMPAT, JSON

CONTENTS: Final = "text", "file", "data"
"""The members of which a part has one, and the values of its `kind`."""

_EXPECTED: Final = {"text": "a string", "file": "an object", "data": "an object", "metadata": "an object"}


def data_of(part: pb.Part) -> tuple[Json, bool]:
    """The object that data is in 0.3, and whether the value had to be wrapped for that."""
    if part.data.WhichOneof("kind") == "struct_value":
        return write_struct(part.data.struct_value), False
    return {kept.VALUE: write_value(part.data)}, True


def annotate(written: Json, part: pb.Part, *, wrapped: bool = False) -> None:
    """Write the metadata of a part that is no file, and what only files have members for."""
    metadata = write_struct(part.metadata)
    if wrapped:
        metadata[kept.WRAPPED] = True
    media_type = "" if _is_implied(part, part.media_type) else part.media_type
    texts = {name: text for name, text in ((kept.MEDIA_TYPE, media_type), (kept.FILENAME, part.filename)) if text}
    if texts:
        metadata[COMPAT] = texts
    if metadata or part.HasField("metadata"):
        written["metadata"] = metadata


@dataclass(frozen=True, slots=True, eq=False)
class PartReader:
    """Reads the parts of one spelling."""

    members: Leftovers
    file: Callable[[object, pb.Part], None]
    data: Callable[[object], Json]
    """Find the object in what `data` is; raise what is wrong with it."""
    kinds: Sequence[str] = ()
    """What `kind` may be, if there is such a member."""
    others: Mapping[str, Callable[[Json, pb.Part], None]] = field(default_factory=dict)
    """What reads parts of further kinds, which are all their own."""

    def function(self) -> Function:
        """What reads a part; nearly all of them are plain texts."""
        kind, members = ("text", 2) if self.kinds else (None, 1)

        def read(value: object, part: pb.Part) -> None:
            if type(value) is not dict:
                raise TypeError
            text = value.get("text")
            if text is None or len(value) != members or value.get("kind") != kind:
                self._read(value, part)
                return
            try:
                part.text = text
            except WRONG as error:
                raise note(None, ".text", _EXPECTED["text"], text, error) from None

        return read

    def _read(self, value: Json, part: pb.Part) -> None:
        if self.others and type(kind := value.get("kind")) is str and kind in self.others:
            self.others[kind](value, part)
            return
        found, faults = self.members(value, None)
        which, faults = self._chosen(found, faults)
        if which:
            try:
                self._content(which, found, part)
            except WRONG as error:
                faults = note(faults, f".{which}", _EXPECTED[which], found[which], error)
        if "metadata" in found:
            try:
                _read_metadata(found, part)
            except WRONG as error:
                faults = note(faults, ".metadata", _EXPECTED["metadata"], found["metadata"], error)
        if faults:
            raise faults

    def _chosen(self, found: Json, faults: Faults | None) -> tuple[str, Faults | None]:
        """Which content there is; `kind` has to agree if it is there."""
        given = [name for name in CONTENTS if name in found]
        for other in given[1:]:
            faults = clash(faults, f".{other}", given[0], ", ".join(CONTENTS))
        which, kind = given[0] if given else "", found.get("kind")
        if kind is None or kind in given:
            pass
        elif given:
            faults = complain(faults, ".kind", json.dumps(which), kind)
        elif kind in self.kinds:
            faults = complain(faults, f".{kind}", _EXPECTED[kind], None)
        else:
            faults = complain(faults, ".kind", f"one of {', '.join(map(json.dumps, self.kinds))}", kind)
        return which, faults

    def _content(self, which: str, found: Json, part: pb.Part) -> None:
        if which == "text":
            part.text = found["text"]
        elif which == "file":
            self.file(found["file"], part)
        else:
            data, metadata = self.data(found["data"]), found.get("metadata")
            if kept.is_wrapped(data, metadata):
                _read_wrapped(data, part)
            else:
                read_struct(data, part.data.struct_value)


def _read_wrapped(data: Json, part: pb.Part) -> None:
    try:
        read_value(data[kept.VALUE], part.data)
    except WRONG as error:
        raise note(None, key_path(kept.VALUE), "a JSON value", data[kept.VALUE], error) from None


def _read_metadata(found: Json, part: pb.Part) -> None:
    told = metadata = found["metadata"]
    if type(metadata) is not dict:
        raise TypeError
    if "file" not in found:
        metadata = _without_kept(metadata, part)
    if metadata or not told:  # otherwise all of it was ours
        read_struct(metadata, part.metadata)


def _without_kept(metadata: Json, part: pb.Part) -> Json:
    """Put what was kept into its place."""
    if part.HasField("data") and part.data.WhichOneof("kind") != "struct_value":
        metadata = kept.without(metadata, kept.WRAPPED)
    texts = kept.texts_of(metadata)
    media_type = texts.get(kept.MEDIA_TYPE, "")
    if not texts or _is_implied(part, media_type):
        return metadata
    part.media_type, part.filename = media_type, texts.get(kept.FILENAME, "")
    return kept.without(metadata, COMPAT)


def _is_implied(part: pb.Part, media_type: str) -> bool:
    """Whether this is what data is anyway, so that it need not be kept."""
    return media_type == JSON and part.HasField("data")
