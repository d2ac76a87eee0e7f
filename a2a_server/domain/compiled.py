"""Whether a message is sound, answered by a flat function written for its type (spec: GEN-04, GEN-05, MSGS-03).

The functions are generated because each call checks several messages, nearly all of them sound: a walk along the plan
takes several times as long as the few accesses that matter. They only say yes or no; `structure` walks to say what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final

from google.protobuf import struct_pb2
from google.protobuf.descriptor import Descriptor

from a2a_server.domain.demands import Plan, plan_of
from a2a_server.domain.fields import has, which_of
from a2a_server.domain.nesting import SHALLOW, is_void, too_deep
from a2a_server.domain.numbers import NUMBER, is_finite

_INDENT: Final = "    "


@cache
def checker_of(kind: Descriptor) -> Callable[[Any], bool]:
    """A function that says whether a message of the type, with all that it contains, is as the schema demands."""
    scope: dict[str, Any] = {"readable": readable, "has": has, "which_of": which_of}
    exec(_source(plan_of(kind)), scope)  # noqa: S102 - made of our own schema's names, and of no input
    checker: Callable[[Any], bool] = scope["is_sound"]
    return checker


def readable(value: struct_pb2.Struct | struct_pb2.Value) -> bool:
    """Whether a free-form value can be read back, by everybody."""
    raw = value.SerializeToString()
    if 0 < len(raw) < SHALLOW and NUMBER not in raw:  # as nearly always: neither void, nor deep, nor a number in it
        return True
    return not (is_void(value) or too_deep(value)) and is_finite(value)


def _source(plan: Plan) -> str:
    return "\n".join(["def is_sound(m0):", *_indented(_lines(plan, 0)), f"{_INDENT}return True", ""])


def _lines(plan: Plan, depth: int) -> Iterator[str]:
    """Look at the message in `m<depth>`, the cheapest first; what it contains is put into `m<depth + 1>` in turn."""
    m = f"m{depth}"
    for name in _simple(plan):
        yield from _demand(f"{m}.{name}")
    for enum in plan.enums:
        numbers = enum.numbers - {0} if enum.name in plan.required else enum.numbers
        yield from _demand(f"{m}.{enum.name} in {set(numbers)}")
    for oneof in plan.oneofs:
        yield f"{m}_{oneof.name} = which_of({m}, {oneof.name!r})"
        yield from _demand(f"{m}_{oneof.name}")
    for name in plan.present:
        if name not in _certain(plan):
            yield from _demand(f"has({m}, {name!r})")
    for name in plan.free_form:
        yield f"if {_presence(plan, m, name)}:"
        yield from _indented(_demand(f"readable({m}.{name})"))
    yield from _messages(plan, m, depth + 1)
    yield from _collections(plan, m, depth + 1)


def _messages(plan: Plan, m: str, depth: int) -> Iterator[str]:
    for name, child in plan.single:
        lines = (f"m{depth} = {m}.{name}", *_lines(child, depth))
        if name in plan.present:
            yield from lines
        else:
            yield f"if {_presence(plan, m, name)}:"
            yield from _indented(lines)


def _collections(plan: Plan, m: str, depth: int) -> Iterator[str]:
    for name, child in plan.lists:
        yield f"{m}_items = {m}.{name}[:]"  # as a list: protobuf's own way to iterate is slow to notice the end
        if name in plan.required:
            yield from _demand(f"{m}_items")
        yield f"for m{depth} in {m}_items:"
        yield from _indented(_lines(child, depth))
    for name, child in plan.maps:
        yield f"for m{depth} in {m}.{name}.values():"
        yield from _indented(_lines(child, depth))


def _demand(condition: str) -> tuple[str, str]:
    return f"if not {condition}:", f"{_INDENT}return False"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)


def _simple(plan: Plan) -> Iterator[str]:
    """Required fields that are read nowhere else."""
    elsewhere = {enum.name for enum in plan.enums} | {name for name, _ in plan.lists}
    return (name for name, _ in plan.values if name not in elsewhere)


def _certain(plan: Plan) -> set[str]:
    """Messages whose absence shows anyway: an absent message reads as an empty one."""
    return {name for name, child in plan.single if child.refuses_empty}


def _presence(plan: Plan, m: str, name: str) -> str:
    for oneof in plan.oneofs:
        if name in oneof.members:
            return f"{m}_{oneof.name} == {name!r}"
    return f"has({m}, {name!r})"
