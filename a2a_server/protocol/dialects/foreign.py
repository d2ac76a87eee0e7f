"""Members of one spelling in a body of another: refused, since to ignore them loses what they say (LRES-05, DRFT-02).

All other members that nobody knows are ignored (GEN-06).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.dialects.members import snake
from a2a_server.protocol.names import INPUT_REQUEST_URI

Foreign = Mapping[str, Mapping[str, str]]
"""By type: members, and what to say of them."""


def texts(told: str, **names: str) -> dict[str, str]:
    """What to say of each name, in either case."""
    texts = {name: told.format(right) for name, right in names.items()}
    return texts | {snake(name): text for name, text in texts.items()}


def _joined(*tables: Foreign) -> Foreign:
    types = {name for table in tables for name in table}
    return {name: {member: text for table in tables for member, text in table.get(name, {}).items()} for name in types}


_OF_1_0: Final = "is A2A 1.0's; 0.3 has {}"
_OF_PROTO: Final = "is the 0.3 proto's; its JSON schema, which the rest of this is spelt by, has {}"
_OF_SCHEMA: Final = "is the 0.3 JSON schema's; its proto, which the rest of this is spelt by, has {}"
_INPUT_REQUEST: Final = f"the extension {INPUT_REQUEST_URI}, in metadata"
_TYPES: Final = "Task", "Message", "TaskStatusUpdateEvent", "TaskArtifactUpdateEvent"

TENANT: Final = texts(_OF_1_0, tenant="it in the path, as in /{tenant}/v1/tasks or /{tenant}/")
"""Never ignored: without its tenant a call is one in somebody else's space (TENA-03)."""
_TENANTS: Final = {
    name: TENANT
    for name, kind in pb.DESCRIPTOR.message_types_by_name.items()
    if "tenant" in kind.fields_by_name and (name.endswith("Request") or name == "TaskPushNotificationConfig")
}

_REQUESTS: Final = {
    "SendMessageConfiguration": texts(
        _OF_1_0,
        returnImmediately='"blocking", which is the opposite',
        taskPushNotificationConfig='"pushNotificationConfig"',
    ),
    "AuthenticationInfo": texts(_OF_1_0, scheme='"schemes", a list'),
    "GetTaskPushNotificationConfigRequest": texts(_OF_1_0, taskId='"id", and "pushNotificationConfigId" for a config'),
    "DeleteTaskPushNotificationConfigRequest": texts(
        _OF_1_0, taskId='"id", and "pushNotificationConfigId" for a config'
    ),
    "ListTaskPushNotificationConfigsRequest": texts(_OF_1_0, taskId='"id"'),
}

IN_KIND: Final[Foreign] = _joined(
    _TENANTS,
    _REQUESTS,
    {
        "Message": texts(_OF_PROTO, content='"parts"'),
        "SendMessageRequest": texts(_OF_PROTO, request='"message"'),
    },
)
IN_PROTO: Final[Foreign] = _joined(
    _TENANTS,
    _REQUESTS,
    {name: texts(_OF_SCHEMA, kind="no such member") for name in _TYPES},
    {"Message": texts(_OF_SCHEMA, parts='"content"', inputRequest=_INPUT_REQUEST)},
)

IN_KIND_PART: Final = texts(
    _OF_1_0,
    raw='"file": {"bytes": …}',
    url='"file": {"uri": …}',
    mediaType='"mimeType" inside "file"',
    filename='"name" inside "file"',
)
IN_PROTO_PART: Final = texts(
    _OF_1_0,
    raw='"file": {"fileWithBytes": …}',
    url='"file": {"fileWithUri": …}',
    mediaType='"mimeType" inside "file"',
    filename='"name" inside "file"',
) | texts(_OF_SCHEMA, kind="no such member")

_IN_FILE: Final = texts(_OF_1_0, mediaType='"mimeType"', filename='"name"')
IN_KIND_FILE: Final = _IN_FILE | {"data": 'is no member of a file, which has "bytes", in base64, or "uri"'}
IN_PROTO_FILE: Final = _IN_FILE | texts(_OF_SCHEMA, bytes='"fileWithBytes"', uri='"fileWithUri"')

_NOT_DRAFT: Final = "is A2A 1.0's; the draft has {}"
_OF_0_3: Final = "is A2A 0.3's; the draft has {}"

IN_DRAFT: Final[Foreign] = {
    "SendMessageConfiguration": texts(
        _NOT_DRAFT,
        returnImmediately='"blocking", which is the opposite',
        taskPushNotificationConfig='"pushNotificationConfig"',
    )
    | texts(_OF_0_3, pushNotification='"pushNotificationConfig"'),
    "AuthenticationInfo": texts(_NOT_DRAFT, scheme='"schemes", a list'),
    "ListTasksRequest": texts(_NOT_DRAFT, statusTimestampAfter='"lastUpdatedAfter", in milliseconds since 1970'),
    "Message": texts(_OF_0_3, content='"parts"', inputRequest=_INPUT_REQUEST),
    "TaskPushNotificationConfig": {"tenant": "is for the request to say"},
}
IN_DRAFT_PART: Final = texts(
    _NOT_DRAFT,
    raw='"file": {"fileWithBytes": …}',
    url='"file": {"fileWithUri": …}',
    mediaType='"mediaType" inside "file"',
    filename='"name" inside "file"',
)
IN_DRAFT_FILE: Final = texts(_NOT_DRAFT, filename='"name"') | texts(
    _OF_0_3, bytes='"fileWithBytes"', uri='"fileWithUri"'
)
