"""What the schema itself demands of a message, read off its descriptor once (spec: GEN-04, GEN-05, SEND-02, MSGS-03).

Four demands: fields annotated REQUIRED are there, enums hold a number that has a name, a oneof holds one member, and
free-form values nest no deeper than protobuf parsers read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from google.api import field_behavior_pb2
from google.protobuf import struct_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.message import Message

from a2a_server.domain.nesting import TOO_DEEP, too_deep
from a2a_server.errors import Violation

_FREE_FORM: Final = frozenset(kind.DESCRIPTOR.full_name for kind in (struct_pb2.Struct, struct_pb2.Value))


@dataclass(frozen=True, slots=True)
class _Enum:
    name: str
    numbers: frozenset[int]
    names: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What to look at in messages of one type, by the way it is looked at."""

    values: tuple[tuple[str, str], ...]
    """Required fields that are absent when falsy, with the complaint."""
    present: tuple[str, ...]
    """Required submessages."""
    enums: tuple[_Enum, ...]
    oneofs: tuple[tuple[str, str], ...]
    """Oneofs of which a member must be set, with the complaint."""
    free_form: tuple[str, ...]
    single: tuple[tuple[str, _Plan], ...]
    lists: tuple[tuple[str, _Plan], ...]
    maps: tuple[tuple[str, _Plan], ...]

    def __bool__(self) -> bool:
        """Whether there is anything to look at."""
        here = self.values or self.present or self.enums or self.oneofs or self.free_form
        return bool(here or self.single or self.lists or self.maps)


def required_violations(message: Message, prefix: str = "") -> list[Violation]:
    """All faults of a message and of what it contains; fields in proto spelling, with indexes."""
    faults: list[Violation] = []
    _walk(_plan(message.DESCRIPTOR), message, prefix, faults)
    return faults


def _walk(plan: _Plan, message: Any, prefix: str, faults: list[Violation]) -> None:  # noqa: ANN401 - any message
    _look(plan, message, prefix, faults)
    for name, child in plan.single:
        if message.HasField(name):
            _walk(child, getattr(message, name), f"{prefix}{name}.", faults)
    for name, child in plan.lists:
        for index, item in enumerate(getattr(message, name)):
            _walk(child, item, f"{prefix}{name}[{index}].", faults)
    for name, child in plan.maps:
        for key, item in getattr(message, name).items():
            _walk(child, item, f"{prefix}{name}[{key}].", faults)


def _look(plan: _Plan, message: Any, prefix: str, faults: list[Violation]) -> None:  # noqa: ANN401 - any message
    # Plain loops and no generators: this runs several times on every call.
    for name, complaint in plan.values:
        if not getattr(message, name):
            faults.append(Violation(prefix + name, complaint))
    for name in plan.present:
        if not message.HasField(name):
            faults.append(Violation(prefix + name, "is required"))  # noqa: PERF401 - see above
    for name, complaint in plan.oneofs:
        if message.WhichOneof(name) is None:
            faults.append(Violation(prefix.removesuffix(".") or name, complaint))
    for enum in plan.enums:
        _look_up(enum, getattr(message, enum.name), prefix, faults)
    for name in plan.free_form:
        if message.HasField(name):
            _look_inside(getattr(message, name), prefix + name, faults)


def _look_up(enum: _Enum, number: int, prefix: str, faults: list[Violation]) -> None:
    if number not in enum.numbers:
        faults.append(Violation(prefix + enum.name, f"unknown value {number}; allowed are {enum.names}"))


def _look_inside(value: struct_pb2.Struct | struct_pb2.Value, field: str, faults: list[Violation]) -> None:
    if isinstance(value, struct_pb2.Value) and value.WhichOneof("kind") is None:
        faults.append(Violation(field, "holds no value; JSON's null is `null_value`"))
    elif too_deep(value):
        faults.append(Violation(field, TOO_DEEP))


# -- making plans; the schema has no message that contains itself, except the free-form ones


@cache
def _plan(kind: Descriptor) -> _Plan:
    fields = kind.fields
    required = [field for field in fields if _is_required(field)]
    return _Plan(
        values=tuple((field.name, _absence(field)) for field in required if not field.has_presence),
        present=tuple(field.name for field in required if field.has_presence),
        enums=tuple(_enum(field.name, field.enum_type) for field in fields if field.enum_type),
        oneofs=tuple((oneof.name, f"must hold exactly one of {_members(oneof)}") for oneof in _choices(kind)),
        free_form=tuple(field.name for field in fields if _is_free_form(field)),
        single=tuple((field.name, plan) for field, plan in _children(fields) if not field.is_repeated),
        lists=tuple((f.name, plan) for f, plan in _children(fields) if f.is_repeated and not _is_map(f)),
        maps=tuple((field.name, plan) for field, plan in _children(fields) if _is_map(field)),
    )


def _children(fields: Iterable[FieldDescriptor]) -> Iterator[tuple[FieldDescriptor, _Plan]]:
    """Fields whose messages are worth a visit."""
    for field in fields:
        item = field.message_type
        if item and _is_map(field):
            item = item.fields_by_name["value"].message_type
        if item and not _is_free_form(field) and (plan := _plan(item)):
            yield field, plan


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


def _enum(name: str, enum: EnumDescriptor) -> _Enum:
    return _Enum(name, frozenset(enum.values_by_number), _names(enum))


def _names(enum: EnumDescriptor) -> str:
    # Zero is the unspecified value: it may be sent and means absence.
    return ", ".join(value.name for value in enum.values if value.number)


def _choices(kind: Descriptor) -> Iterator[OneofDescriptor]:
    """Oneofs of the protocol; `optional` fields hide in one as well, of their own, whose name starts with `_`."""
    return (oneof for oneof in kind.oneofs if not oneof.name.startswith("_"))


def _members(oneof: OneofDescriptor) -> str:
    return ", ".join(field.name for field in oneof.fields)
