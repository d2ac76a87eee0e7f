"""Translates the ten RPCs of 0.3 over gRPC, whose requests have resource names, to calls of 1.0.

Serves LMAP, LGRP-01, LGRP-02, LGRP-04, CONF-22, CONF-31, TENA-03 and TENA-05.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar, cast

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.options import LEGACY_DEFAULT, LegacyOptions
from a2a_server.protocol.v0_3 import cards, configs, messages
from a2a_server.protocol.v0_3 import resource_names as names
from a2a_server.protocol.v0_3.configs import schemes_of
from a2a_server.protocol.v0_3.parts import Found

N = TypeVar("N")
Translate = Callable[[Any, LegacyOptions], Message]

_NOWHERE: Final = names.ConfigName()
_A_TASK: Final = "tasks/{id}"
_A_CONFIG: Final = "tasks/{id}/pushNotificationConfigs/{config id}"


# -- requests that say more than a name


def upgrade_send(legacy: v03.SendMessageRequest, options: LegacyOptions = LEGACY_DEFAULT) -> pb.SendMessageRequest:
    """Translate a send, whose push config gets a name."""
    request, found = pb.SendMessageRequest(), Found()
    messages.upgrade_send_into(request, legacy, found, waits_by_default=options.waits_by_default)
    if legacy.configuration.HasField("push_notification"):
        _check_new(legacy.configuration.push_notification, "configuration.push_notification.", found)
    _settle(found)
    return request


def upgrade_get(legacy: v03.GetTaskRequest) -> pb.GetTaskRequest:
    request = pb.GetTaskRequest(id=_task_of(legacy.name))
    if legacy.history_length:  # 0 = all of it, which in 1.0 is said by saying nothing
        request.history_length = legacy.history_length
    return request


def _upgrade_list(legacy: v03.ListTaskPushNotificationConfigRequest) -> pb.ListTaskPushNotificationConfigsRequest:
    """0.3's `page_size` 0 means all, 1.0's the default: the caller has to follow the pages."""
    return pb.ListTaskPushNotificationConfigsRequest(
        task_id=_task_of(legacy.parent, "parent"), page_size=legacy.page_size, page_token=legacy.page_token
    )


def upgrade_create_config(legacy: v03.CreateTaskPushNotificationConfigRequest) -> pb.TaskPushNotificationConfig:
    """An id may stand in three places, and the task in two. All that are filled must agree."""
    config, found, own = pb.TaskPushNotificationConfig(), Found(), legacy.config
    configs.upgrade_config_into(config, own.push_notification_config)
    config.task_id = _read(legacy.parent, "parent", names.parent_of, "", found)
    if own.name:
        name = _read(own.name, "config.name", names.new_config_of, _NOWHERE, found)
        _agree(name.task_id, config.task_id, "config.name", found)
        config.id = _agree(name.config_id, config.id, "config.name", found)
    config.id = _agree(legacy.config_id, config.id, "config_id", found)
    _check_new_id(legacy.config_id, "config_id", found)
    _check_new(own.push_notification_config, "config.push_notification_config.", found)
    _settle(found)
    return config


def _task_of(name: str, field: str = "name") -> str:
    return _only(name, field, names.task_of, "")


def _only(name: str, field: str, read: Callable[[str], N], otherwise: N) -> N:
    """Read the one name that a request has."""
    found = Found()
    value = _read(name, field, read, otherwise, found)
    _settle(found)
    return value


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


def _settle(found: Found) -> None:
    if found:
        refuse(found)


# -- RPCs


class OldRpc(NamedTuple):
    rpc: str
    """The RPC of 1.0."""
    request: Translate
    """From 0.3; raises INVALID_PARAMS with all that cannot be mapped."""
    answer: Translate | None
    """To 0.3. None: a stream, whose items go through `Downgrade.item`, which has to know the last one."""
    schemes: Callable[[Any], Sequence[str]] = lambda _: ()
    """All that the request's push config offers, of which 1.0's has room for one (CONF-34)."""


def _plain(translate: Callable[[Any], Message]) -> Translate:
    """Nothing to choose there."""
    return lambda message, _: translate(message)


def _by_task(kind: Callable[..., Message]) -> Translate:
    return lambda legacy, _: kind(id=_task_of(legacy.name))


def _by_config(kind: Callable[..., Message]) -> Translate:
    def translate(legacy: Any, _: LegacyOptions) -> Message:  # noqa: ANN401 - all that have a name
        task_id, config_id = _only(legacy.name, "name", names.config_of, _NOWHERE)
        return kind(task_id=task_id, id=config_id)

    return translate


def _answer(answer: pb.SendMessageResponse, options: LegacyOptions) -> Message:
    return messages.Downgrade(options.raw_files).answer(answer)


def _task(task: pb.Task, options: LegacyOptions) -> Message:
    return messages.Downgrade(options.raw_files).task(task)


def _in_send(legacy: v03.SendMessageRequest) -> Sequence[str]:
    return schemes_of(legacy.configuration.push_notification)


def _in_create(legacy: v03.CreateTaskPushNotificationConfigRequest) -> Sequence[str]:
    return schemes_of(legacy.config.push_notification_config)


_config: Final = _plain(configs.downgrade_config)

_CONFIG: Final = "TaskPushNotificationConfig"
CALLS: Final[Mapping[str, OldRpc]] = MappingProxyType(
    {
        "SendMessage": OldRpc("SendMessage", upgrade_send, _answer, _in_send),
        "SendStreamingMessage": OldRpc("SendStreamingMessage", upgrade_send, None, _in_send),
        "GetTask": OldRpc("GetTask", _plain(upgrade_get), _task),
        "CancelTask": OldRpc("CancelTask", _by_task(pb.CancelTaskRequest), _task),
        "TaskSubscription": OldRpc("SubscribeToTask", _by_task(pb.SubscribeToTaskRequest), None),
        f"Create{_CONFIG}": OldRpc(f"Create{_CONFIG}", _plain(upgrade_create_config), _config, _in_create),
        f"Get{_CONFIG}": OldRpc(f"Get{_CONFIG}", _by_config(pb.GetTaskPushNotificationConfigRequest), _config),
        f"List{_CONFIG}": OldRpc(f"List{_CONFIG}s", _plain(_upgrade_list), _plain(configs.downgrade_configs)),
        f"Delete{_CONFIG}": OldRpc(
            f"Delete{_CONFIG}", _by_config(pb.DeleteTaskPushNotificationConfigRequest), _plain(lambda empty: empty)
        ),
        # 0.3 reads the card over RPC to see what only an authenticated caller may.
        "GetAgentCard": OldRpc("GetExtendedAgentCard", lambda *_: pb.GetExtendedAgentCardRequest(), cards.downgrade),
    }
)
"""By the name of the RPC of 0.3."""

_TEXT: Final = 2
"""protobuf's number for what has a length."""


def refuse_tenant(request: Message) -> None:
    """Refuse a request that names a tenant, for which 0.3 has no member.

    The draft has 0.3's package, service and numbers, and after the last of them `tenant`: nothing else tells its
    clients apart. To drop the tenant would be to act in somebody else's space.
    """
    last = max((own.number for own in request.DESCRIPTOR.fields), default=0)
    for field in cast("Iterable[Any]", UnknownFieldSet(request)):
        if field.field_number == last + 1 and field.wire_type == _TEXT and field.data:
            text = "0.3 has none over gRPC; call lf.a2a.v1, or REST or JSON-RPC under the tenant's path"
            refuse([Violation("tenant", text)])
