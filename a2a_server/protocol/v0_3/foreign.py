"""Members of other versions and spellings that a body of 0.3 or the draft must not have, with the text of the error.

Ignoring them would lose their values. Other unknown members are ignored (spec: GEN-06, LRES-05, DRFT-02).
"""

from __future__ import annotations

from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.names import INPUT_REQUEST_URI
from a2a_server.protocol.spellings import Foreign, texts

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
    **{
        kind.full_name: TENANT
        for name, kind in pb.DESCRIPTOR.message_types_by_name.items()
        if "tenant" in kind.fields_by_name and name.endswith("Request")
    },
    "lf.a2a.v1.GetTaskPushNotificationConfigRequest": _BY_ID,
    "lf.a2a.v1.DeleteTaskPushNotificationConfigRequest": _BY_ID,
    "lf.a2a.v1.ListTaskPushNotificationConfigsRequest": texts(_OF_1_0, taskId='"id"') | TENANT,
    "a2a.v1.SendMessageConfiguration": texts(
        _OF_1_0, returnImmediately=_OPPOSITE, taskPushNotificationConfig=_CONFIG_INSIDE
    ),
    "a2a.v1.AuthenticationInfo": texts(_OF_1_0, scheme='"schemes", a list'),
    "a2a.v1.PushNotificationConfig": TENANT,
}
_IN_FILE: Final = texts(_OF_1_0, mediaType='"mimeType"', filename='"name"')
_NO_KIND: Final = texts(_OF_SCHEMA, kind="no such member")

IN_KIND: Final[Foreign] = {
    **_REQUESTS,
    "a2a.v1.SendMessageRequest": TENANT | texts(_OF_PROTO, request='"message"'),
    "a2a.v1.Message": texts(_OF_PROTO, content='"parts"'),
    "a2a.v1.Part": texts(_OF_1_0, **_INSIDE_FILE, raw='"file": {"bytes": …}', url='"file": {"uri": …}'),
    "a2a.v1.FilePart": _IN_FILE | {"data": 'is no member of a file, which has "bytes", in base64, or "uri"'},
}
IN_PROTO: Final[Foreign] = {
    **_REQUESTS,
    "a2a.v1.SendMessageRequest": TENANT,
    "a2a.v1.Message": _NO_KIND | texts(_OF_SCHEMA, parts='"content"', inputRequest=_INPUT_REQUEST),
    "a2a.v1.Part": _NO_KIND | texts(_OF_1_0, **_INSIDE_FILE, **_IN_PARTS),
    "a2a.v1.FilePart": _IN_FILE | texts(_OF_SCHEMA, bytes='"fileWithBytes"', uri='"fileWithUri"'),
}


# -- in the draft

_NOT_DRAFT: Final = "is A2A 1.0's; the draft has {}"
_NOT_0_3: Final = "is A2A 0.3's; the draft has {}"

IN_DRAFT: Final[Foreign] = {
    "lf.a2a.v1.SendMessageConfiguration": {
        **texts(_NOT_DRAFT, returnImmediately=_OPPOSITE, taskPushNotificationConfig=_CONFIG_INSIDE),
        **texts(_NOT_0_3, pushNotification=_CONFIG_INSIDE),
    },
    "lf.a2a.v1.ListTasksRequest": texts(
        _NOT_DRAFT, statusTimestampAfter='"lastUpdatedAfter", in milliseconds since 1970'
    ),
    "lf.a2a.v1.Message": texts(_NOT_0_3, content='"parts"', inputRequest=_INPUT_REQUEST),
    "a2a.v1.AuthenticationInfo": texts(_NOT_DRAFT, scheme='"schemes", a list'),
    "a2a.v1.PushNotificationConfig": {"tenant": "is for the request to say"},
    "a2a.v1.Part": texts(
        _NOT_DRAFT, mediaType='"mediaType" inside "file"', filename='"name" inside "file"', **_IN_PARTS
    ),
    "a2a.v1.FilePart": {
        **texts(_NOT_DRAFT, filename='"name"'),
        **texts(_NOT_0_3, bytes='"fileWithBytes"', uri='"fileWithUri"'),
    },
}
