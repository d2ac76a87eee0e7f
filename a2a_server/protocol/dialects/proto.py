"""0.3 as ProtoJSON of its proto: `content`, `ROLE_USER`, `TASK_STATE_CANCELLED` (spec: LRES-05, CONF-27)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from a2a_server.protocol.codec import Dialect
from a2a_server.protocol.codec.schema import Form
from a2a_server.protocol.dialects import members, proto_messages, proto_parts, push, sends
from a2a_server.protocol.dialects.enums import PROTO_ROLES, PROTO_STATES, ROLE, STATE
from a2a_server.protocol.dialects.foreign import IN_PROTO, TENANT
from a2a_server.protocol.dialects.forms import FORMS
from a2a_server.protocol.dialects.members import full
from a2a_server.protocol.dialects.spelling import FINAL, Spelling, spelling

_MEMBER: Final = members.member(
    {
        **members.NAMES,
        "Message.parts": "content",
        "Message.reference_task_ids": "",
        "SendMessageConfiguration.task_push_notification_config": "pushNotification",
    }
)
_ALSO: Final = {
    **members.ALSO,
    "SendMessageRequest.message": ("request",),
    "SendMessageResponse.message": ("msg",),
    "StreamResponse.message": ("msg",),
    "TaskStatus.message": ("update",),
}
"""What the proto calls them, where JSON has another name."""
_FORMS: Final[Mapping[str, Form]] = {
    **FORMS,
    **full(
        {
            "Message": proto_messages.FORM,
            "TaskPushNotificationConfig": push.named(push.by_name, TENANT),
            "TaskPushNotificationConfig.id": push.ID,
        }
    ),
}
_CONSTANTS: Final[Mapping[str, Mapping[str, str | bool]]] = full({"TaskStatusUpdateEvent": {FINAL: False}})


def proto(*, raw_files: bool = False, wait: bool = True) -> Spelling:
    """With `raw_files` files are written as JavaScript does; without `wait` a send without configuration does not."""
    dialect = Dialect(
        member=_MEMBER,
        also=members.also(_MEMBER, _ALSO),
        always=members.always,
        constants=_CONSTANTS,
        foreign=full(IN_PROTO),
        enums={STATE: PROTO_STATES, ROLE: PROTO_ROLES},
        forms={
            **_FORMS,
            **full({"Part": proto_parts.form(raw_files=raw_files)}),
            **full({**sends.WAITING, **sends.AS_PROTO} if wait else sends.WITHOUT_WAITING),
        },
    )
    return spelling(dialect)
