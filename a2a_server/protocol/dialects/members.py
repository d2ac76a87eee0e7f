"""What 0.3 calls the fields of 1.0, in either of its spellings (spec: LMAP; wire-0.3 3, 4, 8; CONF-15, -33, -71)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from google.protobuf.descriptor import FieldDescriptor

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.schema import is_required, json_name

T = TypeVar("T")

PACKAGE: Final = pb.DESCRIPTOR.package
_CONFIG: Final = "SendMessageConfiguration.task_push_notification_config"

NAMES: Final[Mapping[str, str]] = {
    _CONFIG: "pushNotificationConfig",
    "SendMessageConfiguration.return_immediately": "blocking",
    "AuthenticationInfo.scheme": "schemes",
    "TaskPushNotificationConfig.task_id": "",  # said outside of it
    "GetTaskPushNotificationConfigRequest.task_id": "id",
    "GetTaskPushNotificationConfigRequest.id": "pushNotificationConfigId",
    "DeleteTaskPushNotificationConfigRequest.task_id": "id",
    "DeleteTaskPushNotificationConfigRequest.id": "pushNotificationConfigId",
    "ListTaskPushNotificationConfigsRequest.task_id": "id",
}
"""Members that are not called as in 1.0; empty: there is none."""

UNPAGED: Final[Mapping[str, str]] = {
    "ListTaskPushNotificationConfigsRequest.page_size": "",
    "ListTaskPushNotificationConfigsRequest.page_token": "",
}
"""JSON-RPC lists all configs at once."""

ALSO: Final[Mapping[str, Sequence[str]]] = {
    _CONFIG: ("pushNotificationConfig", "push_notification_config", "pushNotification", "push_notification"),
    "GetTaskRequest.id": ("taskId", "task_id"),
}
"""Further names that are read."""

_ALWAYS: Final = frozenset({"Task.context_id", "SendMessageConfiguration.return_immediately"})
"""Required in 0.3 but not in 1.0; and what is the opposite in 0.3, so that its default is none there."""


def member(names: Mapping[str, str]) -> Callable[[FieldDescriptor], str]:
    """Name a field as in the table, and otherwise as in 1.0. A tenant is in the URL or the credentials, never here."""

    def named(field: FieldDescriptor) -> str:
        return "" if field.name == "tenant" else names.get(short(field), json_name(field))

    return named


def also(
    named: Callable[[FieldDescriptor], str], names: Mapping[str, Sequence[str]]
) -> Callable[[FieldDescriptor], Sequence[str]]:
    """Read members in snake_case, too, and by the names of the table."""

    def others(field: FieldDescriptor) -> Sequence[str]:
        return snake(named(field)), *names.get(short(field), ())

    return others


def always(field: FieldDescriptor) -> bool:
    return is_required(field) or short(field) in _ALWAYS


def short(field: FieldDescriptor) -> str:
    return field.full_name.removeprefix(f"{PACKAGE}.")


def full(tables: Mapping[str, T]) -> dict[str, T]:
    """The same table by full names."""
    return {f"{PACKAGE}.{name}": entry for name, entry in tables.items()}


def snake(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()
