"""Push configs: 0.3 has them inside a member, and lists of schemes (spec: LRES-06, CONF-31, CONF-34, CONF-75)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.compiler import Compiler, Function
from a2a_server.protocol.codec.faults import WRONG, Faults, elements, note, shown
from a2a_server.protocol.codec.leftovers import Leftovers
from a2a_server.protocol.codec.schema import Form, descriptor_of
from a2a_server.protocol.dialects import names
from a2a_server.protocol.dialects.kept import Json
from a2a_server.protocol.dialects.names import text_of

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
_KIND: Final = descriptor_of(pb.TaskPushNotificationConfig)


def by_task(config: pb.TaskPushNotificationConfig) -> Json:
    return {"taskId": config.task_id}


def by_name(config: pb.TaskPushNotificationConfig) -> Json:
    return {"name": names.config_name(config.task_id, config.id)}


def named(name: Callable[[pb.TaskPushNotificationConfig], Json], foreign: Mapping[str, str]) -> Form:
    """A config by itself, written with what `name` says; `foreign` members are refused beside it."""

    def writer(writers: Compiler) -> Function:
        inner = writers.plain(_KIND)
        return lambda config: {**name(config), _INNER: inner(config)}

    return Form(writer, lambda readers: named_reader(readers, foreign))


def named_reader(readers: Compiler, foreign: Mapping[str, str]) -> Function:
    members = Leftovers(NAMES, frozenset(), {}, {**_INSIDE, **foreign})
    inner = _unnamed_reader(readers)

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


def _read_places(found: Json, config: pb.TaskPushNotificationConfig, faults: Faults | None) -> Faults | None:
    """The task may be told in two places and the id in three, because URLs have them, too; all must agree."""
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


def _unnamed_reader(readers: Compiler) -> Function:
    plain = readers.plain(_KIND)

    def read(value: object, config: pb.TaskPushNotificationConfig) -> None:
        plain(value, config)
        if config.HasField("authentication"):
            authentication = config.authentication
            if not (authentication.scheme or authentication.credentials):  # 0.3 clients send an empty object for none
                config.ClearField("authentication")

    return read


UNNAMED: Final[Form] = Form(lambda writers: writers.plain(_KIND), _unnamed_reader)
"""A config inside a send, whose task is the message's."""


ID: Final[Form] = Form(read=lambda _: names.segment, expected=names.A_SEGMENT)
"""Of a config, in spellings that name it; to be refused now is better than to have a name that nobody has said."""


def _schemes(scheme: str) -> list[str]:
    return [scheme] if scheme else []


def _first_scheme(value: object) -> str:
    if type(value) is not list:
        raise TypeError
    if faults := elements(None, "", value, text_of, "a string"):
        raise faults
    return next(filter(None, value), "")


SCHEMES: Final[Form] = Form(lambda _: _schemes, lambda _: _first_scheme, "a list of strings")
"""1.0 has room for one. Who keeps all that the client offers takes them from the body."""
