"""What the schema itself demands of a message (spec: GEN-04, GEN-05, SEND-02, MSGS-03).

Five demands: fields annotated REQUIRED are there, enums hold a number that has a name, a oneof holds one member, and
free-form values nest no deeper than protobuf parsers read and hold no number that JSON cannot say.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import struct_pb2
from google.protobuf.message import Message

from a2a_server.domain.compiled import checker_of
from a2a_server.domain.demands import Enum, Plan, plan_of
from a2a_server.domain.nesting import TOO_DEEP, is_void, too_deep
from a2a_server.domain.numbers import NOT_FINITE, is_finite
from a2a_server.protocol.errors import Violation


def required_violations(message: Message, prefix: str = "") -> list[Violation]:
    """All faults of a message and of what it contains; fields in proto spelling, with indexes."""
    return [] if checker_of(message.DESCRIPTOR)(message) else faults_of(message, prefix)


def faults_of(message: Message, prefix: str) -> list[Violation]:
    """The same by walking along the plan: for the few messages with whom something is wrong."""
    faults: list[Violation] = []
    _walk(plan_of(message.DESCRIPTOR), message, prefix, faults)
    return faults


def _walk(plan: Plan, message: Any, prefix: str, faults: list[Violation]) -> None:  # noqa: ANN401 - any message
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


def _look(plan: Plan, message: Any, prefix: str, faults: list[Violation]) -> None:  # noqa: ANN401 - any message
    for name, complaint in plan.values:
        if not getattr(message, name):
            faults.append(Violation(prefix + name, complaint))
    for name in plan.present:
        if not message.HasField(name):
            faults.append(Violation(prefix + name, "is required"))  # noqa: PERF401 - like its neighbours
    for oneof in plan.oneofs:
        if message.WhichOneof(oneof.name) is None:
            faults.append(Violation(prefix.removesuffix(".") or oneof.name, oneof.complaint))  # noqa: PERF401 - as above
    for enum in plan.enums:
        _look_up(enum, getattr(message, enum.name), prefix, faults)
    for name in plan.free_form:
        if message.HasField(name):
            _look_inside(getattr(message, name), prefix + name, faults)


def _look_up(enum: Enum, number: int, prefix: str, faults: list[Violation]) -> None:
    if number not in enum.numbers:
        faults.append(Violation(prefix + enum.name, f"unknown value {number}; allowed are {enum.names}"))


def _look_inside(value: struct_pb2.Struct | struct_pb2.Value, field: str, faults: list[Violation]) -> None:
    if is_void(value):
        faults.append(Violation(field, "holds no value; JSON's null is `null_value`"))
    elif too_deep(value):
        faults.append(Violation(field, TOO_DEEP))
    elif not is_finite(value):
        faults.append(Violation(field, NOT_FINITE))
