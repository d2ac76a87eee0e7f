"""Members of one version or spelling in a body of another: refused where ignoring them would lose what they say.

All other members that nobody knows are ignored (spec: GEN-06, CONF-54, LMAP-03, LRES-05, DRFT-02).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeVar

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec.faults import shown
from a2a_server.protocol.codec.schema import Complaint
from a2a_server.protocol.names import INPUT_REQUEST_URI

T = TypeVar("T")

Foreign = Mapping[str, Mapping[str, str]]
"""By type: members, and what to say of them."""


def of_1_0(table: Mapping[str, T]) -> dict[str, T]:
    """The same table by the full names of 1.0's types and fields."""
    return {f"{pb.DESCRIPTOR.package}.{name}": entry for name, entry in table.items()}


def of_0_3(table: Mapping[str, T]) -> dict[str, T]:
    """The same table by the full names of 0.3's types and fields."""
    return {f"{v03.DESCRIPTOR.package}.{name}": entry for name, entry in table.items()}


def snake(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()


def texts(told: str, **names: str) -> dict[str, str]:
    """What to say of each name, in either case."""
    said = {name: told.format(right) for name, right in names.items()}
    return said | {snake(name): text for name, text in said.items()}


_OF_1_0: Final = "is A2A 1.0's; 0.3 has {}"
_OF_PROTO: Final = "is the 0.3 proto's; its JSON schema, which the rest of this is spelt by, has {}"
_OF_SCHEMA: Final = "is the 0.3 JSON schema's; its proto, which the rest of this is spelt by, has {}"
_INPUT_REQUEST: Final = f"the extension {INPUT_REQUEST_URI}, in metadata"
_OPPOSITE: Final = '"blocking", which is the opposite'
_CONFIG_INSIDE: Final = '"pushNotificationConfig"'
_INSIDE_FILE: Final = {"mediaType": '"mimeType" inside "file"', "filename": '"name" inside "file"'}
_IN_PARTS: Final = {"raw": '"file": {"fileWithBytes": …}', "url": '"file": {"fileWithUri": …}'}


# -- in 0.3

TENANT: Final = texts(_OF_1_0, tenant="it in the path, as in /{tenant}/v1/tasks or /{tenant}/")
"""Never ignored: without its tenant a call is one in somebody else's space (TENA-03)."""

_BY_ID: Final = texts(_OF_1_0, taskId='"id", and "pushNotificationConfigId" for a config') | TENANT
_REQUESTS: Final[Foreign] = {
    **of_1_0(
        {
            name: TENANT
            for name, kind in pb.DESCRIPTOR.message_types_by_name.items()
            if "tenant" in kind.fields_by_name and name.endswith("Request")
        }
    ),
    **of_1_0(
        {
            "GetTaskPushNotificationConfigRequest": _BY_ID,
            "DeleteTaskPushNotificationConfigRequest": _BY_ID,
            "ListTaskPushNotificationConfigsRequest": texts(_OF_1_0, taskId='"id"') | TENANT,
        }
    ),
    **of_0_3(
        {
            "SendMessageConfiguration": texts(
                _OF_1_0, returnImmediately=_OPPOSITE, taskPushNotificationConfig=_CONFIG_INSIDE
            ),
            "AuthenticationInfo": texts(_OF_1_0, scheme='"schemes", a list'),
            "PushNotificationConfig": TENANT,
        }
    ),
}
_IN_FILE: Final = texts(_OF_1_0, mediaType='"mimeType"', filename='"name"')
_NO_KIND: Final = texts(_OF_SCHEMA, kind="no such member")

IN_KIND: Final[Foreign] = {
    **_REQUESTS,
    **of_0_3(
        {
            "SendMessageRequest": TENANT | texts(_OF_PROTO, request='"message"'),
            "Message": texts(_OF_PROTO, content='"parts"'),
            "Part": texts(_OF_1_0, **_INSIDE_FILE, raw='"file": {"bytes": …}', url='"file": {"uri": …}'),
            "FilePart": _IN_FILE | {"data": 'is no member of a file, which has "bytes", in base64, or "uri"'},
        }
    ),
}
IN_PROTO: Final[Foreign] = {
    **_REQUESTS,
    **of_0_3(
        {
            "SendMessageRequest": TENANT,
            "Message": _NO_KIND | texts(_OF_SCHEMA, parts='"content"', inputRequest=_INPUT_REQUEST),
            "Part": _NO_KIND | texts(_OF_1_0, **_INSIDE_FILE, **_IN_PARTS),
            "FilePart": _IN_FILE | texts(_OF_SCHEMA, bytes='"fileWithBytes"', uri='"fileWithUri"'),
        }
    ),
}


# -- in the draft

_NOT_DRAFT: Final = "is A2A 1.0's; the draft has {}"
_NOT_0_3: Final = "is A2A 0.3's; the draft has {}"

IN_DRAFT: Final[Foreign] = {
    **of_1_0(
        {
            "SendMessageConfiguration": {
                **texts(_NOT_DRAFT, returnImmediately=_OPPOSITE, taskPushNotificationConfig=_CONFIG_INSIDE),
                **texts(_NOT_0_3, pushNotification=_CONFIG_INSIDE),
            },
            "ListTasksRequest": texts(
                _NOT_DRAFT, statusTimestampAfter='"lastUpdatedAfter", in milliseconds since 1970'
            ),
            "Message": texts(_NOT_0_3, content='"parts"', inputRequest=_INPUT_REQUEST),
        }
    ),
    **of_0_3(
        {
            "AuthenticationInfo": texts(_NOT_DRAFT, scheme='"schemes", a list'),
            "PushNotificationConfig": {"tenant": "is for the request to say"},
            "Part": texts(
                _NOT_DRAFT, mediaType='"mediaType" inside "file"', filename='"name" inside "file"', **_IN_PARTS
            ),
            "FilePart": {
                **texts(_NOT_DRAFT, filename='"name"'),
                **texts(_NOT_0_3, bytes='"fileWithBytes"', uri='"fileWithUri"'),
            },
        }
    ),
}


# -- in 1.0

_FROM_0_3: Final = "is A2A 0.3's; 1.0 has {}"
_FROM_DRAFT: Final = "is the draft's; 1.0 has {}"
_KIND: Final = "kind"
_CONTENTS: Final = {"text": {"text"}, "file": {"url", "raw", "file"}, "data": {"data"}}
"""What a part of a kind has; about `file` there is a complaint of its own."""


def _kind_of_message(message: Mapping[str, object]) -> str:
    """A `kind` that is right says nothing that the other members do not, and is ignored."""
    return "" if message[_KIND] == "message" else _wrong(message)


def _kind_of_part(part: Mapping[str, object]) -> str:
    kind = part[_KIND]
    return "" if isinstance(kind, str) and _CONTENTS.get(kind, set()) & part.keys() else _wrong(part)


def _wrong(value: Mapping[str, object]) -> str:
    return f"is A2A 0.3's and says {shown(value[_KIND])}, which this is not; 1.0 has no such member"


_TASK: Final = texts(_FROM_0_3, name='"id"')
_CONFIG: Final = texts(_FROM_0_3, name='"taskId" and "id"', pushNotificationConfigId='"id", and "taskId" for the task')
_MEMBERS_HERE: Final = dict.fromkeys(("pushNotificationConfig", "config"), "its members here")

IN_1_0: Final[Mapping[str, Mapping[str, Complaint]]] = of_1_0(
    {
        "SendMessageRequest": texts(_FROM_0_3, request='"message"'),
        "SendMessageConfiguration": texts(
            _FROM_0_3,
            blocking='"returnImmediately", which is the opposite',
            pushNotificationConfig='"taskPushNotificationConfig"',
            pushNotification='"taskPushNotificationConfig"',
        ),
        "Message": {
            _KIND: _kind_of_message,
            **texts(_FROM_0_3, content='"parts"', inputRequest=_INPUT_REQUEST),
        },
        "Part": {
            _KIND: _kind_of_part,
            **texts(_FROM_0_3, file='"url" or "raw", with "mediaType" and "filename" beside it'),
        },
        "AuthenticationInfo": texts(_FROM_0_3, schemes='"scheme", a single one'),
        "GetTaskRequest": _TASK,
        "CancelTaskRequest": _TASK,
        "SubscribeToTaskRequest": _TASK,
        "ListTasksRequest": texts(_FROM_DRAFT, lastUpdatedAfter='"statusTimestampAfter", such as 2026-02-03T04:05:06Z'),
        "TaskPushNotificationConfig": {
            **texts(_FROM_0_3, **_MEMBERS_HERE, parent='"taskId"', configId='"id"'),
            **_CONFIG,
        },
        "GetTaskPushNotificationConfigRequest": _CONFIG,
        "DeleteTaskPushNotificationConfigRequest": _CONFIG,
        "ListTaskPushNotificationConfigsRequest": texts(_FROM_0_3, parent='"taskId"', id='"taskId"'),
    }
)
