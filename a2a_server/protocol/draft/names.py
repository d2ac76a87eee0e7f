"""Requests of the draft that may name a resource, give its ids, or both, which must agree (spec: DRFT-06, CONF-53)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.compiler import Compiler, Function
from a2a_server.protocol.codec.faults import WRONG, Faults, note
from a2a_server.protocol.codec.schema import Form, descriptor_of
from a2a_server.protocol.v0_3.configs import JsonObject
from a2a_server.protocol.v0_3.names import A_CONFIG, A_TASK, config_of, parent_of, task_of, text_of
from a2a_server.protocol.v0_3.configs import agreed

Ids = Sequence[str]


class Naming(NamedTuple):
    """How a kind of resource is named."""

    members: Sequence[str]
    ids_of: Callable[[str], Ids]
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


def _taken_apart(value: JsonObject, naming: Naming, faults: Faults | None) -> tuple[Mapping[str, Ids], Faults | None]:
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

FORMS: Final[Mapping[str, Form]] = {
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
