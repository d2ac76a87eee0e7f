"""Push configs: 0.3 has them under resource names, with lists of schemes (spec: CONF-31, CONF-34, CONF-75)."""

from __future__ import annotations

from collections.abc import Sequence

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import Violation
from a2a_server.protocol.v0_3 import names
from a2a_server.protocol.v0_3.parts import Found


def upgrade_into(config: pb.TaskPushNotificationConfig, legacy: v03.PushNotificationConfig) -> None:
    """Fill the empty `config`; its task is said elsewhere. 1.0 has room for the first scheme."""
    config.id = legacy.id
    config.url = legacy.url
    config.token = legacy.token
    schemes, credentials = schemes_of(legacy), legacy.authentication.credentials
    if schemes or credentials:  # 0.3 clients send an empty object for none (CONF-75)
        config.authentication.credentials = credentials
        config.authentication.scheme = next(iter(schemes), "")  # without any the core asks for one


def check_new(legacy: v03.PushNotificationConfig, path: str, found: Found) -> None:
    """Complain of what a config must not have that is to be made."""
    check_new_id(legacy.id, f"{path}id", found)
    for index, scheme in enumerate(legacy.authentication.schemes):
        if "," in scheme:  # on its way through metadata it would become two
            text = "must be the name of an HTTP authentication scheme, such as Bearer"
            found.append(Violation(f"{path}authentication.schemes[{index}]", text))


def check_new_id(config_id: str, field: str, found: Found) -> None:
    """Complain of an id of which no name can be made."""
    if "/" in config_id:
        found.append(Violation(field, f"must not hold a slash, since a name is made of it, got {config_id[:80]!r}"))


def schemes_of(legacy: v03.PushNotificationConfig) -> Sequence[str]:
    """All schemes that the client offers: for whoever keeps them, 1.0 has room for one."""
    return [scheme for scheme in legacy.authentication.schemes if scheme]


def downgrade(config: pb.TaskPushNotificationConfig) -> v03.TaskPushNotificationConfig:
    return v03.TaskPushNotificationConfig(
        name=names.config_name(config.task_id, config.id), push_notification_config=downgrade_inner(config)
    )


def downgrade_list(
    response: pb.ListTaskPushNotificationConfigsResponse,
) -> v03.ListTaskPushNotificationConfigResponse:
    return v03.ListTaskPushNotificationConfigResponse(
        configs=map(downgrade, response.configs), next_page_token=response.next_page_token
    )


def downgrade_inner(config: pb.TaskPushNotificationConfig) -> v03.PushNotificationConfig:
    """The config itself; its task and tenant are said elsewhere."""
    legacy = v03.PushNotificationConfig(id=config.id, url=config.url, token=config.token)
    if config.HasField("authentication"):
        legacy.authentication.credentials = config.authentication.credentials
        if scheme := config.authentication.scheme:
            legacy.authentication.schemes.append(scheme)
    return legacy
