"""What is wrong with a JSON value: where, and what would be right (spec: ERRS-05, JSON-13)."""

from __future__ import annotations

import json
from typing import Final, NoReturn

from a2a_server.protocol.errors import A2AError, Reason, Violation, refuse

MOST: Final = 100
"""How many faults are told at once; a body of nothing but faults must not cost more than a sound one."""

WRONG: Final = (TypeError, ValueError, LookupError, ArithmeticError)
"""What converters raise, and protobuf itself, at a value that does not fit. `Faults` is one of them."""

_LONGEST: Final = 40
_HUGE: Final = 2**64


class Faults(ValueError):  # noqa: N818 - a list of them
    """The faults of one value: paths relative to it (`.text`, `[3]`), and what would be right there."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []

    def add(self, path: str, text: str) -> None:
        self.found.append((path, text))
        if len(self.found) >= MOST:
            raise self from None


def note(faults: Faults | None, path: str, expected: str, value: object, error: Exception) -> Faults:
    """Add what `error` means to `faults`: the faults found further inside, or that the value is of the wrong kind."""
    faults = faults or Faults()
    if isinstance(error, Faults):
        for inner, text in error.found:
            faults.add(path + inner, text)
    elif isinstance(error, UnicodeEncodeError):
        faults.add(path, f"must hold no lone surrogates, got {shown(value)}")
    else:
        return complain(faults, path, expected, value)
    return faults


def complain(faults: Faults | None, path: str, expected: str, value: object) -> Faults:
    """Add that something else was expected."""
    faults = faults or Faults()
    faults.add(path, f"must be {expected}, got {shown(value)}")
    return faults


def raise_faults(faults: Faults) -> NoReturn:
    """Raise the faults of a whole JSON text, for which `""` stands among fields."""
    violations = [Violation(path.removeprefix("."), text) for path, text in faults.found]
    if not violations[0].field:
        raise A2AError(Reason.INVALID_PARAMS, f"The JSON {violations[0].description}.", violations=violations)
    refuse(violations, more=len(violations) >= MOST)


def key_path(key: object) -> str:
    """The step to an entry whose name somebody has chosen, always in quotes: it is no field name."""
    return f"[{_quoted(str(key))}]"


def shown(value: object) -> str:
    """A value in a few words."""
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


def unwritable(what: str) -> A2AError:
    """A message from the agent or the upstream that has no JSON form."""
    return A2AError(Reason.INVALID_AGENT_RESPONSE, f"The answer can't be written as JSON: {what}.")
