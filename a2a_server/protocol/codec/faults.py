"""Collects the faults of a JSON value: where each is, and what would be right (spec: ERRS-05, JSON-13)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, NoReturn

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from a2a_server.protocol.codec.dialect import Dialect
from a2a_server.protocol.codec.times import EXPECTED as EXPECTED_TIME
from a2a_server.protocol.errors import A2AError, Reason, Violation, refuse

MOST: Final = 100
"""How many faults are reported at once, so that a body full of faults does not cost more than a correct one."""


class TooDeepError(RuntimeError):
    """A value of free-form JSON nests too deeply, as a whole. Readers of what is inside it let this pass."""


MISFIT: Final = (TypeError, ValueError, LookupError, ArithmeticError)
"""What converters and protobuf itself raise for a value that does not fit. `Faults` is one of them."""
WRONG: Final = (*MISFIT, TooDeepError)
"""What the reader of a field raises for its value as a whole."""

_LONGEST: Final = 40
_HUGE: Final = 2**64


class Faults(ValueError):  # noqa: N818 - a list of them
    """The faults of one value: the path of each, relative to the value (`.text`, `[3]`), and what would be right."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []

    def add(self, path: str, text: str) -> None:
        self.found.append((path, text))
        if len(self.found) >= MOST:
            raise self from None


_CONTENTS: Final = frozenset({"a list", "an object", "base64"})
"""Where a text is content, which may be a secret and is not repeated (SECR-03)."""


def note(faults: Faults | None, path: str, expected: str, value: object, error: Exception) -> Faults:
    """Add to `faults` what `error` means: the faults further inside, or that the value has the wrong type."""
    faults = faults or Faults()
    if isinstance(error, Faults):
        for inner, text in error.found:
            faults.add(path + inner, text)
    elif isinstance(error, TooDeepError):
        faults.add(path, str(error))
    elif isinstance(error, UnicodeEncodeError):
        faults.add(path, "must hold no lone surrogates")
    else:
        return complain(faults, path, expected, value)
    return faults


def complain(faults: Faults | None, path: str, expected: str, value: object) -> Faults:
    """Add the fault that something else was expected."""
    got = "a string" if isinstance(value, str) and expected in _CONTENTS else shown(value)
    return with_fault(faults, path, f"must be {expected}, got {got}")


def with_fault(faults: Faults | None, path: str, text: str) -> Faults:
    faults = faults or Faults()
    faults.add(path, text)
    return faults


def faults_in(read: Callable[..., object], *arguments: object) -> Faults | None:
    """Read a value, and return what is wrong with it instead of raising it."""
    try:
        read(*arguments)
    except Faults as faults:
        return faults
    return None


def raise_faults(faults: Faults) -> NoReturn:
    """Raise the faults of a whole JSON text; the path "" stands for the whole value."""
    violations = [Violation(path.removeprefix("."), text) for path, text in faults.found]
    if not violations[0].field:
        raise A2AError(Reason.INVALID_PARAMS, f"The JSON {violations[0].description}.", violations=violations)
    refuse(violations, more=len(violations) >= MOST)


def key_path(key: object) -> str:
    """Return the step to an entry of a map, always in quotes, because its key is not a field name."""
    return f"[{_quoted(str(key))}]"


def shown(value: object) -> str:
    """Describe a value in a few words."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return _quoted(value)
    return "a huge number" if isinstance(value, int) and abs(value) >= _HUGE else json.dumps(value)


def _quoted(text: str) -> str:
    clipped = json.dumps(text[:_LONGEST], ensure_ascii=False) + "…" * (len(text) > _LONGEST)
    return clipped.encode("utf-8", "backslashreplace").decode()


_PLAIN: Final = Dialect()
_NUMBERS: Final = {
    FieldDescriptor.CPPTYPE_INT32: f"a whole number from {-(2**31)} to {2**31 - 1}",
    FieldDescriptor.CPPTYPE_INT64: f"a whole number from {-(2**63)} to {2**63 - 1}",
    FieldDescriptor.CPPTYPE_UINT32: f"a whole number from 0 to {2**32 - 1}",
    FieldDescriptor.CPPTYPE_UINT64: f"a whole number from 0 to {2**64 - 1}",
    FieldDescriptor.CPPTYPE_DOUBLE: "a number",
    FieldDescriptor.CPPTYPE_FLOAT: "a number of single precision",
    FieldDescriptor.CPPTYPE_BOOL: "true or false",
}
_WELL_KNOWN: Final = {
    "google.protobuf.Timestamp": EXPECTED_TIME,
    "google.protobuf.Duration": 'a duration such as "1.5s"',
    "google.protobuf.FieldMask": 'names such as "user.displayName,photo"',
    "google.protobuf.ListValue": "a list",
    "google.protobuf.Value": "a JSON value",
}


def expected(field: FieldDescriptor, dialect: Dialect = _PLAIN) -> str:
    """Say what one value of a field must be."""
    if (form := dialect.forms.get(field.full_name)) and form.expected:
        return form.expected
    if kind := field.message_type:
        return expected_message(kind, dialect)
    if enum := field.enum_type:
        own = dialect.enums.get(enum.full_name)
        return own.expected if own else _enum(enum)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return "base64"
    return _NUMBERS.get(field.cpp_type, "a string")


def expected_message(kind: Descriptor, dialect: Dialect = _PLAIN) -> str:
    if (form := dialect.forms.get(kind.full_name)) and form.expected:
        return form.expected
    if kind.file.name == "google/protobuf/wrappers.proto":
        return expected(kind.fields_by_name["value"])
    return _WELL_KNOWN.get(kind.full_name, "an object")


def _enum(enum: EnumDescriptor) -> str:
    # Zero is the unspecified value. It may be sent and means that the field is absent.
    names = [value.name for value in enum.values if value.number or len(enum.values) == 1]
    return f"one of {', '.join(names)}" if len(names) > 1 else names[0]


def elements(
    faults: Faults | None, path: str, value: object, one: Callable[[object], object], expected: str
) -> Faults | None:
    """Find the wrong elements of a list by trying each."""
    if type(value) is not list:
        return complain(faults, path, "a list", value)
    for index, item in enumerate(value):
        try:
            one(item)
        except WRONG as error:
            faults = note(faults, f"{path}[{index}]", expected, item, error)
    return faults


def entry(  # noqa: PLR0913, PLR0917 - called by generated code only
    faults: Faults | None,
    path: str,
    key: str,
    read_key: Callable[[str], object],
    expected_key: str,
    expected: str,
    value: object,
    error: Exception,
) -> Faults:
    """Add the fault of an entry of a map: of its key, or of its value."""
    step = path + key_path(key)
    try:
        read_key(key)
    except WRONG as wrong_key:
        return note(faults, step, f"named by {expected_key}", key, wrong_key)
    return note(faults, step, expected, value, error)
