"""Bodies of 0.3's REST: which spelling they are in, and what they repeat of the URL.

A body that is in both spellings is refused (LRES-05, CONF-27). What stands in several places must be the same in all of
them (LRES-06, LGRP-02).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from a2a_server.protocol.codec.faults import shown
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.v0_3.configs import JsonObject
from a2a_server.protocol.v0_3.names import A_SEGMENT, A_TASK

OldSpelling = Literal["kind", "proto"]

_SPELT: Final[Mapping[OldSpelling, str]] = {"kind": "in the JSON schema", "proto": "in the proto"}
# The first clue that there is decides, so that the others are the ones that are wrong.
_IN_MESSAGE: Final[Mapping[str, OldSpelling]] = {"parts": "kind", "content": "proto", "kind": "kind"}
_ROLES: Final[Mapping[object, OldSpelling]] = {
    "user": "kind",
    "agent": "kind",
    "ROLE_USER": "proto",
    "ROLE_AGENT": "proto",
}
_IN_CONFIG: Final[Mapping[str, OldSpelling]] = {"taskId": "kind", "task_id": "kind", "name": "proto"}


class _Clue(NamedTuple):
    field: str
    tells: OldSpelling


def spelling_of(value: object) -> OldSpelling | None:
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


def _members(path: str, names: Mapping[str, OldSpelling], value: Mapping[str, object]) -> Iterator[_Clue]:
    return (_Clue(path + name, tells) for name, tells in names.items() if value.get(name) is not None)


# -- names and ids


def check_new_id(value: object, place: str) -> None:
    """Refuse an id, if one is said, of which no name can be made (LGRP-02)."""
    if isinstance(value, str) and (not value or "/" in value):
        refuse([Violation(place, f"must be {A_SEGMENT}, got {shown(value)}")])


def object_of(value: object, name: str = "body") -> JsonObject:
    if value is None:
        return {}
    if not isinstance(value, dict):
        refuse([Violation(name, f"must be an object, got {shown(value)}")])
    return value


def named(value: JsonObject, member: str, read: Callable[[str], str]) -> object:
    """The task in the name that a member is, if it is there."""
    name = value.get(member)
    if name is None or name == "":
        return None
    try:
        return read(name if isinstance(name, str) else "")
    except ValueError:
        refuse([Violation(member, f"must be {A_TASK}, got {shown(name)}")])


def agree(told: Mapping[str, object]) -> object:
    """What all places say that say anything, by the names of the places."""
    said = {place: value for place, value in told.items() if value not in (None, "")}
    first, right = next(iter(said.items()), ("", None))
    if faults := [
        Violation(place, f"says {shown(value)} where {first} says {shown(right)}; both must be the same")
        for place, value in said.items()
        if value != right
    ]:
        refuse(faults)
    return right
