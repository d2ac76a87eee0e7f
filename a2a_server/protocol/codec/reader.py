"""Generates functions that put a JSON value into a message of one type (spec: JSON-03 to -05, GEN-06, LRPC-04).

What is generated for a `Part`:

    def run(value, m, faults=None):
        if type(value) is not dict:
            raise TypeError
        get = value.get
        left = len(value)
        which_content = None
        v = get('text')
        if v is not None:
            left -= 1
            if which_content:
                faults = clash(faults, '.text', which_content, 'text, raw, url, data')
            which_content = 'text'
            try:
                m.text = v
            except WRONG as error:
                faults = note(faults, '.text', 'a string', v, error)
            if not (left or faults):
                return
        ...
        if left:
            found, faults = rest(value, faults)
            if found:
                return run(found, m, faults)
        if faults:
            raise faults

Setting fields one by one is the fastest way to fill a message, and protobuf itself checks strings and bounds. A `try`
costs nothing until something is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor

from a2a_server.protocol.codec import scalars
from a2a_server.protocol.codec.compiler import INDENT, Compiler, Function, Globals, assignment, attribute, indented
from a2a_server.protocol.codec.dialect import WRAPPERS, Dialect, choice, class_of, is_nullable, map_entry
from a2a_server.protocol.codec.faults import WRONG, complain, elements, entry, expected, note
from a2a_server.protocol.codec.leftovers import Leftovers, clash
from a2a_server.protocol.codec.wellknown import known_readers

_READERS: Final[dict[int, Function]] = {
    FieldDescriptor.CPPTYPE_BOOL: scalars.boolean,
    FieldDescriptor.CPPTYPE_DOUBLE: scalars.real,
    FieldDescriptor.CPPTYPE_FLOAT: scalars.single,
}
_HELPERS: Final = {helper.__name__: helper for helper in (clash, complain, elements, entry, note)}
_RUNTIME: Final = {"WRONG": WRONG, "MISSING": object(), **_HELPERS}


class JsonReaders(Compiler):
    """Functions that put a JSON value into an empty message, in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        forms = {name: form.read for name, form in dialect.forms.items() if form.read}
        super().__init__(known_readers(self.of), forms, self._lines)

    def _lines(self, kind: Descriptor, scope: Globals) -> Iterator[str]:
        if kind.full_name in WRAPPERS:
            yield "def run(value, m):"
            yield f"{INDENT}m.value = {self._item(kind.fields_by_name['value'], 'value', scope)}"
            return
        scope.members.update(_RUNTIME, rest=Leftovers.of(kind, self._dialect), Self=class_of(kind))
        yield "def run(value, m, faults=None):"
        yield from indented(self._body(kind, scope))
        for field in kind.fields:
            if parts := map_entry(field):
                yield from _key_alone(field, parts[0], scope)
            elif field.is_repeated and not field.message_type:
                yield from self._element_alone(field, scope)

    def _body(self, kind: Descriptor, scope: Globals) -> Iterator[str]:
        yield "if type(value) is not dict:"
        yield f"{INDENT}raise TypeError"
        yield "get = value.get"
        yield "left = len(value)"
        for name in dict.fromkeys(oneof.name for field in kind.fields if (oneof := choice(field))):
            yield f"which_{name} = None"
        for name, value in self._dialect.constants.get(kind.full_name, {}).items():
            if isinstance(value, str):
                yield from _constant(name, value)
        for field in self._dialect.fields(kind):
            yield from self._field(field, scope)
        yield "if left:"  # other spellings, nulls and unknown members
        yield f"{INDENT}found, faults = rest(value, faults)"
        yield f"{INDENT}if found:"
        yield f"{INDENT * 2}return run(found, m, faults)"
        yield "if faults:"
        yield f"{INDENT}raise faults"

    def _field(self, field: FieldDescriptor, scope: Globals) -> Iterator[str]:
        name, absent = self._dialect.member(field), "None"
        if is_nullable(field):
            absent = "MISSING"
            yield f"v = get({name!r}, MISSING)"
        else:
            yield f"v = get({name!r})"
        yield f"if v is not {absent}:"
        yield f"{INDENT}left -= 1"
        if oneof := choice(field):
            yield from indented(self._compete(field, oneof))
        yield from indented(self._read(field, scope))
        yield f"{INDENT}if not (left or faults):"  # most objects have only a few of the first members
        yield f"{INDENT * 2}return"

    def _compete(self, field: FieldDescriptor, oneof: OneofDescriptor) -> Iterator[str]:
        rivals = ", ".join(filter(None, map(self._dialect.member, oneof.fields)))
        yield f"if which_{oneof.name}:"
        yield f"{INDENT}faults = clash(faults, {self._path(field)!r}, which_{oneof.name}, {rivals!r})"
        yield f"which_{oneof.name} = {self._dialect.member(field)!r}"

    def _read(self, field: FieldDescriptor, scope: Globals) -> Iterator[str]:
        """Read `v`. Maps and lists of messages are read on after a wrong element, to report all faults."""
        if parts := map_entry(field):
            yield from self._container(field, "dict", "an object", self._map(field, *parts, scope))
        elif field.is_repeated and field.message_type:
            yield from self._container(field, "list", "a list", self._messages(field, field.message_type, scope))
        else:
            yield "try:"
            yield from indented(self._scalars(field, scope) if field.is_repeated else self._single(field, scope))
            yield "except WRONG as error:"
            yield f"{INDENT}faults = {self._complaint(field)}"

    def _container(self, field: FieldDescriptor, kind: str, expected: str, lines: Iterator[str]) -> Iterator[str]:
        yield f"if type(v) is {kind}:"
        yield from indented(lines)
        yield "else:"
        yield f"{INDENT}faults = complain(faults, {self._path(field)!r}, {expected!r}, v)"

    def _single(self, field: FieldDescriptor, scope: Globals) -> Iterator[str]:
        if kind := field.message_type:
            yield f"x = {attribute(field)}"
            yield "x.SetInParent()"  # {} is a message too
            yield f"{self.put_form(scope, field) or self.put(scope, kind)}(v, x)"
        else:
            item = self._item(field, "v", scope)
            yield assignment(field, f"0 if v is None else {item}" if is_nullable(field) else item)

    def _scalars(self, field: FieldDescriptor, scope: Globals) -> Iterator[str]:
        item = self._item(field, "x", scope)
        yield "if type(v) is not list:"
        yield f"{INDENT}raise TypeError"
        yield f"{attribute(field)}.extend({'v' if item == 'x' else f'[{item} for x in v]'})"

    def _messages(self, field: FieldDescriptor, kind: Descriptor, scope: Globals) -> Iterator[str]:
        place = f"{self._path(field)!r} + '[' + str(len({attribute(field)}) - 1) + ']'"
        yield f"add = {attribute(field)}.add"
        yield "for x in v:"
        yield f"{INDENT}try:"
        yield f"{INDENT * 2}{self.put(scope, kind)}(x, add())"
        yield f"{INDENT}except WRONG as error:"
        yield f"{INDENT * 2}faults = note(faults, {place}, {self._expected(field)!r}, x, error)"

    def _map(
        self, field: FieldDescriptor, key: FieldDescriptor, value: FieldDescriptor, scope: Globals
    ) -> Iterator[str]:
        place, test = f"places[{_key(key, scope)}]", f"key_{field.name}, {self._expected(key)!r}"
        wrong = f"entry(faults, {self._path(field)!r}, k, {test}, {self._expected(value)!r}, x, error)"
        kind = value.message_type
        yield f"places = {attribute(field)}"
        yield "for k, x in v.items():"
        yield f"{INDENT}try:"
        yield INDENT * 2 + (
            f"{self.put(scope, kind)}(x, {place})" if kind else f"{place} = {self._item(value, 'x', scope)}"
        )
        yield f"{INDENT}except WRONG as error:"
        yield f"{INDENT * 2}faults = {wrong}"

    def _path(self, field: FieldDescriptor) -> str:
        return f".{self._dialect.member(field)}"

    def _complaint(self, field: FieldDescriptor) -> str:
        path = repr(self._path(field))
        if field.is_repeated:
            return f"elements(faults, {path}, v, one_{field.name}, {self._expected(field)!r})"
        return f"note(faults, {path}, {self._expected(field)!r}, v, error)"

    def _expected(self, field: FieldDescriptor) -> str:
        return expected(field, self._dialect)

    def _element_alone(self, field: FieldDescriptor, scope: Globals) -> Iterator[str]:
        """Write a function that reads one scalar of a list, to find the wrong ones."""
        yield f"def one_{field.name}(x):"
        yield f"{INDENT}m = Self()"
        yield f"{INDENT}{attribute(field)}.append({self._item(field, 'x', scope)})"

    def _item(self, field: FieldDescriptor, value: str, scope: Globals) -> str:
        """Return the expression for a scalar. protobuf itself refuses anything but a string for a string field."""
        if form := self.put_form(scope, field):
            return f"{form}({value})"
        if enum := field.enum_type:
            own = self._dialect.enums.get(enum.full_name)
            return f"{scope.put(enum.name, own.read if own else scalars.EnumNumbers(enum))}[{value}]"
        if field.type == FieldDescriptor.TYPE_STRING:
            return value
        if field.type == FieldDescriptor.TYPE_BYTES:
            return f"{scope.put('octets', scalars.octets)}({value})"
        if read := _READERS.get(field.cpp_type):
            return f"{scope.put(read.__name__, read)}({value})"
        return f"({value} if type({value}) is int else {scope.put('integer', scalars.integer)}({value}))"


def _constant(name: str, value: str) -> Iterator[str]:
    """Check a constant member, which may be absent."""
    yield f"v = get({name!r})"
    yield "if v is not None:"
    yield f"{INDENT}left -= 1"
    yield f"{INDENT}if v != {value!r}:"
    yield f"{INDENT * 2}faults = complain(faults, {f'.{name}'!r}, {json.dumps(value)!r}, v)"


def _key_alone(field: FieldDescriptor, key: FieldDescriptor, scope: Globals) -> Iterator[str]:
    """Do the same for the key of a map; protobuf checks it when the entry is looked up."""
    yield f"def key_{field.name}(k):"
    yield f"{INDENT}m = Self()"
    yield f"{INDENT}{attribute(field)}[{_key(key, scope)}]"


def _key(field: FieldDescriptor, scope: Globals) -> str:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return "k"
    read = scalars.boolean_key if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL else scalars.integer
    return f"{scope.put('key', read)}(k)"
