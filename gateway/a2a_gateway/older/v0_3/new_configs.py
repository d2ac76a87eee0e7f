"""Bodies that make a push config over REST of 0.3, in all their forms (spec: LRES-06, LGRP-02, CONF-31, CONF-71).

Members may be in snake_case, and what stands in several places must be the same in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from a2a_server.protocol.codec.faults import Faults, shown
from a2a_server.protocol.codec.leftovers import Leftovers
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.foreign import TENANT
from a2a_server.protocol.v0_3 import configs
from a2a_server.protocol.v0_3.evidence import Dialect, dialect_of
from a2a_server.protocol.v0_3.names import A_SEGMENT, A_TASK, parent_of, unborn_config_of

Json = dict[str, Any]

_ID: Final = "configId"
_CONFIG: Final = "config"
_INNER: Final = "pushNotificationConfig"
_NAMES: Final = {**{name: name for name in (_CONFIG, "parent", _ID)}, "config_id": _ID}
_BESIDE: Final = Leftovers(_NAMES, frozenset(), {})
_AROUND: Final = Leftovers(_NAMES, frozenset(), {}, {**TENANT, "id": f'is for "{_INNER}" to hold, or for "{_ID}"'})
_OWN: Final = Leftovers(configs.NAMES, frozenset(), {})


class NewConfig(NamedTuple):
    value: Json
    """The config as the codec reads it, with its task, and its id if it is said anywhere."""
    dialect: Dialect | None
    """The spelling of the body; None: it could be either."""
    prefix: str
    """Where in the body the config is."""


def new_config(body: Json, task_id: str, queried: object) -> NewConfig:
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
    dialect = dialect_of({**body, _CONFIG: own} if wrapped else {**body, **own})
    return NewConfig({**others, **own, **said}, dialect or ("proto" if "parent" in around else None), prefix)


def _id_of(queried: object, around: Json, own: Json, prefix: str, named_id: object) -> object:
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


def object_of(value: object, name: str = "body") -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        refuse([Violation(name, f"must be an object, got {shown(value)}")])
    return value


def named(value: Json, member: str, read: Callable[[str], str]) -> object:
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


def _found(members: Leftovers, value: Json, prefix: str) -> Json:
    """The members by their written names; null is none."""
    found, faults = _sorted(members, value)
    if faults:
        refuse([Violation(prefix + path.removeprefix("."), text) for path, text in faults.found])
    return found


def _sorted(members: Leftovers, value: Json) -> tuple[Json, Faults | None]:
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
