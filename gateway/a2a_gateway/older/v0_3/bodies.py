"""Bodies of 0.3's REST: which spelling they are in, and push configs in all their forms.

A body that is in both spellings is refused (LRES-05, CONF-27). Members of a push config may be in snake_case, and what
stands in several places must be the same in all of them (LRES-06, LGRP-02, CONF-31, CONF-71).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from a2a_server.protocol.codec.faults import Faults, shown
from a2a_server.protocol.codec.leftovers import Leftovers
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.v0_3 import configs
from a2a_server.protocol.v0_3.configs import JsonObject
from a2a_server.protocol.v0_3.foreign import TENANT
from a2a_server.protocol.v0_3.names import A_SEGMENT, A_TASK, parent_of, unborn_config_of

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


# -- push configs

_ID: Final = "configId"
_CONFIG: Final = "config"
_INNER: Final = "pushNotificationConfig"
_NAMES: Final = {**{name: name for name in (_CONFIG, "parent", _ID)}, "config_id": _ID}
_BESIDE: Final = Leftovers(_NAMES, frozenset(), {})
_AROUND: Final = Leftovers(_NAMES, frozenset(), {}, {**TENANT, "id": f'is for "{_INNER}" to hold, or for "{_ID}"'})
_OWN: Final = Leftovers(configs.NAMES, frozenset(), {})


class NewConfig(NamedTuple):
    value: JsonObject
    """The config as the codec reads it, with its task, and its id if it is said anywhere."""
    spelling: OldSpelling | None
    """The spelling of the body; None: it could be either."""
    prefix: str
    """Where in the body the config is."""


def new_config(body: JsonObject, task_id: str, queried: object) -> NewConfig:
    """Read a config that is the body, or its member `config`, beside what repeats the URL; `queried` is an id."""
    wrapped = body.get(_CONFIG) is not None
    around = _found(_AROUND if wrapped else _BESIDE, body, "")
    config, prefix = (object_of(around[_CONFIG], _CONFIG), f"{_CONFIG}.") if wrapped else (body, "")
    own = _found(_OWN, config, prefix)
    task, named_id = _places(own.get("name"))
    parent = named(around, "parent", parent_of)
    agree({"the path": task_id, f"{prefix}name": task, f"{prefix}taskId": own.get("taskId"), "parent": parent})
    config_id = _id_of(queried, around, own, prefix, named_id)
    said = {"taskId": task_id} if config_id is None else {"taskId": task_id, "pushNotificationConfigId": config_id}
    others = {name: value for name, value in config.items() if name not in configs.NAMES and name not in _NAMES}
    spelling = spelling_of({**body, _CONFIG: own} if wrapped else {**body, **own})
    return NewConfig({**others, **own, **said}, spelling or ("proto" if "parent" in around else None), prefix)


def _id_of(queried: object, around: JsonObject, own: JsonObject, prefix: str, named_id: object) -> object:
    """The config's id, which may stand in five places; None if it has yet to be given."""
    inner = own.get(_INNER)
    told = {
        _ID: around.get(_ID),
        f"{prefix}pushNotificationConfigId": own.get("pushNotificationConfigId"),
        f"{prefix}{_INNER}.id": inner.get("id") if isinstance(inner, dict) else None,
    }
    for place, value in ((_ID, queried), *((place, value or None) for place, value in told.items())):
        check_new_id(value, place)
    return agree({"the query": queried, **told, f"{prefix}name": named_id})


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


def _found(members: Leftovers, value: JsonObject, prefix: str) -> JsonObject:
    """The members by their written names; null is none."""
    found, faults = _sorted(members, value)
    if faults:
        refuse([Violation(prefix + path.removeprefix("."), text) for path, text in faults.found])
    return found


def _sorted(members: Leftovers, value: JsonObject) -> tuple[JsonObject, Faults | None]:
    try:
        return members(value, None)
    except Faults as faults:  # of which there are as many as are told at once
        return {}, faults


def _places(name: object) -> tuple[object, object]:
    """Task and id of a config, in its name; about what is no name the codec complains."""
    try:
        return unborn_config_of(name) if isinstance(name, str) else (None, None)
    except ValueError:
        return None, None
