"""Finds the fields that a path or query names, at any depth, and turns their texts into JSON values (spec: QPAR-02)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from a2a_server.protocol.codec import NotJson, loads
from a2a_server.protocol.codec.dialect import WRAPPERS
from a2a_server.protocol.codec.faults import key_path

DEEPEST = 32
"""How many names a field path may have. Recursive types would otherwise allow any number."""

TextReader = Callable[[str], object]
"""Turns a text into a JSON value, which the codec checks later; raises `ValueError` if it cannot."""


class UnfitError(ValueError):
    """A field exists but cannot be given as text. The message says why, and what to do instead."""


class UrlField(NamedTuple):
    """A field, or an entry of a map, that a text in the URL can set."""

    name: str
    """Its name in error messages: `filter.owner`, `labels["key"]`."""
    path: tuple[str, ...]
    """The JSON names from the request to the field. For a map the key is the last one."""
    descriptor: FieldDescriptor
    """For a map, that of the entry's value."""
    read: TextReader
    many: bool
    """Whether it accepts several values."""
    splits: bool
    """Whether one text may hold several values, separated by commas."""


@cache
def members(kind: Descriptor) -> Mapping[str, FieldDescriptor]:
    """Return the fields by name: by their JSON names and those in the proto (CONF-71)."""
    return {field.name: field for field in kind.fields} | {field.json_name: field for field in kind.fields}


def find(kind: Descriptor, name: str) -> UrlField | None:
    """Find `pageSize`, `filter.owner` or `labels[key]`; None when the type has no such field.

    Raises `UnfitError` for fields that cannot be given as text.
    """
    name, bracket, key = name.partition("[") if name.endswith("]") else (name, "", "")
    *outer, last = name.split(".")
    if len(outer) >= DEEPEST:
        raise UnfitError(f"must not go deeper than {DEEPEST} names")
    path: tuple[str, ...] = ()
    for part in outer:
        field = members(kind).get(part)
        if field is None or field.message_type is None or is_well_known(field.message_type):
            return None
        if field.is_repeated:
            raise UnfitError(f'is inside of the list "{field.json_name}", which has no form in a URL')
        path, kind = (*path, field.json_name), field.message_type
    field = members(kind).get(last)
    if field is None:
        return None
    path = (*path, field.json_name)
    return _entry(field, path, key[:-1]) if bracket else _whole(field, path)


def _whole(field: FieldDescriptor, path: tuple[str, ...]) -> UrlField:
    name = ".".join(path)
    if is_map(field):
        raise UnfitError(f"is a map; write {name}[key]=value")
    read = _text_reader(field)
    if read is None:
        advice = "is a list of objects, which has no form in a URL"
        raise UnfitError(advice if field.is_repeated else f"is an object; name its members, as in {name}.member=value")
    many = field.is_repeated
    return UrlField(name, path, field, read, many=many, splits=many and field.message_type is None)


def _entry(field: FieldDescriptor, path: tuple[str, ...], key: str) -> UrlField:
    if field.message_type is None or not is_map(field):
        raise UnfitError("is not a map, so it takes no [key]; give a list by repeating the plain name")
    value = field.message_type.fields_by_name["value"]
    read = _text_reader(value)
    if read is None:
        raise UnfitError("is a map of objects, which has no form in a URL")
    return UrlField(".".join(path) + key_path(key), (*path, key), value, read, many=False, splits=False)


def is_map(field: FieldDescriptor) -> bool:
    return field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry


def is_well_known(kind: Descriptor) -> bool:
    """Whether ProtoJSON has a special form for the type."""
    return kind.file.package == "google.protobuf"


def _text_reader(field: FieldDescriptor) -> TextReader | None:
    """Return the function that reads one value from text; None if a value cannot be given as text."""
    if (kind := field.message_type) is None:
        return _SCALARS.get(field.cpp_type, str)
    return _text_reader(kind.fields_by_name["value"]) if kind.full_name in WRAPPERS else _MESSAGES.get(kind.full_name)


_DECIMAL = re.compile(r"-?[0-9]{1,40}")
_REAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|-?Infinity|NaN")
_LOST_PLUS = re.compile(r"(:[0-9.]+) ([0-9]{2}:[0-9]{2})$")


def _integer(text: str) -> object:
    if not _DECIMAL.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _number(text: str) -> object:
    if not _REAL.fullmatch(text):
        raise ValueError(text)
    return text  # ProtoJSON also reads quoted numbers, and the codec checks the range


def _json(text: str) -> object:
    try:
        return loads(text.encode("utf-8", "surrogatepass"))
    except NotJson as error:
        raise ValueError(text) from error


_SCALARS: Final[Mapping[int, TextReader]] = {
    FieldDescriptor.CPPTYPE_INT32: _integer,
    FieldDescriptor.CPPTYPE_INT64: _integer,
    FieldDescriptor.CPPTYPE_UINT32: _integer,
    FieldDescriptor.CPPTYPE_UINT64: _integer,
    FieldDescriptor.CPPTYPE_DOUBLE: _number,
    FieldDescriptor.CPPTYPE_FLOAT: _number,
    FieldDescriptor.CPPTYPE_BOOL: lambda text: ("false", "true").index(text) == 1,
    FieldDescriptor.CPPTYPE_ENUM: lambda text: int(text) if _DECIMAL.fullmatch(text) else text,
}
_MESSAGES: Final[Mapping[str, TextReader]] = {
    **dict.fromkeys(("google.protobuf.Value", "google.protobuf.Struct", "google.protobuf.ListValue"), _json),
    **dict.fromkeys(("google.protobuf.Duration", "google.protobuf.FieldMask"), str),
    # A client that does not encode the `+` of an offset sends a space. A space has no other meaning there.
    "google.protobuf.Timestamp": lambda text: _LOST_PLUS.sub(r"\1+\2", text),
}
