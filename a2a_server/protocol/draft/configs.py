"""What the draft may say in several places, which must agree: names and ids of tasks and push configs.

Requests may name a resource, give its ids, or both (DRFT-06, CONF-53). A new config has a name, and the request may say
around it whose it is (DRFT-04, CONF-31).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.compiler import Compiler, Function
from a2a_server.protocol.codec.faults import WRONG, Faults, note
from a2a_server.protocol.codec.schema import Form, descriptor_of
from a2a_server.protocol.v0_3.configs import SEGMENT, TEXT, Around, JsonObject, Place, agreed, by_name, named
from a2a_server.protocol.v0_3.names import A_CONFIG, A_TASK, config_of, parent_of, task_of, text_of

_ID: Final = {"id": 'is for "pushNotificationConfig" to hold; outside of it there is "configId"'}
_AROUND: Final = Around(
    {
        "tenant": TEXT,
        "taskId": TEXT,
        "configId": SEGMENT,
        "parent": Place(lambda name: parent_of(text_of(name)), A_TASK),
    },
    {"task_id": "taskId", "config_id": "configId"},
    _ID,
    {**_ID, "tenant": "is for the request to say"},
)
"""`{name, pushNotificationConfig}` may be the whole, or `config` beside `parent` and `configId`."""

FORM: Final = named(by_name, _ID, _AROUND)


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
