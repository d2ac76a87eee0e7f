"""What the draft may say in several places, which must agree: names and ids of tasks and push configs.

Requests may name a resource, give its ids, or both (DRFT-06, CONF-53). A new config has a name, and the request may say
around it whose it is (DRFT-04, CONF-31).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.compiler import Compiler, Function
from a2a_server.protocol.codec.faults import WRONG, Faults, note
from a2a_server.protocol.codec.leftovers import Leftovers
from a2a_server.protocol.codec.schema import Form, descriptor_of
from a2a_server.protocol.v0_3.configs import JsonObject, agreed, by_name, named, named_reader
from a2a_server.protocol.v0_3.names import A_CONFIG, A_SEGMENT, A_TASK, config_of, parent_of, segment, task_of, text_of

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


# -- requests by name


class Naming(NamedTuple):
    """How a kind of resource is named."""

    members: Sequence[str]
    ids_of: Callable[[str], Sequence[str]]
    """Takes a name apart; raises `ValueError`."""
    expected: str


def _named(request: type[Message], fields: Sequence[str], naming: Naming) -> Form:
    """`fields` hold what stands in the name, in its order."""
    kind = descriptor_of(request)

    def reader(readers: Compiler) -> Function:
        plain = readers.plain(kind)

        def read(value: object, message: Message) -> None:
            faults: Faults | None = None
            try:
                plain(value, message)
            except Faults as found:
                faults = found
            assert type(value) is dict  # noqa: S101 - or plain had raised something else
            named, faults = _taken_apart(value, naming, faults)
            for place, field in enumerate(fields):
                own = {f".{kind.fields_by_name[field].json_name}": getattr(message, field)}
                told = {f".{member}": ids[place] for member, ids in named.items()}
                text, faults = agreed(faults, told | own)
                setattr(message, field, text)
            if faults:
                raise faults

        return read

    return Form(None, reader)


def _taken_apart(
    value: JsonObject, naming: Naming, faults: Faults | None
) -> tuple[Mapping[str, Sequence[str]], Faults | None]:
    named = {}
    for member in naming.members:
        if (name := value.get(member)) is not None:
            try:
                named[member] = naming.ids_of(text_of(name))
            except WRONG as error:
                faults = note(faults, f".{member}", naming.expected, name, error)
    return named, faults


_BY_TASK: Final = Naming(("name",), lambda name: (task_of(name),), A_TASK)
_BY_PARENT: Final = Naming(("parent", "name"), lambda name: (parent_of(name),), A_TASK)
_BY_CONFIG: Final = Naming(("name",), config_of, A_CONFIG)

REQUESTS: Final[Mapping[str, Form]] = {
    "GetTaskRequest": _named(pb.GetTaskRequest, ("id",), _BY_TASK),
    "CancelTaskRequest": _named(pb.CancelTaskRequest, ("id",), _BY_TASK),
    "SubscribeToTaskRequest": _named(pb.SubscribeToTaskRequest, ("id",), _BY_TASK),
    "GetTaskPushNotificationConfigRequest": _named(
        pb.GetTaskPushNotificationConfigRequest, ("task_id", "id"), _BY_CONFIG
    ),
    "DeleteTaskPushNotificationConfigRequest": _named(
        pb.DeleteTaskPushNotificationConfigRequest, ("task_id", "id"), _BY_CONFIG
    ),
    "ListTaskPushNotificationConfigsRequest": _named(
        pb.ListTaskPushNotificationConfigsRequest, ("task_id",), _BY_PARENT
    ),
}
