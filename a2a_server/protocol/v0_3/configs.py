"""Push configs: as messages of 1.0 and of 0.3, and in JSON, inside of a member or by themselves with their task.

The config proper is 0.3's message, in every spelling. What is around it says whose it is, in several places, because
URLs say it, too; all places that are filled must agree. Serves LRES-06, CONF-31, CONF-34 and CONF-75.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec.compiler import Compiler, Function
from a2a_server.protocol.codec.faults import WRONG, Faults, note, shown
from a2a_server.protocol.codec.leftovers import Leftovers
from a2a_server.protocol.codec.schema import Form, descriptor_of
from a2a_server.protocol.v0_3 import names
from a2a_server.protocol.v0_3.names import text_of

JsonObject = dict[str, Any]


def upgrade_config_into(config: pb.TaskPushNotificationConfig, legacy: v03.PushNotificationConfig) -> None:
    """Fill the empty `config`; its task is said elsewhere. 1.0 has room for the first scheme."""
    config.id = legacy.id
    config.url = legacy.url
    config.token = legacy.token
    schemes, credentials = schemes_of(legacy), legacy.authentication.credentials
    if schemes or credentials:  # 0.3 clients send an empty object for none (CONF-75)
        config.authentication.credentials = credentials
        config.authentication.scheme = next(iter(schemes), "")  # without any the core asks for one


def schemes_of(legacy: v03.PushNotificationConfig) -> Sequence[str]:
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


# -- in JSON

_INNER: Final = "pushNotificationConfig"
_PLACES: Final = "taskId", "name", "pushNotificationConfigId"
NAMES: Final = {
    **{name: name for name in (*_PLACES, _INNER)},
    "task_id": "taskId",
    "push_notification_config_id": "pushNotificationConfigId",
    "push_notification_config": _INNER,
}
"""Members of a config by itself, by all names that are read."""
_INSIDE: Final = dict.fromkeys(("id", "url", "token", "authentication"), f'is for "{_INNER}" to hold')
_OLD: Final = descriptor_of(v03.PushNotificationConfig)

ID: Final[Form] = Form(read=lambda _: names.segment, expected=names.A_SEGMENT)
"""A config's id in spellings that make a name of it. To be refused now is better than a name that nobody has said."""


def by_task(config: pb.TaskPushNotificationConfig) -> JsonObject:
    return {"taskId": config.task_id}


def by_name(config: pb.TaskPushNotificationConfig) -> JsonObject:
    return {"name": names.config_name(config.task_id, config.id)}


def named(name: Callable[[pb.TaskPushNotificationConfig], JsonObject], foreign: Mapping[str, str]) -> Form:
    """A config by itself, written with what `name` says; `foreign` members are refused beside it."""

    def writer(writers: Compiler) -> Function:
        inner = _write_inner(writers)
        return lambda config: {**name(config), _INNER: inner(config)}

    return Form(writer, lambda readers: named_reader(readers, foreign))


def named_reader(readers: Compiler, foreign: Mapping[str, str]) -> Function:
    members = Leftovers(NAMES, frozenset(), {}, {**_INSIDE, **foreign})
    inner = _read_inner(readers)

    def read(value: object, config: pb.TaskPushNotificationConfig) -> None:
        if type(value) is not dict:
            raise TypeError
        found, faults = members(value, None)
        try:
            inner(found.get(_INNER), config)
        except WRONG as error:
            faults = note(faults, f".{_INNER}", "an object", found.get(_INNER), error)
        if faults := _read_places(found, config, faults):
            raise faults

    return read


def _read_places(found: JsonObject, config: pb.TaskPushNotificationConfig, faults: Faults | None) -> Faults | None:
    """The task may be told in two places and the id in three."""
    texts = dict.fromkeys(_PLACES, "")
    for place in _PLACES:
        try:
            texts[place] = text_of(found.get(place, ""))
        except WRONG as error:
            faults = note(faults, f".{place}", "a string", found[place], error)
    try:
        task_id, config_id = names.unborn_config_of(texts["name"]) if texts["name"] else names.ConfigName()
    except ValueError as error:
        faults = note(faults, ".name", names.A_CONFIG, texts["name"], error)
    else:
        config.task_id, faults = agreed(faults, {".taskId": texts["taskId"], ".name": task_id})
        ids = {f".{_INNER}.id": config.id, ".pushNotificationConfigId": texts["pushNotificationConfigId"]}
        config.id, faults = agreed(faults, {**ids, ".name": config_id})
    return faults


def agreed(faults: Faults | None, told: Mapping[str, str]) -> tuple[str, Faults | None]:
    """What is told at all of these places, if anywhere."""
    first, text = next(((place, text) for place, text in told.items() if text), ("", ""))
    for place, other in told.items():
        if other and other != text:
            faults = faults or Faults()
            faults.add(place, f"says {shown(other)} where {first.removeprefix('.')} says {shown(text)}")
    return text, faults


def _write_inner(writers: Compiler) -> Function:
    write = writers.of(_OLD)
    return lambda config: write(downgrade_inner(config))


def _read_inner(readers: Compiler) -> Function:
    inner = readers.of(_OLD)

    def read(value: object, config: pb.TaskPushNotificationConfig) -> None:
        legacy = v03.PushNotificationConfig()
        inner(value, legacy)
        upgrade_config_into(config, legacy)

    return read


UNNAMED: Final[Form] = Form(_write_inner, _read_inner)
"""A config inside of a send, whose task is the message's."""
