"""REST's requests of 0.3 as those of 1.0: resource names become members of JSON in 0.3's spelling (LRES-05, -06).

What the path, the query and the body say becomes one JSON value, which the codec judges. All that is said twice must be
the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import MethodDescriptor

from a2a_gateway.calls import NOTHING, Beside, Query
from a2a_gateway.older.v0_3.answers import RPCS, schemes_of_config, schemes_of_send
from a2a_gateway.older.v0_3.bodies import OldSpelling, agree, check_new_id, named, object_of, spelling_of
from a2a_gateway.requests import binding
from a2a_gateway.routing.table import Match, wildcards
from a2a_server.protocol.codec import loads
from a2a_server.protocol.errors import A2AError, Violation, refuse
from a2a_server.protocol.v0_3.configs import PATH, QUERY
from a2a_server.protocol.v0_3.names import task_of
from a2a_server.protocol.v0_3.words import Words, config_renames, renamed

MOST_TASKS: Final = 100
"""How many tasks a list has when the client says nothing; what follows is linked (LRES-08)."""

_NAMES: Final = frozenset({"name", "parent"})


def nothing(_: Any) -> Beside:  # noqa: ANN401 - JSON
    return NOTHING


class OldRequest(NamedTuple):
    """A request of 1.0, as 0.3 spells it."""

    rpc: MethodDescriptor
    value: Any  # JSON
    spelling: OldSpelling | None = None
    """The spelling of the body; None: it could be either."""
    beside: Callable[[Any], Beside] = nothing
    """What a sound value says that the request has no room for."""
    path: Words | None = None
    """What its fields are called, where that depends on the body."""


class _Asked(NamedTuple):
    """What is there to be read."""

    ids: Sequence[str]
    """What the path says, in place of its wildcards."""
    said: Mapping[str, Any]
    """What else the URL says."""
    body: Any  # JSON


class _Way(NamedTuple):
    rpc: MethodDescriptor
    read: Callable[[MethodDescriptor, _Asked], OldRequest]


def request_of(match: Match, path: str, query: Query, body: bytes, max_depth: int) -> OldRequest:
    """Read a request; what its parts say is checked as far as they could contradict each other."""
    faults: list[Violation] = []
    said = binding.url_values(match, query, faults)
    value = _parsed(body, max_depth) if body and match.route.body else None
    if faults:
        refuse(faults)
    rpc, read = _WAYS[match.route.method.name]
    return read(rpc, _Asked(wildcards(match.route.template, path), said, value))


def _parsed(body: bytes, max_depth: int) -> object:
    try:
        return loads(body, max_depth=max_depth)
    except A2AError as error:
        refuse([Violation("body", error.message)])


def _send(rpc: MethodDescriptor, asked: _Asked) -> OldRequest:
    body = {} if asked.body is None else asked.body
    return OldRequest(rpc, body, spelling_of(body), schemes_of_send)


def _of_task(rpc: MethodDescriptor, asked: _Asked) -> OldRequest:
    """The body may repeat the name, and have metadata."""
    body, [task_id] = object_of(asked.body), asked.ids
    agree({"the path": task_id, "id": body.get("id"), "name": named(body, "name", task_of)})
    said = {name: value for name, value in {**body, **asked.said}.items() if name not in _NAMES}
    return OldRequest(rpc, {**said, "id": task_id})


def _of_config(rpc: MethodDescriptor, asked: _Asked) -> OldRequest:
    task_id, config_id = asked.ids
    return OldRequest(rpc, {"id": task_id, "pushNotificationConfigId": config_id})


def _new_config(rpc: MethodDescriptor, asked: _Asked) -> OldRequest:
    body, [task_id], config_id = object_of(asked.body), asked.ids, asked.said.get("configId")
    check_new_id(config_id, "configId")
    held = body.get("config")
    rules = config_renames("" if held is None else "config.", task_id="parent", id="config_id")
    spelling = spelling_of(body) or ("proto" if body.get("parent") is not None else None)
    value = {**body, PATH: task_id, QUERY: config_id}
    return OldRequest(rpc, value, spelling, _schemes_of_config, partial(renamed, rules=rules))


def _schemes_of_config(value: Any) -> Beside:  # noqa: ANN401 - JSON
    return schemes_of_config(value.get("config") or value)


def _list(rpc: MethodDescriptor, asked: _Asked) -> OldRequest:
    return OldRequest(rpc, {"pageSize": MOST_TASKS, **asked.said})


def _card(rpc: MethodDescriptor, _: _Asked) -> OldRequest:
    return OldRequest(rpc, {})


_WAYS: Final[Mapping[str, _Way]] = MappingProxyType(
    {
        "SendMessage": _Way(RPCS["SendMessage"], _send),
        "SendStreamingMessage": _Way(RPCS["SendStreamingMessage"], _send),
        "GetTask": _Way(RPCS["GetTask"], _of_task),
        "CancelTask": _Way(RPCS["CancelTask"], _of_task),
        "TaskSubscription": _Way(RPCS["SubscribeToTask"], _of_task),
        "CreateTaskPushNotificationConfig": _Way(RPCS["CreateTaskPushNotificationConfig"], _new_config),
        "GetTaskPushNotificationConfig": _Way(RPCS["GetTaskPushNotificationConfig"], _of_config),
        "DeleteTaskPushNotificationConfig": _Way(RPCS["DeleteTaskPushNotificationConfig"], _of_config),
        "ListTaskPushNotificationConfig": _Way(RPCS["ListTaskPushNotificationConfigs"], _of_task),
        "GetAgentCard": _Way(RPCS["GetExtendedAgentCard"], _card),
        "ListTasks": _Way(RPCS["ListTasks"], _list),
    }
)
"""By the route's RPC: that of 0.3, or of 1.0 where 0.3 has none."""
