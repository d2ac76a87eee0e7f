"""Generates one function per message type, when the first message of the type is read or written (design: §5).

Python source is generated and executed, because straight-line code for the fields of one type is faster than a loop
over closures. A function finds what it needs, such as functions of other types and names of enums, in its globals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from keyword import iskeyword
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb

Function = Callable[..., Any]
INDENT: Final = "    "


class Globals:
    def __init__(self, **members: object) -> None:
        self.members: dict[str, object] = dict(members)

    def put(self, hint: str, member: object) -> str:
        """Add a member; return the name by which the function finds it."""
        name = f"{hint}_{len(self.members)}"
        self.members[name] = member
        return name


class Compiler:
    """Keeps one function per message type.

    `known` holds functions that are not generated, by the type's full name; `forms` those that a dialect makes in its
    own way, by the full name of a type or field; `source` writes the source of a function named `run`.
    """

    def __init__(
        self,
        known: Mapping[str, Function],
        forms: Mapping[str, Callable[[Compiler], Function]],
        source: Callable[[Descriptor, Globals], Iterable[str]],
    ) -> None:
        self._known = {name: function for name, function in known.items() if name not in forms}
        self._forms = forms
        self._source = source
        self._made: dict[Descriptor, Function] = {}
        self._plain: dict[Descriptor, Function] = {}

    def of(self, kind: Descriptor) -> Function:
        if (made := self._made.get(kind)) is None:
            form = self._forms.get(kind.full_name)
            made = self._made[kind] = form(self) if form else self.plain(kind)
        return made

    def plain(self, kind: Descriptor) -> Function:
        """Return the function that the type has without a form of the dialect."""
        if (plain := self._plain.get(kind)) is None:
            plain = self._plain[kind] = self._known.get(kind.full_name) or self._make(kind)
        return plain

    def put(self, scope: Globals, kind: Descriptor) -> str:
        """Let a function call that of a type by the returned name; that one is made when it is first called."""
        if known := self._known.get(kind.full_name):
            return scope.put(kind.name, known)
        return _put_later(scope, kind.name, lambda: self.of(kind))

    def put_form(self, scope: Globals, field: FieldDescriptor) -> str:
        """Do the same for the form of a field; return an empty name if the field has none."""
        form = self._forms.get(field.full_name)
        return _put_later(scope, field.name, lambda: form(self)) if form else ""

    def _make(self, kind: Descriptor) -> Function:
        scope = Globals()
        source = "\n".join(self._source(kind, scope))
        exec(compile(source, f"<{kind.full_name}>", "exec"), scope.members)  # noqa: S102 - made of a schema's names only
        made: Function = scope.members["run"]  # type: ignore[assignment]
        return made


def _put_later(scope: Globals, hint: str, make: Callable[[], Function]) -> str:
    def make_and_replace(*arguments: object) -> object:
        made = scope.members[name] = make()
        return made(*arguments)

    name = scope.put(hint, make_and_replace)
    return name


def indented(lines: Iterable[str]) -> Iterator[str]:
    return (INDENT + line for line in lines)


def attribute(field: FieldDescriptor) -> str:
    """Return the expression for a field of the message `m`; a field may be called `from`."""
    return f"getattr(m, {field.name!r})" if iskeyword(field.name) else f"m.{field.name}"


def assignment(field: FieldDescriptor, value: str) -> str:
    return f"setattr(m, {field.name!r}, {value})" if iskeyword(field.name) else f"m.{field.name} = {value}"


_MESSAGE: Any = pb.Message
_SHARED: Final = _MESSAGE.HasField == pb.Task.HasField
"""False where protobuf is pure Python, as on musl: there each class has its own methods."""

has: Final[Callable[[Message, str], bool]] = (
    _MESSAGE.HasField if _SHARED else lambda message, field: message.HasField(field)
)
"""Whether a field with presence is set. Calling the method of one class for all is twice as fast."""

which_of: Final[Callable[[Message, str], str | None]] = (
    _MESSAGE.WhichOneof if _SHARED else lambda message, oneof: message.WhichOneof(oneof)
)
"""Return the member of a oneof that is set."""
