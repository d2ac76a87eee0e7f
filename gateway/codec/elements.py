"""Which elements of a list or map are wrong, once it is known that some are (spec: ERRS-05)."""

from __future__ import annotations

from collections.abc import Callable

from gateway.codec.faults import WRONG, Faults, key_path, note

Test = tuple[Callable[[object], object], str]
"""What raises if the element is wrong, and what is expected."""


def elements(faults: Faults | None, path: str, value: object, test: Test) -> Faults | None:
    if type(value) is not list:
        return note(faults, path, "a list", value, TypeError())
    for index, item in enumerate(value):
        faults = _try(faults, f"{path}[{index}]", item, test)
    return faults


def entries(faults: Faults | None, path: str, value: object, key: Test, test: Test) -> Faults | None:
    if type(value) is not dict:
        return note(faults, path, "an object", value, TypeError())
    for name, item in value.items():
        step = path + key_path(name)
        faults = _try(faults, step, name, (key[0], f"named by {key[1]}"))
        faults = _try(faults, step, item, test)
    return faults


def _try(faults: Faults | None, path: str, value: object, test: Test) -> Faults | None:
    function, expected = test
    try:
        function(value)
    except WRONG as error:
        return note(faults, path, expected, value, error)
    return faults
