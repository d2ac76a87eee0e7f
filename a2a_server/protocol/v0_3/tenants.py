"""Tenants of the draft's gRPC, for which 0.3 has no member (spec: TENA-03, TENA-05).

The draft has 0.3's package, service and numbers, so that nothing but such a member tells its clients apart. To drop the
tenant would be to act in somebody else's space.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from a2a_server.protocol.errors import Violation, refuse

_NUMBERS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "SendMessage": 4,
        "SendStreamingMessage": 4,
        "GetTask": 3,
        "CancelTask": 2,
        "TaskSubscription": 2,
        "CreateTaskPushNotificationConfig": 4,
        "GetTaskPushNotificationConfig": 2,
        "ListTaskPushNotificationConfig": 4,
        "DeleteTaskPushNotificationConfig": 2,
        "GetAgentCard": 1,
    }
)
_TEXT: Final = 2
"""protobuf's number for what has a length."""


def refuse_tenant(rpc: str, request: Message) -> None:
    """Refuse a request that names one."""
    number, unknown = _NUMBERS[rpc], UnknownFieldSet(request)
    for index in range(len(unknown)):
        field = unknown[index]
        if field.field_number == number and field.wire_type == _TEXT and field.data:
            text = "0.3 has none over gRPC; call lf.a2a.v1, or REST or JSON-RPC under the tenant's path"
            refuse([Violation("tenant", text)])
