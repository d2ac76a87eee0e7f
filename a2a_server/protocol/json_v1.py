"""The JSON of 1.0: ProtoJSON that reads all spellings of states, and refuses members of 0.3 (CONF-26, CONF-54).

A member of 0.3 is refused if ignoring it would lose its value (LMAP-03). Other unknown members are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import Codec, Dialect
from a2a_server.protocol.codec.compiler import Compiler, Function
from a2a_server.protocol.codec.dialect import Complaint, Form, descriptor_of
from a2a_server.protocol.codec.faults import shown
from a2a_server.protocol.codec.scalars import integer
from a2a_server.protocol.names import INPUT_REQUEST_URI
from a2a_server.protocol.spellings import STATE, V1_STATES, texts

_FROM_0_3: Final = "is A2A 0.3's; 1.0 has {}"
_FROM_DRAFT: Final = "is the draft's; 1.0 has {}"
_KIND: Final = "kind"
_BLOCKING: Final = "blocking"
_CONFIGURATION: Final = descriptor_of(pb.SendMessageConfiguration)
_CONTENTS: Final = {"text": {"text"}, "file": {"url", "raw", "file"}, "data": {"data"}}
"""What a part of a kind has; about `file` there is a complaint of its own."""


def _kind_of_message(message: Mapping[str, object]) -> str:
    """Ignore a `kind` that is right; refuse one that is wrong."""
    return "" if message[_KIND] == "message" else _wrong(message)


def _kind_of_part(part: Mapping[str, object]) -> str:
    kind = part[_KIND]
    return "" if isinstance(kind, str) and _CONTENTS.get(kind, set()) & part.keys() else _wrong(part)


def _wrong(value: Mapping[str, object]) -> str:
    return f"is A2A 0.3's and says {shown(value[_KIND])}, which this is not; 1.0 has no such member"


def _blocking(configuration: Mapping[str, object]) -> str:
    """Refuse `blocking` of 0.3 unless it agrees with `returnImmediately`, which is its opposite (CONF-82)."""
    blocking = configuration[_BLOCKING]
    if blocking is None:
        return ""
    if type(blocking) is not bool:
        return "must be true or false"
    immediately = configuration.get("returnImmediately", configuration.get("return_immediately"))
    return "contradicts returnImmediately" if blocking is immediately else ""


def _configuration_reader(readers: Compiler) -> Function:
    plain = readers.plain(_CONFIGURATION)

    def read(value: object, configuration: pb.SendMessageConfiguration) -> None:
        plain(value, configuration)
        if type(value) is dict and (blocking := value.get(_BLOCKING)) is not None:
            configuration.return_immediately = not blocking

    return read


def _page_size(value: object) -> int:
    if not (size := integer(value)):
        raise ValueError
    return size


PAGE_SIZE: Final = {
    "lf.a2a.v1.ListTasksRequest.page_size": Form(None, lambda _: _page_size, "a whole number from 1 to 100")
}
"""Whoever writes 0 in JSON means it; over gRPC it says nothing (LIST-08, CONF-79)."""
_INLINE: Final = '"taskPushNotificationConfig"'
_TASK: Final = texts(_FROM_0_3, name='"id"')
_CONFIG: Final = texts(_FROM_0_3, name='"taskId" and "id"', pushNotificationConfigId='"id", and "taskId" for the task')
_MEMBERS_HERE: Final = dict.fromkeys(("pushNotificationConfig", "config"), "its members here")

_FOREIGN: Final[Mapping[str, Mapping[str, Complaint]]] = {
    "lf.a2a.v1.SendMessageRequest": texts(_FROM_0_3, request='"message"'),
    _CONFIGURATION.full_name: {
        _BLOCKING: _blocking,
        **texts(_FROM_0_3, pushNotificationConfig=_INLINE, pushNotification=_INLINE),
    },
    "lf.a2a.v1.Message": {
        _KIND: _kind_of_message,
        **texts(_FROM_0_3, content='"parts"', inputRequest=f"the extension {INPUT_REQUEST_URI}, in metadata"),
    },
    "lf.a2a.v1.Part": {
        _KIND: _kind_of_part,
        **texts(_FROM_0_3, file='"url" or "raw", with "mediaType" and "filename" beside it'),
    },
    "lf.a2a.v1.AuthenticationInfo": texts(_FROM_0_3, schemes='"scheme", a single one'),
    "lf.a2a.v1.GetTaskRequest": _TASK,
    "lf.a2a.v1.CancelTaskRequest": _TASK,
    "lf.a2a.v1.SubscribeToTaskRequest": _TASK,
    "lf.a2a.v1.ListTasksRequest": texts(
        _FROM_DRAFT, lastUpdatedAfter='"statusTimestampAfter", such as 2026-02-03T04:05:06Z'
    ),
    "lf.a2a.v1.TaskPushNotificationConfig": {
        **texts(_FROM_0_3, **_MEMBERS_HERE, parent='"taskId"', configId='"id"'),
        **_CONFIG,
    },
    "lf.a2a.v1.GetTaskPushNotificationConfigRequest": _CONFIG,
    "lf.a2a.v1.DeleteTaskPushNotificationConfigRequest": _CONFIG,
    "lf.a2a.v1.ListTaskPushNotificationConfigsRequest": texts(_FROM_0_3, parent='"taskId"', id='"taskId"'),
}

_FORMS: Final = {_CONFIGURATION.full_name: Form(None, _configuration_reader), **PAGE_SIZE}

V1: Final[Codec] = Codec(Dialect(enums={STATE: V1_STATES}, foreign=_FOREIGN, forms=_FORMS))
"""Required members always written, times in milliseconds."""
