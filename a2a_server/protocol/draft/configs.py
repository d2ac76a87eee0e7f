"""Push configs of the draft: named, and made by a request that may say around them whose (spec: DRFT-04, CONF-31)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.compiler import Compiler, Function
from a2a_server.protocol.codec.faults import WRONG, Faults, note
from a2a_server.protocol.codec.leftovers import Leftovers
from a2a_server.protocol.v0_3.configs import JsonObject, agreed, by_name, named, named_reader
from a2a_server.protocol.v0_3.names import A_SEGMENT, A_TASK, parent_of, segment, text_of

_CONFIG: Final = "pushNotificationConfig"
_WHOLE: Final = "config"
_TEXTS: Final = {"tenant": (text_of, "a string"), "taskId": (text_of, "a string"), "configId": (segment, A_SEGMENT)}
"""How they are read, and what would be right."""
_NAMES: Final = {
    **{name: name for name in (*_TEXTS, "parent", _WHOLE)},
    "task_id": "taskId",
    "config_id": "configId",
}
_ID: Final = {"id": 'is for "pushNotificationConfig" to hold; outside of it there is "configId"'}
_TENANT: Final = {"tenant": "is for the request to say"}

_AROUND: Final = Leftovers(_NAMES, frozenset(), {})
_AROUND_CONFIG: Final = Leftovers(_NAMES, frozenset(), {}, _ID)


def _reader(readers: Compiler) -> Function:
    """`{name, pushNotificationConfig}`, alone or as `config` beside `parent` and `configId`."""
    alone, inside = named_reader(readers, _ID), named_reader(readers, {**_ID, **_TENANT})

    def read(value: object, config: pb.TaskPushNotificationConfig) -> None:
        if type(value) is not dict:
            raise TypeError
        body: Any = value.get(_WHOLE)
        path, members, inner = (f".{_WHOLE}", _AROUND_CONFIG, inside) if body is not None else ("", _AROUND, alone)
        body = value if body is None else body
        around, faults = members(value, None)
        try:
            inner(body, config)
        except WRONG as error:
            faults = note(faults, path, "an object", body, error)
        if faults:
            raise faults
        if faults := _read_places(around, config, _Inside(body, path)):
            raise faults

    return read


class _Inside(NamedTuple):
    """A config that is sound by itself, and where it stands."""

    body: JsonObject
    path: str

    @property
    def id_at(self) -> str:
        """The member that its id was read from."""
        own = self.body.get(_CONFIG) or {}
        return f"{self.path}.{_CONFIG}.id" if own.get("id") else f"{self.path}.name"


def _read_places(around: JsonObject, config: pb.TaskPushNotificationConfig, inside: _Inside) -> Faults | None:
    faults: Faults | None = None
    texts = dict.fromkeys(_TEXTS, "")
    for place, (read, expected) in _TEXTS.items():
        try:
            texts[place] = read(around.get(place, ""))
        except WRONG as error:
            faults = note(faults, f".{place}", expected, around[place], error)
    parent, faults = _parent(around.get("parent"), faults)
    tasks = {".taskId": texts["taskId"], f"{inside.path}.name": config.task_id, ".parent": parent}
    config.tenant = texts["tenant"]
    config.task_id, faults = agreed(faults, tasks)
    config.id, faults = agreed(faults, {inside.id_at: config.id, ".configId": texts["configId"]})
    return faults


def _parent(name: object, faults: Faults | None) -> tuple[str, Faults | None]:
    if name is None:
        return "", faults
    try:
        return parent_of(text_of(name)), faults
    except WRONG as error:
        return "", note(faults, ".parent", A_TASK, name, error)


FORM: Final = named(by_name, _ID)._replace(read=_reader)
