"""Translates push configs between 1.0 and 0.3, as messages and in JSON.

In JSON, a config is a message of 0.3. A request that creates one has a wrapper around it, with the ids of the task and
the config. The ids may be in several places, also in the URL; all of them must be the same. Serves LRES-06, CONF-31,
CONF-34 and CONF-75.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec.compiler import Compiler, Function
from a2a_server.protocol.codec.dialect import Form, descriptor_of
from a2a_server.protocol.codec.faults import WRONG, Faults, note, shown
from a2a_server.protocol.codec.leftovers import Leftovers
from a2a_server.protocol.spellings import snake
from a2a_server.protocol.v0_3 import resource_names as names
from a2a_server.protocol.v0_3.foreign import TENANT
from a2a_server.protocol.v0_3.resource_names import A_TASK, parent_of, text_of

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

_WHOLE: Final = "config"
_INNER: Final = "pushNotificationConfig"
_ID: Final = "pushNotificationConfigId"
_OWN: Final = {alias: name for name in ("taskId", "name", _ID, _INNER) for alias in (name, snake(name))}
"""Members of a config by itself, by all names that are read."""
_INSIDE: Final = dict.fromkeys(("id", "url", "token", "authentication"), f'is for "{_INNER}" to hold')
_OLD: Final = descriptor_of(v03.PushNotificationConfig)

ID: Final[Form] = Form(read=lambda _: names.segment, expected=names.A_SEGMENT)
"""A config's id in spellings that make a name of it. To be refused now is better than a name that nobody has said."""


def by_task(config: pb.TaskPushNotificationConfig) -> JsonObject:
    return {"taskId": config.task_id}


def by_name(config: pb.TaskPushNotificationConfig) -> JsonObject:
    return {"name": names.config_name(config.task_id, config.id)}


class IdMember(NamedTuple):
    """A member that holds an id or a resource name."""

    read: Callable[[Any], Any]
    expected: str


TEXT: Final = IdMember(text_of, "a string")
SEGMENT: Final = IdMember(names.segment, names.A_SEGMENT)
PATH: Final = "the path"
QUERY: Final = "the query"
"""The keys under which doors add the ids of the URL to the body."""


def _name(value: object) -> names.ConfigName:
    return names.new_config_of(value) if text_of(value) else names.ConfigName()  # type: ignore[arg-type]


class ConfigWrapper(NamedTuple):
    """The members of a request around a new config, or around its member `config`."""

    places: Mapping[str, IdMember]
    foreign: Mapping[str, str]
    """Members that are refused beside `config`."""
    foreign_inside: Mapping[str, str]
    """Members that are refused inside of it."""
    ids: IdMember = TEXT
    """How a config's own ids are read."""


ALONE: Final = ConfigWrapper({}, {}, {})
IN_REST: Final = ConfigWrapper(
    {
        PATH: TEXT,
        QUERY: TEXT,
        "configId": SEGMENT,
        "parent": IdMember(lambda name: parent_of(text_of(name)) if name != "" else "", A_TASK),
    },
    {**TENANT, "id": f'is for "{_INNER}" to hold, or for "configId"'},
    TENANT,
    SEGMENT,
)
"""What a body of REST may say beside a new config, and what the door adds of the URL."""


def named(
    name: Callable[[pb.TaskPushNotificationConfig], JsonObject],
    foreign: Mapping[str, str],
    wrapper: ConfigWrapper = ALONE,
) -> Form:
    """A config by itself, written with what `name` says; `foreign` members are refused beside it."""

    def writer(writers: Compiler) -> Function:
        inner = _write_inner(writers)
        return lambda config: {**name(config), _INNER: inner(config)}

    return Form(writer, lambda readers: _Reader(readers, foreign, wrapper))


class _Reader:
    """Reads a config and its wrapper. An id that occurs in several places must be the same."""

    def __init__(self, readers: Compiler, foreign: Mapping[str, str], wrapper: ConfigWrapper) -> None:
        known = {alias: place for place in (*wrapper.places, _WHOLE) for alias in (place, snake(place))}
        self._wrapper = wrapper
        self._beside = Leftovers(known, frozenset(), {})
        self._outside = Leftovers(known, frozenset(), {}, wrapper.foreign)
        self._alone = Leftovers(_OWN, frozenset(), {}, {**_INSIDE, **foreign})
        self._held = Leftovers(_OWN, frozenset(), {}, {**_INSIDE, **wrapper.foreign_inside})
        self._inner = _read_inner(readers)
        self._places = {
            "taskId": TEXT,
            "name": IdMember(_name, names.A_CONFIG),
            _ID: wrapper.ids,
            f"{_INNER}.id": wrapper.ids,
        }

    def __call__(self, value: object, config: pb.TaskPushNotificationConfig) -> None:
        if type(value) is not dict:
            raise TypeError
        held = value.get(_WHOLE) if self._wrapper.places else None
        path, members = ("", self._beside) if held is None else (f".{_WHOLE}", self._outside)
        found, faults = members(value, None)
        wrapper, faults = read_places(found, self._wrapper.places, faults)
        own: JsonObject = {}
        try:
            own = self._own(value, self._alone, config) if held is None else self._own(held, self._held, config)
        except WRONG as error:
            faults = note(faults, path, "an object", held, error)
        faults = _agree(config, wrapper, own, path, faults)
        if faults:
            raise faults

    def _own(self, value: object, members: Leftovers, config: pb.TaskPushNotificationConfig) -> JsonObject:
        if type(value) is not dict:
            raise TypeError
        found, faults = members(value, None)
        try:
            self._inner(found.get(_INNER), config)
        except WRONG as error:
            faults = note(faults, f".{_INNER}", "an object", found.get(_INNER), error)
        texts, faults = read_places({**found, f"{_INNER}.id": config.id}, self._places, faults)
        if faults:
            raise faults
        return texts


def read_places(
    found: JsonObject, places: Mapping[str, IdMember], faults: Faults | None
) -> tuple[JsonObject, Faults | None]:
    texts = {}
    for name, place in places.items():
        if name in found:
            try:
                texts[name] = place.read(found[name])
            except WRONG as error:
                faults = note(faults, f".{name}", place.expected, found[name], error)
    return texts, faults


def _agree(
    config: pb.TaskPushNotificationConfig, wrapper: JsonObject, own: JsonObject, path: str, faults: Faults | None
) -> Faults | None:
    """Set the ids of the config, which may be in up to five places."""
    name = own.get("name") or names.ConfigName()
    tasks = {PATH: wrapper.get(PATH), ".taskId": wrapper.get("taskId"), f"{path}.taskId": own.get("taskId")}
    ids = {QUERY: wrapper.get(QUERY), f"{path}.{_INNER}.id": config.id, f"{path}.{_ID}": own.get(_ID)}
    config.tenant = wrapper.get("tenant", "")
    config.task_id, faults = check_same(
        faults, {**tasks, f"{path}.name": name.task_id, ".parent": wrapper.get("parent")}
    )
    config.id, faults = check_same(
        faults, {**ids, f"{path}.name": name.config_id, ".configId": wrapper.get("configId")}
    )
    return faults


def check_same(faults: Faults | None, told: Mapping[str, str | None]) -> tuple[str, Faults | None]:
    """Return the value that all filled places have; add a fault for each that differs."""
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
"""A config in a send. Its task is that of the message."""
