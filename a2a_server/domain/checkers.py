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
    lines = ["def is_sound(m0):", *_indented(_lines(demands_of(kind), 0)), f"{_INDENT}return True", ""]
    exec("\n".join(lines), names)  # noqa: S102 - the text is made from our own schema, never from input
    checker: Callable[[Any], bool] = names["is_sound"]
    return checker


def required_violations(message: Message) -> list[Violation]:
    """All faults of a message and of what it contains; nearly every message has none."""
    return [] if checker_of(message.DESCRIPTOR)(message) else faults_of(message)


def _lines(demands: Demands, depth: int) -> Iterator[str]:
    """Check the message in the variable `m<depth>`, the cheapest first; what it contains goes into `m<depth + 1>`."""
    m = f"m{depth}"
    for name, _ in demands.values:
        yield from _demand(f"{m}.{name}")
    for name, enum in demands.enums.items():
        yield from _demand(f"{m}.{name} in {set(enum.values_by_number)}")
    for name in demands.oneofs:
        yield f"{m}_{name} = {m}.WhichOneof({name!r})"
        yield from _demand(f"{m}_{name}")
    for name in demands.present:
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
        yield f"for m{depth} in {m}.{name}[:]:"  # a slice: protobuf's own iterator ends with a slow IndexError
        yield from _indented(_lines(child, depth))
    for name, child in demands.maps:
        yield f"for m{depth} in {m}.{name}.values():"
        yield from _indented(_lines(child, depth))


def _demand(condition: str) -> tuple[str, str]:
    return f"if not {condition}:", f"{_INDENT}return False"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)


def _presence(demands: Demands, m: str, name: str) -> str:
    for oneof, members in demands.oneofs.items():
        if name in members:
            return f"{m}_{oneof} == {name!r}"
    return f"{m}.HasField({name!r})"
