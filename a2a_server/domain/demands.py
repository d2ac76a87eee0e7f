"""What the schema demands of messages of one type, read off its descriptor once (spec: GEN-04, GEN-05, MSGS-03).

The schema has no message that contains itself, except the free-form ones; so a plan is a tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from google.api import field_behavior_pb2
from google.protobuf import struct_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

_FREE_FORM: Final = frozenset(kind.DESCRIPTOR.full_name for kind in (struct_pb2.Struct, struct_pb2.Value))


@dataclass(frozen=True, slots=True)
class Enum:
    name: str
    numbers: frozenset[int]
    names: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A oneof of which a member must be set."""

    name: str
    members: tuple[str, ...]

    @property
    def complaint(self) -> str:
        return f"must hold exactly one of {', '.join(self.members)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to look at in messages of one type, by the way it is looked at."""

    values: tuple[tuple[str, str], ...]
    """Required fields that are absent when falsy, with the complaint."""
    present: tuple[str, ...]
    """Required submessages."""
    enums: tuple[Enum, ...]
    oneofs: tuple[Choice, ...]
    free_form: tuple[str, ...]
    single: tuple[tuple[str, Plan], ...]
    lists: tuple[tuple[str, Plan], ...]
    maps: tuple[tuple[str, Plan], ...]

    def __bool__(self) -> bool:
        """Whether there is anything to look at."""
        here = self.values or self.present or self.enums or self.oneofs or self.free_form
        return bool(here or self.single or self.lists or self.maps)

    @property
    def required(self) -> frozenset[str]:
        """Required fields other than submessages."""
        return frozenset(name for name, _ in self.values)

    @property
    def refuses_empty(self) -> bool:
        """Whether a message without content is at fault."""
        return bool(self.values or self.present or self.oneofs)


@cache
def plan_of(kind: Descriptor) -> Plan:
    fields = kind.fields
    required = [field for field in fields if _is_required(field)]
    return Plan(
        values=tuple((field.name, _absence(field)) for field in required if not field.has_presence),
        present=tuple(field.name for field in required if field.has_presence),
        enums=tuple(_enum(field.name, field.enum_type) for field in fields if field.enum_type),
        oneofs=tuple(_choices(kind)),
        free_form=tuple(field.name for field in fields if _is_free_form(field)),
        single=tuple((field.name, plan) for field, plan in _children(fields) if not field.is_repeated),
        lists=tuple((f.name, plan) for f, plan in _children(fields) if f.is_repeated and not _is_map(f)),
        maps=tuple((field.name, plan) for field, plan in _children(fields) if _is_map(field)),
    )


def _children(fields: Iterable[FieldDescriptor]) -> Iterator[tuple[FieldDescriptor, Plan]]:
    """Fields whose messages are worth a visit."""
    for field in fields:
        item = field.message_type
        if item and _is_map(field):
            item = item.fields_by_name["value"].message_type
        if item and not _is_free_form(field) and (plan := plan_of(item)):
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


def _enum(name: str, enum: EnumDescriptor) -> Enum:
    return Enum(name, frozenset(enum.values_by_number), _names(enum))


def _names(enum: EnumDescriptor) -> str:
    # Zero is the unspecified value: it may be sent and means absence.
    return ", ".join(value.name for value in enum.values if value.number)


def _choices(kind: Descriptor) -> Iterator[Choice]:
    """Oneofs of the protocol; `optional` fields hide in one as well, of their own, whose name starts with `_`."""
    for oneof in kind.oneofs:
        if not oneof.name.startswith("_"):
            yield Choice(oneof.name, tuple(field.name for field in oneof.fields))
