"""The draft between 0.3 and 1.0: kebab-case and `final` as in 0.3, wrappers and no `kind` as in 1.0 (spec: DRFT-02)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from google.protobuf.descriptor import FieldDescriptor

from a2a_server.protocol.codec import Dialect
from a2a_server.protocol.codec.schema import Form, json_name
from a2a_server.protocol.dialects import draft_names, draft_parts, draft_push, draft_times, members, push, sends, times
from a2a_server.protocol.dialects.enums import DRAFT_ROLES, DRAFT_STATES, ROLE, STATE
from a2a_server.protocol.dialects.foreign import IN_DRAFT
from a2a_server.protocol.dialects.members import full, short
from a2a_server.protocol.dialects.spelling import FINAL, Spelling, spelling

_NAMES: Final[Mapping[str, str]] = {
    "AuthenticationInfo.scheme": "schemes",
    "ListTasksRequest.status_timestamp_after": "lastUpdatedAfter",
    "SendMessageConfiguration.return_immediately": "blocking",
    "SendMessageConfiguration.task_push_notification_config": "pushNotificationConfig",
    "TaskPushNotificationConfig.task_id": "",  # said by its name, or outside of it
    "TaskPushNotificationConfig.tenant": "",  # as above
}
"""Members that are not called as in 1.0; empty: there is none."""

_ALSO: Final = {"ListTaskPushNotificationConfigsRequest.task_id": ("id",)}

_FORMS: Final[Mapping[str, Form]] = {
    "google.protobuf.Timestamp": times.FORM,
    **full(
        {
            "AuthenticationInfo.scheme": push.SCHEMES,
            "ListTasksRequest.status_timestamp_after": draft_times.FORM,
            "Part": draft_parts.FORM,
            "SendMessageConfiguration.return_immediately": sends.BLOCKING,
            "SendMessageConfiguration.task_push_notification_config": push.UNNAMED,
            "TaskPushNotificationConfig": draft_push.FORM,
            "TaskPushNotificationConfig.id": push.ID,
            **draft_names.FORMS,
            **sends.WITHOUT_WAITING,  # CONF-08
        }
    ),
}
_CONSTANTS: Final[Mapping[str, Mapping[str, str | bool]]] = full({"TaskStatusUpdateEvent": {FINAL: False}})


def draft() -> Spelling:
    dialect = Dialect(
        member=_member,
        also=members.also(_member, _ALSO),
        always=members.always,
        constants=_CONSTANTS,
        foreign=full(IN_DRAFT),
        enums={STATE: DRAFT_STATES, ROLE: DRAFT_ROLES},
        forms=_FORMS,
    )
    return spelling(dialect)


def _member(field: FieldDescriptor) -> str:
    return _NAMES.get(short(field), json_name(field))
