"""Push configs: 0.3 has them under resource names, with lists of schemes (spec: CONF-31, CONF-34, CONF-75)."""

from __future__ import annotations

from collections.abc import Sequence

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import Violation
from a2a_server.protocol.v0_3 import names
from a2a_server.protocol.v0_3.faults import Faults, settle
from a2a_server.protocol.v0_3.options import DEFAULT, Options


def upgrade(legacy: v03.TaskPushNotificationConfig, options: Options = DEFAULT) -> pb.TaskPushNotificationConfig:
    config, faults = pb.TaskPushNotificationConfig(), Faults()
    _upgrade_named(config, legacy, options, "", faults)
    settle(faults)
    return config


def upgrade_list(
    legacy: v03.ListTaskPushNotificationConfigResponse, options: Options = DEFAULT
) -> pb.ListTaskPushNotificationConfigsResponse:
    response, faults = pb.ListTaskPushNotificationConfigsResponse(), Faults()
    for index, config in enumerate(legacy.configs):
        _upgrade_named(response.configs.add(), config, options, f"configs[{index}].", faults)
    response.next_page_token = legacy.next_page_token
    settle(faults)
    return response


def _upgrade_named(
    config: pb.TaskPushNotificationConfig,
    legacy: v03.TaskPushNotificationConfig,
    options: Options,
    path: str,
    faults: Faults,
) -> None:
    name = names.unborn_config_of(legacy.name, f"{path}name", faults)
    upgrade_into(config, legacy.push_notification_config, options, f"{path}push_notification_config.", faults)
    config.task_id = name.task_id
    config.id = config.id or name.config_id


def upgrade_into(
    config: pb.TaskPushNotificationConfig,
    legacy: v03.PushNotificationConfig,
    options: Options,
    path: str,
    faults: Faults,
) -> None:
    """`config` is empty, and its task someone else's to say; `path` is "" or ends in a dot."""
    config.id = legacy.id
    config.url = legacy.url
    config.token = legacy.token
    schemes, credentials = schemes_of(legacy), legacy.authentication.credentials
    if schemes or credentials:  # 0.3 clients send an empty object for none (CONF-75)
        config.authentication.credentials = credentials
        config.authentication.scheme = _choose(schemes, options, f"{path}authentication.schemes", faults)


def check_new(legacy: v03.PushNotificationConfig, path: str, faults: Faults) -> None:
    """Complain of what a config must not have that is to be made."""
    names.check_new_id(legacy.id, f"{path}id", faults)
    for index, scheme in enumerate(legacy.authentication.schemes):
        if "," in scheme:  # on its way through metadata it would become two
            text = "must be the name of an HTTP authentication scheme, such as Bearer"
            faults.append(Violation(f"{path}authentication.schemes[{index}]", text))


def schemes_of(legacy: v03.PushNotificationConfig) -> Sequence[str]:
    """All schemes that the client offers: for whoever keeps them, 1.0 has room for one."""
    return [scheme for scheme in legacy.authentication.schemes if scheme]


def _choose(schemes: Sequence[str], options: Options, field: str, faults: Faults) -> str:
    able = options.webhook_schemes
    if not schemes or able is None:
        return next(iter(schemes), "")  # without any the core asks for one
    chosen = next((scheme for scheme in schemes if scheme.lower() in able), "")
    if not chosen:
        faults.append(Violation(field, f"none of these can be served; the server does {', '.join(sorted(able))}"))
    return chosen


def downgrade(config: pb.TaskPushNotificationConfig, *, schemes: Sequence[str] = ()) -> v03.TaskPushNotificationConfig:
    """`schemes` = the client's own list, if it was kept; its chosen one alone otherwise."""
    legacy = v03.TaskPushNotificationConfig(name=names.config_name(config.task_id, config.id))
    downgrade_into(legacy.push_notification_config, config, schemes)
    return legacy


def downgrade_list(
    response: pb.ListTaskPushNotificationConfigsResponse,
) -> v03.ListTaskPushNotificationConfigResponse:
    return v03.ListTaskPushNotificationConfigResponse(
        configs=[downgrade(config) for config in response.configs],
        next_page_token=response.next_page_token,
    )


def downgrade_into(
    legacy: v03.PushNotificationConfig, config: pb.TaskPushNotificationConfig, schemes: Sequence[str] = ()
) -> None:
    """`legacy` is empty; the config's task and tenant are said elsewhere."""
    legacy.id = config.id
    legacy.url = config.url
    legacy.token = config.token
    if config.HasField("authentication"):
        scheme = config.authentication.scheme
        legacy.authentication.credentials = config.authentication.credentials
        legacy.authentication.schemes.extend(schemes if scheme in schemes else [scheme] if scheme else [])
