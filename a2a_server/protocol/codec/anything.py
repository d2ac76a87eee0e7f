"""The JSON of google.protobuf.Any: the members of what is inside, and its type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from google.protobuf import any_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from a2a_server.protocol.codec.expected import expected_message
from a2a_server.protocol.codec.faults import WRONG, Faults, key_path, note, shown
from a2a_server.protocol.codec.scalars import base64
from a2a_server.protocol.codec.schema import OWN_FORM, class_of

Lookup = Callable[[Descriptor], Callable[..., Any]]

_TYPE, _VALUE = "@type", "value"


@dataclass(frozen=True, slots=True)
class AnyWriter:
    writer: Lookup

    def __call__(self, message: any_pb2.Any) -> dict[str, object]:
        if not (message.type_url or message.value):
            return {}
        try:
            kind = _kind_of(message, message.type_url)
            inner = class_of(kind).FromString(message.value)
        except (LookupError, DecodeError):  # a type of somebody else: the reader may know it
            return {_TYPE: message.type_url, _VALUE: base64(message.value)}
        written = self.writer(kind)(inner)
        return {_TYPE: message.type_url, **({_VALUE: written} if kind.full_name in OWN_FORM else written)}


@dataclass(frozen=True, slots=True)
class AnyReader:
    reader: Lookup

    def __call__(self, value: object, message: any_pb2.Any) -> None:
        if type(value) is not dict:
            raise TypeError
        if not value:
            return
        kind = _named(value, message)
        inner = class_of(kind)()
        if kind.full_name in OWN_FORM:
            self._read_value(value, kind, inner)
        else:
            self.reader(kind)(value, inner)
        message.type_url = value[_TYPE]
        message.value = inner.SerializeToString()

    def _read_value(self, value: dict[str, object], kind: Descriptor, inner: Message) -> None:
        try:
            self.reader(kind)(value[_VALUE], inner)
        except WRONG as error:
            raise note(None, f".{_VALUE}", expected_message(kind), value.get(_VALUE), error) from None


def _named(value: dict[str, object], message: any_pb2.Any) -> Descriptor:
    name = value.get(_TYPE)
    try:
        return _kind_of(message, cast("str", name))
    except (LookupError, TypeError, AttributeError):
        faults = Faults()
        faults.add(key_path(_TYPE), f"must name a known type of message, got {shown(name)}")
        raise faults from None


def _kind_of(message: any_pb2.Any, url: str) -> Descriptor:
    pool = message.DESCRIPTOR.file.pool
    return pool.FindMessageTypeByName(url.rpartition("/")[2])
