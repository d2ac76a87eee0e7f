"""Generates functions that turn messages of one type into JSON values (spec: JSON-01, -02, -07, -09, -10, LRPC-08).

What is generated for a `Part`:

    def run(m):
        o = {}
        v = m.text
        if v:
            o['text'] = v
        else:
            which = which_of(m, 'content')
            if which == 'text':
                o['text'] = m.text
            elif which == 'raw':
                o['raw'] = base64_2(m.raw)
            ...
        if has(m, 'metadata'):
            o['metadata'] = Struct_1(m.metadata)
        v = m.filename
        if v:
            o['filename'] = v
        return o
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor

from a2a_server.protocol.codec import scalars
from a2a_server.protocol.codec.compiler import INDENT, Compiler, Function, Globals, attribute, has, indented, which_of
from a2a_server.protocol.codec.dialect import NULL, OWN_FORM, WRAPPERS, Dialect, choice, map_entry
from a2a_server.protocol.codec.wellknown import known_writers

_WRITERS: Final[dict[int, Function]] = {
    FieldDescriptor.CPPTYPE_DOUBLE: scalars.double,
    FieldDescriptor.CPPTYPE_FLOAT: scalars.shortest,
    FieldDescriptor.CPPTYPE_INT64: str,  # JavaScript's numbers cannot hold them
    FieldDescriptor.CPPTYPE_UINT64: str,
}


class JsonWriters(Compiler):
    """Functions from a message to its JSON value, in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        forms = {name: form.write for name, form in dialect.forms.items() if form.write}
        super().__init__(known_writers(self.of, dialect), forms, self._lines)

    def _lines(self, kind: Descriptor, scope: Globals) -> Iterator[str]:
        yield "def run(m):"
        if kind.full_name in WRAPPERS:
            field = kind.fields_by_name["value"]
            yield f"{INDENT}return {self._item(field, 'm.value', scope)}"
            return
        scope.members.update(has=has, which_of=which_of)
        yield f"{INDENT}o = {dict(self._dialect.constants.get(kind.full_name, {}))!r}"
        done: set[str] = set()
        for field in self._dialect.fields(kind):
            if (oneof := choice(field)) is None:
                yield from indented(self._field(field, scope))
            elif oneof.name not in done:
                done.add(oneof.name)
                yield from indented(self._oneof(oneof, scope))
        yield f"{INDENT}return o"

    def _oneof(self, oneof: OneofDescriptor, scope: Globals) -> Iterator[str]:
        members = [field for field in oneof.fields if self._dialect.member(field)]
        lines = self._members(oneof, members, scope)
        first = members[0]
        if first.type == FieldDescriptor.TYPE_STRING:  # if it is not empty, it is the one that is set
            yield f"v = {attribute(first)}"
            yield "if v:"
            yield INDENT + self._put(first, "v")
            yield "else:"
            lines = indented(lines)
        yield from lines

    def _members(self, oneof: OneofDescriptor, members: Sequence[FieldDescriptor], scope: Globals) -> Iterator[str]:
        yield f"which = which_of(m, {oneof.name!r})"
        word = "if"
        for field in members:
            yield f"{word} which == {field.name!r}:"
            yield INDENT + self._put(field, self._item(field, attribute(field), scope))
            word = "elif"

    def _field(self, field: FieldDescriptor, scope: Globals) -> Iterator[str]:
        always = self._dialect.always(field) and not _is_endless(field, self._dialect)
        if map_entry(field) or field.is_repeated:
            yield f"v = {attribute(field)}"
            put, condition = self._put(field, self._items(field, scope)), "v"
        elif field.has_presence:
            put, condition = self._put(field, self._item(field, attribute(field), scope)), f"has(m, {field.name!r})"
            always = always and field.message_type is not None  # other fields with presence show whether they are set
        else:
            yield f"v = {attribute(field)}"
            put, condition = self._put(field, self._item(field, "v", scope)), _is_set(field)
        if always:
            yield put
        else:
            yield f"if {condition}:"
            yield INDENT + put

    def _put(self, field: FieldDescriptor, value: str) -> str:
        return f"o[{self._dialect.member(field)!r}] = {value}"

    def _items(self, field: FieldDescriptor, scope: Globals) -> str:
        if entry := map_entry(field):
            is_text = entry[0].cpp_type == FieldDescriptor.CPPTYPE_STRING
            key = "k" if is_text else f"{scope.put('key', scalars.key_text)}(k)"
            keys = "sorted(v)" if self._dialect.ordered else "v"
            return f"{{{key}: {self._item(entry[1], 'v[k]', scope)} for k in {keys}}}"
        writer = self._writer(field, scope)
        return f"[*map({writer}, v[:])]" if writer else "v[:]"  # iterating over a list is faster

    def _item(self, field: FieldDescriptor, value: str, scope: Globals) -> str:
        writer = self._writer(field, scope)
        return f"{writer}({value})" if writer else value

    def _writer(self, field: FieldDescriptor, scope: Globals) -> str:
        """Return the name of the function for one value of the field; empty if orjson writes it as it is."""
        if form := self.put_form(scope, field):
            return form
        if kind := field.message_type:
            return self.put(scope, kind)
        if enum := field.enum_type:
            return scope.put("null", _null) if enum.full_name == NULL else scope.put(enum.name, self._names(enum))
        if field.type == FieldDescriptor.TYPE_BYTES:
            return scope.put("base64", scalars.base64)
        if writer := _WRITERS.get(field.cpp_type):
            return scope.put(writer.__name__, writer)
        return ""

    def _names(self, enum: EnumDescriptor) -> Callable[[int], object]:
        own = self._dialect.enums.get(enum.full_name)
        return own.written if own else scalars.EnumNames(enum).__getitem__


def _null(_: int) -> None:
    """Write the value of NullValue."""


def _is_set(field: FieldDescriptor) -> str:
    if field.cpp_type in {FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT}:
        return "v or str(v) == '-0.0'"
    return "v"


def _is_endless(field: FieldDescriptor, dialect: Dialect) -> bool:
    """Whether an absent field must not be written as an empty message: it would recurse endlessly, or be wrong."""
    kind = field.message_type
    if kind is None or field.is_repeated:
        return False
    if kind.full_name in OWN_FORM:
        return kind.name != "Struct"  # an absent Timestamp is not 1970
    return _leads_back(kind, dialect, frozenset())


def _leads_back(kind: Descriptor, dialect: Dialect, seen: frozenset[str]) -> bool:
    if kind.full_name in seen:
        return True
    inner = [f.message_type for f in dialect.fields(kind) if f.message_type and not f.is_repeated and dialect.always(f)]
    return any(map(partial(_leads_back, dialect=dialect, seen=seen | {kind.full_name}), inner))
