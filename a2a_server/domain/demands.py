"""What the schema demands of a message, and where a message falls short (spec: GEN-04, GEN-05, SEND-02, MSGS-03).

There are five demands. REQUIRED fields are present, enums hold a known number, a oneof has one member set, and
free-form values are not nested too deeply and hold only numbers that JSON can write.
The demands on a type are read from its descriptor once. No message of the schema contains itself, apart from the
free-form ones, so the demands on a type and on all that it contains form a tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from google.api import field_behavior_pb2
from google.protobuf import struct_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from a2a_server.domain.free_form import NOT_FINITE, TOO_DEEP, is_finite, is_void, too_deep
from a2a_server.protocol.errors import Violation

_FREE_FORM: Final = frozenset(kind.DESCRIPTOR.full_name for kind in (struct_pb2.Struct, struct_pb2.Value))


@dataclass(frozen=True, slots=True)
class KnownEnum:
    name: str
    numbers: frozenset[int]
    names: str


@dataclass(frozen=True, slots=True)
class RequiredOneof:
    """A oneof with a member that must be set."""

    name: str
    members: tuple[str, ...]

    @property
    def complaint(self) -> str:
        return f"must hold exactly one of {', '.join(self.members)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What to check in messages of one type, grouped by how it is checked."""

    values: tuple[tuple[str, str], ...]
    """Required fields without presence: they are absent when falsy. With the complaint."""
    present: tuple[str, ...]
    """Required fields with presence: submessages."""
    enums: tuple[KnownEnum, ...]
    oneofs: tuple[RequiredOneof, ...]
    free_form: tuple[str, ...]
    single: tuple[tuple[str, Demands], ...]
    lists: tuple[tuple[str, Demands], ...]
    maps: tuple[tuple[str, Demands], ...]

    def __bool__(self) -> bool:
        """Whether there is anything to check."""
        here = self.values or self.present or self.enums or self.oneofs or self.free_form
        return bool(here or self.single or self.lists or self.maps)

    @property
    def required(self) -> frozenset[str]:
        """Required fields other than submessages."""
        return frozenset(name for name, _ in self.values)

    @property
    def refuses_empty(self) -> bool:
        """Whether an empty message is invalid."""
        return bool(self.values or self.present or self.oneofs)


@cache
def demands_of(kind: Descriptor) -> Demands:
    fields = kind.fields
    required = [field for field in fields if _is_required(field)]
    return Demands(
        values=tuple((field.name, _absence(field)) for field in required if not field.has_presence),
        present=tuple(field.name for field in required if field.has_presence),
        enums=tuple(_enum(field.name, field.enum_type) for field in fields if field.enum_type),
        oneofs=tuple(_choices(kind)),
        free_form=tuple(field.name for field in fields if _is_free_form(field)),
        single=tuple((field.name, demands) for field, demands in _children(fields) if not field.is_repeated),
        lists=tuple((f.name, demands) for f, demands in _children(fields) if f.is_repeated and not _is_map(f)),
        maps=tuple((field.name, demands) for field, demands in _children(fields) if _is_map(field)),
    )


def _children(fields: Iterable[FieldDescriptor]) -> Iterator[tuple[FieldDescriptor, Demands]]:
    """Fields whose messages have something to check."""
    for field in fields:
        item = field.message_type
        if item and _is_map(field):
            item = item.fields_by_name["value"].message_type
        if item and not _is_free_form(field) and (demands := demands_of(item)):
            yield field, demands


def _is_required(field: FieldDescriptor) -> bool:
    return field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _is_free_form(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name in _FREE_FORM


def _absence(field: FieldDescriptor) -> str:
    if field.enum_type:
        return f"is required; allowed are {_names(field.enum_type)}"
    return "needs at least one element" if field.is_repeated else "is required"


def _enum(name: str, enum: EnumDescriptor) -> KnownEnum:
    return KnownEnum(name, frozenset(enum.values_by_number), _names(enum))


def _names(enum: EnumDescriptor) -> str:
    # Zero is the unspecified value: clients may send it, and it means absence.
    return ", ".join(value.name for value in enum.values if value.number)


def _choices(kind: Descriptor) -> Iterator[RequiredOneof]:
    """Oneofs of the protocol. Protobuf also makes one per `optional` field, whose name starts with `_`."""
    for oneof in kind.oneofs:
        if not oneof.name.startswith("_"):
            yield RequiredOneof(oneof.name, tuple(field.name for field in oneof.fields))


def faults_of(message: Message, prefix: str) -> list[Violation]:
    """List every fault of a message and of what it contains; fields in proto spelling, with indexes."""
    faults: list[Violation] = []
    _walk(demands_of(message.DESCRIPTOR), message, prefix, faults)
    return faults


def _walk(demands: Demands, message: Any, prefix: str, faults: list[Violation]) -> None:  # noqa: ANN401 - any message
    _look(demands, message, prefix, faults)
    for name, child in demands.single:
        if message.HasField(name):
            _walk(child, getattr(message, name), f"{prefix}{name}.", faults)
    for name, child in demands.lists:
        for index, item in enumerate(getattr(message, name)):
            _walk(child, item, f"{prefix}{name}[{index}].", faults)
    for name, child in demands.maps:
        for key, item in getattr(message, name).items():
            _walk(child, item, f"{prefix}{name}[{key}].", faults)


def _look(demands: Demands, message: Any, prefix: str, faults: list[Violation]) -> None:  # noqa: ANN401 - any message
    for name, complaint in demands.values:
        if not getattr(message, name):
            faults.append(Violation(prefix + name, complaint))
    for name in demands.present:
        if not message.HasField(name):
            faults.append(Violation(prefix + name, "is required"))  # noqa: PERF401 - like its neighbours
    for oneof in demands.oneofs:
        if message.WhichOneof(oneof.name) is None:
            faults.append(Violation(prefix.removesuffix(".") or oneof.name, oneof.complaint))  # noqa: PERF401 - as above
    for enum in demands.enums:
        _look_up(enum, getattr(message, enum.name), prefix, faults)
    for name in demands.free_form:
        if message.HasField(name):
            _look_inside(getattr(message, name), prefix + name, faults)


def _look_up(enum: KnownEnum, number: int, prefix: str, faults: list[Violation]) -> None:
    if number not in enum.numbers:
        faults.append(Violation(prefix + enum.name, f"unknown value {number}; allowed are {enum.names}"))


def _look_inside(value: struct_pb2.Struct | struct_pb2.Value, field: str, faults: list[Violation]) -> None:
    if is_void(value):
        faults.append(Violation(field, "holds no value; JSON's null is `null_value`"))
    elif too_deep(value):
        faults.append(Violation(field, TOO_DEEP))
    elif not is_finite(value):
        faults.append(Violation(field, NOT_FINITE))
