"""The demands of the schema on a message, and the faults of a message (spec: GEN-04, GEN-05, SEND-02, MSGS-03).

There are five demands. REQUIRED fields are present, enums hold a known number, a oneof has one member set, and
free-form values are not nested too deeply and hold only numbers that JSON can write.
The demands on a type are read from its descriptor once. No message of the schema contains itself, apart from the
free-form ones, so the demands on a type and on all that it contains form a tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from google.protobuf import struct_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from a2a_server.domain.free_form import fault_of
from a2a_server.protocol.codec.dialect import is_required, map_entry
from a2a_server.protocol.errors import Violation

_FREE_FORM: Final = frozenset(kind.DESCRIPTOR.full_name for kind in (struct_pb2.Struct, struct_pb2.Value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What to check in messages of one type, grouped by how it is checked."""

    values: tuple[tuple[str, str], ...]
    """Required fields without presence: they are absent when falsy. With the complaint."""
    present: tuple[str, ...]
    """Required fields with presence: submessages."""
    enums: Mapping[str, EnumDescriptor]
    """Fields whose number must be a known one."""
    oneofs: Mapping[str, Sequence[str]]
    """Oneofs of which a member must be set, with their members."""
    free_form: tuple[str, ...]
    single: tuple[tuple[str, Demands], ...]
    lists: tuple[tuple[str, Demands], ...]
    maps: tuple[tuple[str, Demands], ...]

    def __bool__(self) -> bool:
        """Whether there is anything to check."""
        here = self.values or self.present or self.enums or self.oneofs or self.free_form
        return bool(here or self.single or self.lists or self.maps)


@cache
def demands_of(kind: Descriptor) -> Demands:
    fields = kind.fields
    required = [field for field in fields if is_required(field)]
    return Demands(
        values=tuple((field.name, _absence(field)) for field in required if not field.has_presence),
        present=tuple(field.name for field in required if field.has_presence),
        enums={field.name: field.enum_type for field in fields if field.enum_type},
        # Protobuf also makes a oneof for each `optional` field. Its name starts with `_`.
        oneofs={one.name: [field.name for field in one.fields] for one in kind.oneofs if not one.name.startswith("_")},
        free_form=tuple(field.name for field in fields if _is_free_form(field)),
        single=tuple((field.name, demands) for field, demands in _children(fields) if not field.is_repeated),
        lists=tuple((f.name, demands) for f, demands in _children(fields) if f.is_repeated and not map_entry(f)),
        maps=tuple((field.name, demands) for field, demands in _children(fields) if map_entry(field)),
    )


def _children(fields: Iterable[FieldDescriptor]) -> Iterator[tuple[FieldDescriptor, Demands]]:
    """Fields whose messages have something to check."""
    for field in fields:
        entry = map_entry(field)
        item = entry[1].message_type if entry else field.message_type
        if item and not _is_free_form(field) and (demands := demands_of(item)):
            yield field, demands


def _is_free_form(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name in _FREE_FORM


def _absence(field: FieldDescriptor) -> str:
    if field.enum_type:
        return f"is required; allowed are {_names(field.enum_type)}"
    return "needs at least one element" if field.is_repeated else "is required"


def _names(enum: EnumDescriptor) -> str:
    # Zero is the unspecified value: clients may send it, and it means absence.
    return ", ".join(value.name for value in enum.values if value.number)


def faults_of(message: Message, prefix: str = "") -> list[Violation]:
    """List every fault of a message and of what it contains; fields in proto spelling, with indexes."""
    return list(_walk(demands_of(message.DESCRIPTOR), message, prefix))


def _walk(demands: Demands, message: Any, prefix: str) -> Iterator[Violation]:  # noqa: ANN401 - any message
    yield from _absent(demands, message, prefix)
    yield from _wrong(demands, message, prefix)
    for name, child in demands.single:
        if message.HasField(name):
            yield from _walk(child, getattr(message, name), f"{prefix}{name}.")
    for name, child in demands.lists:
        for index, item in enumerate(getattr(message, name)):
            yield from _walk(child, item, f"{prefix}{name}[{index}].")
    for name, child in demands.maps:
        for key, item in getattr(message, name).items():
            yield from _walk(child, item, f"{prefix}{name}[{key}].")


def _absent(demands: Demands, message: Any, prefix: str) -> Iterator[Violation]:  # noqa: ANN401 - as above
    for name, complaint in demands.values:
        if not getattr(message, name):
            yield Violation(prefix + name, complaint)
    for name in demands.present:
        if not message.HasField(name):
            yield Violation(prefix + name, "is required")
    for name, members in demands.oneofs.items():
        if message.WhichOneof(name) is None:
            yield Violation(prefix.removesuffix(".") or name, f"must hold exactly one of {', '.join(members)}")


def _wrong(demands: Demands, message: Any, prefix: str) -> Iterator[Violation]:  # noqa: ANN401 - as above
    for name, enum in demands.enums.items():
        if (number := getattr(message, name)) not in enum.values_by_number:
            yield Violation(prefix + name, f"unknown value {number}; allowed are {_names(enum)}")
    for name in demands.free_form:
        if message.HasField(name) and (complaint := fault_of(getattr(message, name))):
            yield Violation(prefix + name, complaint)
