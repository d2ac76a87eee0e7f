"""0.3 as ProtoJSON of its proto: `content`, `ROLE_USER`, `TASK_STATE_CANCELLED` (spec: LRES-05, CONF-27)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.codec import Dialect
from gateway.codec.schema import Form
from gateway.dialects import members, proto_messages, proto_parts, push, sends
from gateway.dialects.enums import PROTO_ROLES, PROTO_STATES, ROLE, STATE
from gateway.dialects.foreign import IN_PROTO, TENANT
from gateway.dialects.forms import FORMS
from gateway.dialects.members import full
from gateway.dialects.spelling import FINAL, Spelling, spelling

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
