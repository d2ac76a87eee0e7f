"""Which of 0.3's spellings a REST body is in; one that is in both is refused (spec: LRES-05, CONF-27)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from a2a_server.protocol.errors import Violation, refuse

Dialect = Literal["kind", "proto"]

_SPELT: Final[Mapping[Dialect, str]] = {"kind": "in the JSON schema", "proto": "in the proto"}
# The first clue that there is decides, so that the others are the ones that are wrong.
_IN_MESSAGE: Final[Mapping[str, Dialect]] = {"parts": "kind", "content": "proto", "kind": "kind"}
_ROLES: Final[Mapping[object, Dialect]] = {
    "user": "kind",
    "agent": "kind",
    "ROLE_USER": "proto",
    "ROLE_AGENT": "proto",
}
_IN_CONFIG: Final[Mapping[str, Dialect]] = {"taskId": "kind", "task_id": "kind", "name": "proto"}


class _Clue(NamedTuple):
    field: str
    tells: Dialect


def dialect_of(value: object) -> Dialect | None:
    """Tell by the body of a send or of a push config; None: from what it has it could be either.

    Looks only at what a sound body must have. What is foreign deeper inside is for the codec to refuse.
    """
    clues = [*_clues(value)]
    if not clues:
        return None
    first = clues[0]
    if wrong := [clue for clue in clues if clue.tells != first.tells]:
        other, own = _SPELT[wrong[0].tells], _SPELT[first.tells]
        text = f"is spelt as {other} of 0.3, but {first.field} as {own}; a body must keep to one of them"
        refuse([Violation(clue.field, text) for clue in wrong])
    return first.tells


def _clues(value: object) -> Iterator[_Clue]:
    if type(value) is not dict:
        return
    yield from _of_message("message", value.get("message"))
    yield from _of_message("request", value.get("request"))  # so called in the proto, though not in its JSON
    yield from _members("", _IN_CONFIG, value)
    if type(config := value.get("config")) is dict:
        yield from _members("config.", _IN_CONFIG, config)


def _of_message(path: str, message: object) -> Iterator[_Clue]:
    if type(message) is not dict:
        return
    yield from _members(f"{path}.", _IN_MESSAGE, message)
    role = message.get("role")
    if type(role) is str and role in _ROLES:
        yield _Clue(f"{path}.role", _ROLES[role])


def _members(path: str, names: Mapping[str, Dialect], value: Mapping[str, object]) -> Iterator[_Clue]:
    return (_Clue(path + name, tells) for name, tells in names.items() if value.get(name) is not None)
