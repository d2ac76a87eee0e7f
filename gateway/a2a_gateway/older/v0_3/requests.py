"""Turns path, query and body of a REST request of 0.3 into one JSON value, which the codec then reads as a 1.0 request.

A value that is given twice must be the same (LRES-06, LGRP-02). A body that mixes both spellings is refused (LRES-05,
CONF-27).
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
from a2a_server.protocol.v0_3.error_words import Words, config_renames, renamed
from a2a_server.protocol.v0_3.resource_names import A_SEGMENT, A_TASK, task_of

OldSpelling = Literal["kind", "proto"]

MOST_TASKS: Final = 100
"""The default page size of a list of tasks. The next page is linked (LRES-08)."""

_NAMES: Final = frozenset({"name", "parent"})


class OldRequest(NamedTuple):
    """A request of 1.0, as JSON in a spelling of 0.3."""

    rpc: MethodDescriptor
    value: Any  # JSON
    spelling: OldSpelling | None = None
    """The spelling of the body; None if it could be either."""
    path: Words | None = None
    """Renames its fields for error messages, if that depends on the body."""


class _RequestParts(NamedTuple):
    """The values in the path, the query and the body."""

    ids: Sequence[str]
    """The values of the path's wildcards."""
    said: Mapping[str, Any]
    """The other values of the URL."""
    body: Any  # JSON


def request_of(match: Match, path: str, query: Query, body: JsonText, max_depth: int) -> OldRequest:
    """Read a request; raise an error if its parts contradict each other. The codec makes all other checks."""
    faults: list[Violation] = []
    said = binding.url_values(match, query, faults)
    value = parsed(body, max_depth) if body and match.route.body else None
    if faults:
        refuse(faults)
    rpc, read = _READERS[match.route.method.name]
    return read(RPCS[rpc], _RequestParts(wildcards(match.route.template, path), said, value))


def parsed(body: JsonText, max_depth: int) -> object:
    try:
        return loads(body, max_depth=max_depth)
    except A2AError as error:
        refuse([Violation("body", error.message)])


def _send(rpc: MethodDescriptor, parts: _RequestParts) -> OldRequest:
    body = {} if parts.body is None else parts.body
    return OldRequest(rpc, body, spelling_of(body))


def _of_task(rpc: MethodDescriptor, parts: _RequestParts) -> OldRequest:
    """Read a request about a task. The body may repeat its name, and have metadata."""
    body, [task_id] = _object_of(parts.body), parts.ids
    _agree(task_id, {"id": body.get("id"), "name": _named_task(body)})
    said = {name: value for name, value in {**body, **parts.said}.items() if name not in _NAMES}
    return OldRequest(rpc, {**said, "id": task_id})


def _of_config(rpc: MethodDescriptor, parts: _RequestParts) -> OldRequest:
    task_id, config_id = parts.ids
    return OldRequest(rpc, {"id": task_id, "pushNotificationConfigId": config_id})


def _new_config(rpc: MethodDescriptor, parts: _RequestParts) -> OldRequest:
    body, [task_id], config_id = _object_of(parts.body), parts.ids, parts.said.get("configId")
    check_new_id(config_id, "configId")
    held = body.get("config")
    rules = config_renames("" if held is None else "config.", task_id="parent", id="config_id")
    spelling = spelling_of(body) or ("proto" if body.get("parent") is not None else None)
    value = {**body, PATH: task_id, QUERY: config_id}
    return OldRequest(rpc, value, spelling, partial(renamed, rules=rules))


_READERS: Final[Mapping[str, tuple[str, Callable[[MethodDescriptor, _RequestParts], OldRequest]]]] = MappingProxyType(
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
        "ListTasks": ("ListTasks", lambda rpc, parts: OldRequest(rpc, {"pageSize": MOST_TASKS, **parts.said})),
    }
)
"""The RPC of 1.0 and the function that reads the request, by the route's RPC in 0.3 (or 1.0, if 0.3 has none)."""


# -- the spelling of a body

_SPELLING_TEXTS: Final[Mapping[OldSpelling, str]] = {"kind": "in the JSON schema", "proto": "in the proto"}
# The first sign in a body decides; other signs that differ are reported as faults.
_IN_MESSAGE: Final[Mapping[str, OldSpelling]] = {"parts": "kind", "content": "proto", "kind": "kind"}
_ROLES: Final[Mapping[str, OldSpelling]] = {
    **dict.fromkeys(("user", "agent"), "kind"),
    **dict.fromkeys(("ROLE_USER", "ROLE_AGENT"), "proto"),
}
_IN_CONFIG: Final[Mapping[str, OldSpelling]] = {"taskId": "kind", "task_id": "kind", "name": "proto"}
_PLACES: Final = (
    ("message", _IN_MESSAGE),
    ("request", _IN_MESSAGE),  # the field's name in the proto; its JSON name is message
    ("", _IN_CONFIG),
    ("config", _IN_CONFIG),
)


class _SpellingSign(NamedTuple):
    field: str
    tells: OldSpelling


def spelling_of(value: object) -> OldSpelling | None:
    """Return the spelling of a send or a push config; None if it could be either.

    It checks only members that every valid body has. The codec refuses members of the other spelling deeper inside.
    """
    signs = [*_signs(value)]
    if not signs:
        return None
    first = signs[0]
    if wrong := [sign for sign in signs if sign.tells != first.tells]:
        other, own = _SPELLING_TEXTS[wrong[0].tells], _SPELLING_TEXTS[first.tells]
        text = f"is spelt as {other} of 0.3, but {first.field} as {own}; a body must keep to one of them"
        refuse([Violation(sign.field, text) for sign in wrong])
    return first.tells


def _signs(value: object) -> Iterator[_SpellingSign]:
    whole = value if isinstance(value, dict) else {}
    for place, names in _PLACES:
        held = whole.get(place) if place else whole
        if not isinstance(held, dict):
            continue
        path = f"{place}." if place else ""
        yield from (_SpellingSign(path + name, tells) for name, tells in names.items() if held.get(name) is not None)
        role = held.get("role") if names is _IN_MESSAGE else None
        if type(role) is str and role in _ROLES:
            yield _SpellingSign(f"{path}role", _ROLES[role])


# -- names and ids


def check_new_id(value: object, place: str) -> None:
    """Refuse an id that cannot be part of a resource name (LGRP-02)."""
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
    """Refuse a body that names another task than the path."""
    if faults := [
        Violation(place, f"says {shown(value)} where the path says {shown(path)}; both must be the same")
        for place, value in body.items()
        if value not in (None, "", path)
    ]:
        refuse(faults)
