"""Fast checks of the schema's demands, as one generated function per message type (spec: GEN-04, GEN-05, MSGS-03).

Every call checks several messages, and nearly all of them are valid. So the usual case is a flat function that only
says yes or no; only when it says no does `demands.faults_of` walk the message to find out what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from a2a_server.domain.demands import Demands, demands_of, faults_of
from a2a_server.domain.free_form import readable
from a2a_server.protocol.errors import Violation

_INDENT: Final = "    "


@cache
def checker_of(kind: Descriptor) -> Callable[[Any], bool]:
    """The function that says whether a message of this type, with all it contains, meets the schema's demands."""
    names: dict[str, Any] = {"readable": readable}
    exec(_source(demands_of(kind)), names)  # noqa: S102 - the text is made from our own schema, never from input
    checker: Callable[[Any], bool] = names["is_sound"]
    return checker


def required_violations(message: Message, prefix: str = "") -> list[Violation]:
    """All faults of a message and of what it contains; nearly every message has none."""
    return [] if checker_of(message.DESCRIPTOR)(message) else faults_of(message, prefix)


def _source(demands: Demands) -> str:
    return "\n".join(["def is_sound(m0):", *_indented(_lines(demands, 0)), f"{_INDENT}return True", ""])


def _lines(demands: Demands, depth: int) -> Iterator[str]:
    """Check the message in the variable `m<depth>`, the cheapest first; what it contains goes into `m<depth + 1>`."""
    m = f"m{depth}"
    for name in _simple(demands):
        yield from _demand(f"{m}.{name}")
    for enum in demands.enums:
        numbers = enum.numbers - {0} if enum.name in demands.required else enum.numbers
        yield from _demand(f"{m}.{enum.name} in {set(numbers)}")
    for oneof in demands.oneofs:
        yield f"{m}_{oneof.name} = {m}.WhichOneof({oneof.name!r})"
        yield from _demand(f"{m}_{oneof.name}")
    for name in demands.present:
        if name not in _certain(demands):
            yield from _demand(f"{m}.HasField({name!r})")
    for name in demands.free_form:
        yield f"if {_presence(demands, m, name)}:"
        yield from _indented(_demand(f"readable({m}.{name})"))
    yield from _messages(demands, m, depth + 1)
    yield from _collections(demands, m, depth + 1)


def _messages(demands: Demands, m: str, depth: int) -> Iterator[str]:
    for name, child in demands.single:
        lines = (f"m{depth} = {m}.{name}", *_lines(child, depth))
        if name in demands.present:
            yield from lines
        else:
            yield f"if {_presence(demands, m, name)}:"
            yield from _indented(lines)


def _collections(demands: Demands, m: str, depth: int) -> Iterator[str]:
    for name, child in demands.lists:
        yield f"{m}_items = {m}.{name}[:]"  # a slice: protobuf's own iterator ends with a slow IndexError
        if name in demands.required:
            yield from _demand(f"{m}_items")
        yield f"for m{depth} in {m}_items:"
        yield from _indented(_lines(child, depth))
    for name, child in demands.maps:
        yield f"for m{depth} in {m}.{name}.values():"
        yield from _indented(_lines(child, depth))


def _demand(condition: str) -> tuple[str, str]:
    return f"if not {condition}:", f"{_INDENT}return False"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)


def _simple(demands: Demands) -> Iterator[str]:
    """Required fields that no other check reads."""
    elsewhere = {enum.name for enum in demands.enums} | {name for name, _ in demands.lists}
    return (name for name, _ in demands.values if name not in elsewhere)


def _certain(demands: Demands) -> set[str]:
    """Messages whose absence another check finds: an absent message reads as an empty one, which is refused."""
    return {name for name, child in demands.single if child.refuses_empty}


def _presence(demands: Demands, m: str, name: str) -> str:
    for oneof in demands.oneofs:
        if name in oneof.members:
            return f"{m}_{oneof.name} == {name!r}"
    return f"{m}.HasField({name!r})"
