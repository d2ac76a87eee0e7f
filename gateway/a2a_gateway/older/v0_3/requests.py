"""REST's requests of 0.3 as those of 1.0: resource names become members of JSON in 0.3's spelling.

What the path, the query and the body say becomes one JSON value, which the codec judges. All that is said twice must be
the same (LRES-06, LGRP-02), and a body that is in both spellings is refused (LRES-05, CONF-27).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from google.protobuf.descriptor import MethodDescriptor

from a2a_gateway.calls import Query
from a2a_gateway.older.v0_3.answers import RPCS
from a2a_gateway.requests import binding
from a2a_gateway.routing.table import Match, wildcards
from a2a_server.protocol.codec import JsonText, loads
from a2a_server.protocol.codec.faults import shown
from a2a_server.protocol.errors import A2AError, Violation, refuse
from a2a_server.protocol.v0_3.configs import PATH, QUERY, JsonObject
from a2a_server.protocol.v0_3.resource_names import A_SEGMENT, A_TASK, task_of
from a2a_server.protocol.v0_3.words import Words, config_renames, renamed

OldSpelling = Literal["kind", "proto"]

MOST_TASKS: Final = 100
"""How many tasks a list has when the client says nothing; what follows is linked (LRES-08)."""

_NAMES: Final = frozenset({"name", "parent"})


class OldRequest(NamedTuple):
    """A request of 1.0, as 0.3 spells it."""

    rpc: MethodDescriptor
    value: Any  # JSON
    spelling: OldSpelling | None = None
    """The spelling of the body; None: it could be either."""
    path: Words | None = None
    """What its fields are called, where that depends on the body."""


class _Asked(NamedTuple):
    """What is there to be read."""

    ids: Sequence[str]
    """What the path says, in place of its wildcards."""
    said: Mapping[str, Any]
    """What else the URL says."""
    body: Any  # JSON


def request_of(match: Match, path: str, query: Query, body: JsonText, max_depth: int) -> OldRequest:
    """Read a request; what its parts say is checked as far as they could contradict each other."""
    faults: list[Violation] = []
    said = binding.url_values(match, query, faults)
    value = parsed(body, max_depth) if body and match.route.body else None
    if faults:
        refuse(faults)
    rpc, read = _WAYS[match.route.method.name]
    return read(RPCS[rpc], _Asked(wildcards(match.route.template, path), said, value))


def parsed(body: JsonText, max_depth: int) -> object:
    try:
        return loads(body, max_depth=max_depth)
    except A2AError as error:
        refuse([Violation("body", error.message)])


def _send(rpc: MethodDescriptor, asked: _Asked) -> OldRequest:
    body = {} if asked.body is None else asked.body
    return OldRequest(rpc, body, spelling_of(body))


def _of_task(rpc: MethodDescriptor, asked: _Asked) -> OldRequest:
    """The body may repeat the name, and have metadata."""
    body, [task_id] = _object_of(asked.body), asked.ids
    _agree(task_id, {"id": body.get("id"), "name": _named_task(body)})
    said = {name: value for name, value in {**body, **asked.said}.items() if name not in _NAMES}
    return OldRequest(rpc, {**said, "id": task_id})


def _of_config(rpc: MethodDescriptor, asked: _Asked) -> OldRequest:
    task_id, config_id = asked.ids
    return OldRequest(rpc, {"id": task_id, "pushNotificationConfigId": config_id})


def _new_config(rpc: MethodDescriptor, asked: _Asked) -> OldRequest:
    body, [task_id], config_id = _object_of(asked.body), asked.ids, asked.said.get("configId")
    check_new_id(config_id, "configId")
    held = body.get("config")
    rules = config_renames("" if held is None else "config.", task_id="parent", id="config_id")
    spelling = spelling_of(body) or ("proto" if body.get("parent") is not None else None)
    value = {**body, PATH: task_id, QUERY: config_id}
    return OldRequest(rpc, value, spelling, partial(renamed, rules=rules))


_WAYS: Final[Mapping[str, tuple[str, Callable[[MethodDescriptor, _Asked], OldRequest]]]] = MappingProxyType(
    {
        "SendMessage": ("SendMessage", _send),
        "SendStreamingMessage": ("SendStreamingMessage", _send),
        "GetTask": ("GetTask", _of_task),
        "CancelTask": ("CancelTask", _of_task),
        "TaskSubscription": ("SubscribeToTask", _of_task),
        "CreateTaskPushNotificationConfig": ("CreateTaskPushNotificationConfig", _new_config),
        "GetTaskPushNotificationConfig": ("GetTaskPushNotificationConfig", _of_config),
        "DeleteTaskPushNotificationConfig": ("DeleteTaskPushNotificationConfig", _of_config),
        "ListTaskPushNotificationConfig": ("ListTaskPushNotificationConfigs", _of_task),
        "GetAgentCard": ("GetExtendedAgentCard", lambda rpc, _: OldRequest(rpc, {})),
        "ListTasks": ("ListTasks", lambda rpc, asked: OldRequest(rpc, {"pageSize": MOST_TASKS, **asked.said})),
    }
)
"""By the route's RPC: that of 0.3, or of 1.0 where 0.3 has none."""


# -- which spelling a body is in

_SPELT: Final[Mapping[OldSpelling, str]] = {"kind": "in the JSON schema", "proto": "in the proto"}
# The first clue that there is decides, so that the others are the ones that are wrong.
_IN_MESSAGE: Final[Mapping[str, OldSpelling]] = {"parts": "kind", "content": "proto", "kind": "kind"}
_ROLES: Final[Mapping[str, OldSpelling]] = {
    **dict.fromkeys(("user", "agent"), "kind"),
    **dict.fromkeys(("ROLE_USER", "ROLE_AGENT"), "proto"),
}
_IN_CONFIG: Final[Mapping[str, OldSpelling]] = {"taskId": "kind", "task_id": "kind", "name": "proto"}
_PLACES: Final = (
    ("message", _IN_MESSAGE),
    ("request", _IN_MESSAGE),  # so called in the proto, though not in its JSON
    ("", _IN_CONFIG),
    ("config", _IN_CONFIG),
)


class _Clue(NamedTuple):
    field: str
    tells: OldSpelling


def spelling_of(value: object) -> OldSpelling | None:
    """Tell by the body of a send or of a push config; None: from what it has it could be either.

    Looks only at what a sound body must have. What is foreign deeper inside is for the codec to refuse.
    """
    clues = [*_clues(value)]
    if not clues:
        return None
    first = clues[0]
    if wrong := [clue for clue in clues if clue.tells != first.tells]:
        other, own = _SPELT[wrong[0].tells], _SPELT[first.tells]
        text = f"is spelt as {other} of 0.3, but {first.field} as {own}; a body must keep to one of them"
        refuse([Violation(clue.field, text) for clue in wrong])
    return first.tells


def _clues(value: object) -> Iterator[_Clue]:
    whole = value if isinstance(value, dict) else {}
    for place, names in _PLACES:
        held = whole.get(place) if place else whole
        if not isinstance(held, dict):
            continue
        path = f"{place}." if place else ""
        yield from (_Clue(path + name, tells) for name, tells in names.items() if held.get(name) is not None)
        role = held.get("role") if names is _IN_MESSAGE else None
        if type(role) is str and role in _ROLES:
            yield _Clue(f"{path}role", _ROLES[role])


# -- names and ids


def check_new_id(value: object, place: str) -> None:
    """Refuse an id, if one is said, of which no name can be made (LGRP-02)."""
    if isinstance(value, str) and (not value or "/" in value):
        refuse([Violation(place, f"must be {A_SEGMENT}, got {shown(value)}")])


def _object_of(body: object) -> JsonObject:
    if body is None:
        return {}
    if not isinstance(body, dict):
        refuse([Violation("body", f"must be an object, got {shown(body)}")])
    return body


def _named_task(body: JsonObject) -> str:
    name = body.get("name")
    if name in (None, ""):
        return ""
    try:
        return task_of(name if isinstance(name, str) else "")
    except ValueError:
        refuse([Violation("name", f"must be {A_TASK}, got {shown(name)}")])


def _agree(path: str, body: Mapping[str, object]) -> None:
    """Refuse what the body says to be another task than the one in the path."""
    if faults := [
        Violation(place, f"says {shown(value)} where the path says {shown(path)}; both must be the same")
        for place, value in body.items()
        if value not in (None, "", path)
    ]:
        refuse(faults)
