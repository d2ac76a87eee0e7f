"""Requests about push configs (spec: LGRP-02, LRES-06, CONF-31)."""

from __future__ import annotations

from collections.abc import Sequence

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import Violation
from a2a_server.protocol.v0_3 import names, push
from a2a_server.protocol.v0_3.faults import Faults, settle
from a2a_server.protocol.v0_3.options import DEFAULT, Options


def upgrade_create(
    legacy: v03.CreateTaskPushNotificationConfigRequest, options: Options = DEFAULT
) -> pb.TaskPushNotificationConfig:
    """An id may stand in three places, and the task in two; all that are filled must agree."""
    config, faults = pb.TaskPushNotificationConfig(), Faults()
    own = legacy.config
    push.upgrade_into(config, own.push_notification_config, options, "config.push_notification_config.", faults)
    config.task_id = names.parent_of(legacy.parent, "parent", faults)
    if own.name:
        name = names.unborn_config_of(own.name, "config.name", faults)
        _agree(name.task_id, config.task_id, "config.name", faults)
        config.id = _agree(name.config_id, config.id, "config.name", faults)
    config.id = _agree(legacy.config_id, config.id, "config_id", faults)
    names.check_new_id(legacy.config_id, "config_id", faults)
    push.check_new(own.push_notification_config, "config.push_notification_config.", faults)
    settle(faults)
    return config


def schemes_of(legacy: v03.CreateTaskPushNotificationConfigRequest) -> Sequence[str]:
    return push.schemes_of(legacy.config.push_notification_config)


def upgrade_get(legacy: v03.GetTaskPushNotificationConfigRequest) -> pb.GetTaskPushNotificationConfigRequest:
    name = _config_of(legacy.name)
    return pb.GetTaskPushNotificationConfigRequest(task_id=name.task_id, id=name.config_id)


def upgrade_delete(legacy: v03.DeleteTaskPushNotificationConfigRequest) -> pb.DeleteTaskPushNotificationConfigRequest:
    name = _config_of(legacy.name)
    return pb.DeleteTaskPushNotificationConfigRequest(task_id=name.task_id, id=name.config_id)


def upgrade_list(legacy: v03.ListTaskPushNotificationConfigRequest) -> pb.ListTaskPushNotificationConfigsRequest:
    """0.3's `page_size` 0 means all, 1.0's the default: whoever calls has to follow the pages."""
    faults = Faults()
    task_id = names.task_of(legacy.parent, "parent", faults)
    settle(faults)
    return pb.ListTaskPushNotificationConfigsRequest(
        task_id=task_id, page_size=legacy.page_size, page_token=legacy.page_token
    )


def downgrade_create(config: pb.TaskPushNotificationConfig) -> v03.CreateTaskPushNotificationConfigRequest:
    return v03.CreateTaskPushNotificationConfigRequest(
        parent=names.task_name(config.task_id), config_id=config.id, config=push.downgrade(config)
    )


def downgrade_get(request: pb.GetTaskPushNotificationConfigRequest) -> v03.GetTaskPushNotificationConfigRequest:
    return v03.GetTaskPushNotificationConfigRequest(name=names.config_name(request.task_id, request.id))


def downgrade_delete(
    request: pb.DeleteTaskPushNotificationConfigRequest,
) -> v03.DeleteTaskPushNotificationConfigRequest:
    return v03.DeleteTaskPushNotificationConfigRequest(name=names.config_name(request.task_id, request.id))


def downgrade_list(request: pb.ListTaskPushNotificationConfigsRequest) -> v03.ListTaskPushNotificationConfigRequest:
    return v03.ListTaskPushNotificationConfigRequest(
        parent=names.task_name(request.task_id), page_size=request.page_size, page_token=request.page_token
    )


def _config_of(name: str) -> names.ConfigName:
    faults = Faults()
    found = names.config_of(name, "name", faults)
    settle(faults)
    return found


def _agree(said: str, known: str, field: str, faults: Faults) -> str:
    """Whatever of the two is filled."""
    if said and known and said != known:
        faults.append(Violation(field, f"says {said[:80]!r} where another member says {known[:80]!r}"))
    return known or said
