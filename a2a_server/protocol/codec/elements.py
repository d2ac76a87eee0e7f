"""Which element of a list or entry of a map is wrong, and whether by its key (spec: ERRS-05)."""

from __future__ import annotations

from collections.abc import Callable

from a2a_server.protocol.codec.faults import WRONG, Faults, complain, key_path, note


def elements(
    faults: Faults | None, path: str, value: object, one: Callable[[object], object], expected: str
) -> Faults | None:
    """Try the elements of a list, one by one, once it is known that some are wrong."""
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
    """Say what is wrong with an entry of a map."""
    step = path + key_path(key)
    try:
        read_key(key)
    except WRONG as wrong_key:
        return note(faults, step, f"named by {expected_key}", key, wrong_key)
    return note(faults, step, expected, value, error)
