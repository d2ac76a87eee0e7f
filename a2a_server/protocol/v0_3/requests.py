"""Requests of 0.3 as those of 1.0, and push configs both ways.

0.3 has push configs under resource names, with lists of schemes. Serves LMAP, LGRP-02, LGRP-04, LRES-06, CONF-08, -22,
-31, -34 and -75.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.v0_3 import messages, names
from a2a_server.protocol.v0_3.parts import Found

N = TypeVar("N")

_NOWHERE: Final = names.ConfigName()
_A_TASK: Final = "tasks/{id}"
_A_CONFIG: Final = "tasks/{id}/pushNotificationConfigs/{config id}"


@dataclass(frozen=True, slots=True)
class Options:
    """What operators may choose about how 0.3 is spoken (CONF-08, CONF-66, CONF-69)."""

    raw_files: bool = False
    """Write the bytes of files as they are, for JavaScript's clients. The others expect base64 text."""
    wait_unasked: bool = False
    """Whether a send without any configuration waits. To the letter it does not: protobuf's default is false."""
    grpc_urls: bool = True
    """Whether a card writes a bare `host:port` of gRPC as a URL. The SDKs' clients hand it to gRPC as it is."""


DEFAULT = Options()


def upgrade_send(legacy: v03.SendMessageRequest, options: Options = DEFAULT) -> pb.SendMessageRequest:
    """Translate a send that came over gRPC, whose push config gets a name."""
    request, found = pb.SendMessageRequest(), Found()
    upgrade_send_into(request, legacy, found, wait_unasked=options.wait_unasked)
    if legacy.configuration.HasField("push_notification"):
        _check_new(legacy.configuration.push_notification, "configuration.push_notification.", found)
    _settle(found)
    return request


def upgrade_send_into(
    request: pb.SendMessageRequest, legacy: v03.SendMessageRequest, found: Found, *, wait_unasked: bool
) -> None:
    """Fill the empty `request`."""
    if legacy.HasField("request"):
        messages.upgrade_message_into(request.message, legacy.request, "request.", found)
    configured = legacy.HasField("configuration")
    if configured:
        _upgrade_configuration(request, legacy.configuration)
    if not (legacy.configuration.blocking if configured else wait_unasked):
        request.configuration.return_immediately = True
    if legacy.HasField("metadata"):
        request.metadata.CopyFrom(legacy.metadata)


def _upgrade_configuration(request: pb.SendMessageRequest, legacy: v03.SendMessageConfiguration) -> None:
    """Touch the new configuration only if there is something to say: an empty one says the same as none."""
    if legacy.accepted_output_modes:
        request.configuration.accepted_output_modes.extend(legacy.accepted_output_modes)
    if legacy.HasField("push_notification"):
        upgrade_config_into(request.configuration.task_push_notification_config, legacy.push_notification)
    if legacy.history_length:  # 0 = all of it, which in 1.0 is said by saying nothing
        request.configuration.history_length = legacy.history_length


def upgrade_get(legacy: v03.GetTaskRequest) -> pb.GetTaskRequest:
    request = pb.GetTaskRequest(id=_task_of(legacy.name))
    if legacy.history_length:  # as above
        request.history_length = legacy.history_length
    return request


def upgrade_cancel(legacy: v03.CancelTaskRequest) -> pb.CancelTaskRequest:
    return pb.CancelTaskRequest(id=_task_of(legacy.name))


def upgrade_subscribe(legacy: v03.TaskSubscriptionRequest) -> pb.SubscribeToTaskRequest:
    return pb.SubscribeToTaskRequest(id=_task_of(legacy.name))


def upgrade_card(_: v03.GetAgentCardRequest) -> pb.GetExtendedAgentCardRequest:
    """0.3 reads the card over RPC to see what only an authenticated caller may."""
    return pb.GetExtendedAgentCardRequest()


def upgrade_get_config(
    legacy: v03.GetTaskPushNotificationConfigRequest,
) -> pb.GetTaskPushNotificationConfigRequest:
    task_id, config_id = _config_of(legacy.name)
    return pb.GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)


def upgrade_delete_config(
    legacy: v03.DeleteTaskPushNotificationConfigRequest,
) -> pb.DeleteTaskPushNotificationConfigRequest:
    task_id, config_id = _config_of(legacy.name)
    return pb.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)


def upgrade_list_configs(
    legacy: v03.ListTaskPushNotificationConfigRequest,
) -> pb.ListTaskPushNotificationConfigsRequest:
    """0.3's `page_size` 0 means all, 1.0's the default: the caller has to follow the pages."""
    task_id = _task_of(legacy.parent, "parent")
    return pb.ListTaskPushNotificationConfigsRequest(
        task_id=task_id, page_size=legacy.page_size, page_token=legacy.page_token
    )


def upgrade_create_config(legacy: v03.CreateTaskPushNotificationConfigRequest) -> pb.TaskPushNotificationConfig:
    """An id may stand in three places, and the task in two. All that are filled must agree."""
    config, found, own = pb.TaskPushNotificationConfig(), Found(), legacy.config
    upgrade_config_into(config, own.push_notification_config)
    config.task_id = _read(legacy.parent, "parent", names.parent_of, "", found)
    if own.name:
        name = _read(own.name, "config.name", names.unborn_config_of, _NOWHERE, found)
        _agree(name.task_id, config.task_id, "config.name", found)
        config.id = _agree(name.config_id, config.id, "config.name", found)
    config.id = _agree(legacy.config_id, config.id, "config_id", found)
    _check_new_id(legacy.config_id, "config_id", found)
    _check_new(own.push_notification_config, "config.push_notification_config.", found)
    _settle(found)
    return config


def schemes_of_send(legacy: v03.SendMessageRequest) -> Sequence[str]:
    return _schemes_of(legacy.configuration.push_notification)


def schemes_of_create(legacy: v03.CreateTaskPushNotificationConfigRequest) -> Sequence[str]:
    return _schemes_of(legacy.config.push_notification_config)


def _task_of(name: str, field: str = "name") -> str:
    found = Found()
    task_id = _read(name, field, names.task_of, "", found)
    _settle(found)
    return task_id


def _config_of(name: str) -> names.ConfigName:
    found = Found()
    config = _read(name, "name", names.config_of, _NOWHERE, found)
    _settle(found)
    return config


def _read(name: str, field: str, read: Callable[[str], N], otherwise: N, found: Found) -> N:
    """Read a resource name; complain of one that is none."""
    try:
        return read(name)
    except ValueError:
        form = _A_TASK if isinstance(otherwise, str) else _A_CONFIG
        found.append(Violation(field, f"must look like {form}, got {name[:80]!r}"))
        return otherwise


def _agree(said: str, known: str, field: str, found: Found) -> str:
    """Whatever of the two is filled."""
    if said and known and said != known:
        found.append(Violation(field, f"says {said[:80]!r} where another member says {known[:80]!r}"))
    return known or said


def _settle(found: Found) -> None:
    if found:
        refuse(found)


# -- push configs


def upgrade_config_into(config: pb.TaskPushNotificationConfig, legacy: v03.PushNotificationConfig) -> None:
    """Fill the empty `config`; its task is said elsewhere. 1.0 has room for the first scheme."""
    config.id = legacy.id
    config.url = legacy.url
    config.token = legacy.token
    schemes, credentials = _schemes_of(legacy), legacy.authentication.credentials
    if schemes or credentials:  # 0.3 clients send an empty object for none (CONF-75)
        config.authentication.credentials = credentials
        config.authentication.scheme = next(iter(schemes), "")  # without any the core asks for one


def _check_new(legacy: v03.PushNotificationConfig, path: str, found: Found) -> None:
    """Complain of what a config must not have that is to be made."""
    _check_new_id(legacy.id, f"{path}id", found)
    for index, scheme in enumerate(legacy.authentication.schemes):
        if "," in scheme:  # on its way through metadata it would become two
            text = "must be the name of an HTTP authentication scheme, such as Bearer"
            found.append(Violation(f"{path}authentication.schemes[{index}]", text))


def _check_new_id(config_id: str, field: str, found: Found) -> None:
    """Complain of an id of which no name can be made."""
    if "/" in config_id:
        found.append(Violation(field, f"must not hold a slash, since a name is made of it, got {config_id[:80]!r}"))


def _schemes_of(legacy: v03.PushNotificationConfig) -> Sequence[str]:
    """All schemes that the client offers: for whoever keeps them, 1.0 has room for one."""
    return [scheme for scheme in legacy.authentication.schemes if scheme]


def downgrade_config(config: pb.TaskPushNotificationConfig) -> v03.TaskPushNotificationConfig:
    return v03.TaskPushNotificationConfig(
        name=names.config_name(config.task_id, config.id), push_notification_config=downgrade_inner(config)
    )


def downgrade_configs(
    response: pb.ListTaskPushNotificationConfigsResponse,
) -> v03.ListTaskPushNotificationConfigResponse:
    return v03.ListTaskPushNotificationConfigResponse(
        configs=map(downgrade_config, response.configs), next_page_token=response.next_page_token
    )


def downgrade_inner(config: pb.TaskPushNotificationConfig) -> v03.PushNotificationConfig:
    """The config itself; its task and tenant are said elsewhere."""
    legacy = v03.PushNotificationConfig(id=config.id, url=config.url, token=config.token)
    if config.HasField("authentication"):
        legacy.authentication.credentials = config.authentication.credentials
        if scheme := config.authentication.scheme:
            legacy.authentication.schemes.append(scheme)
    return legacy
