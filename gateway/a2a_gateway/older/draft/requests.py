"""REST's requests of the draft: path and query in the names of 1.0, the body in the draft's own (DRFT-01, DRFT-04).

All that is said twice must be the same (TENA-03).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from google.protobuf.message_factory import GetMessageClass

from a2a_gateway.calls import NOTHING, Beside, Query
from a2a_gateway.errors import json_path
from a2a_gateway.older.v0_3.bodies import check_new_id
from a2a_gateway.older.v0_3.requests import schemes_of_config, schemes_of_send
from a2a_gateway.requests import binding
from a2a_gateway.requests.binding import merge
from a2a_gateway.routing.table import Match
from a2a_proto import a2a_pb2, discovery_pb2
from a2a_server.protocol.codec import Codec, loads
from a2a_server.protocol.errors import A2AError, Violation, refuse
from a2a_server.protocol.foreign import snake
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.v0_3.words import Words, config_renames, renamed

A2A: Final = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
DISCOVERY: Final = discovery_pb2.DESCRIPTOR.services_by_name["Discovery"]

CONFIG: Final[Words] = partial(renamed, rules=config_renames("", task_id="name", id="push_notification_config.id"))
"""What the fields of a config are called, by itself."""
_INNER_CONFIG: Final[Words] = partial(
    renamed, rules=config_renames("config.", task_id="parent", id="config.push_notification_config.id")
)
"""The same where it stands in a member of the request."""

_SENDS: Final = frozenset({"SendMessage", "SendStreamingMessage"})
_CREATE: Final = "CreateTaskPushNotificationConfig"

_ID: Final = "configId"
_IN_QUERY: Final[Mapping[str, str]] = MappingProxyType(
    {_ID: "id", "config_id": "id", "tenant": "tenant"},
)
"""What the query may say beside a body, and the members of 1.0 that this is."""
_AFTER: Final = "lastUpdatedAfter"
_AFTERS: Final = frozenset({_AFTER, "last_updated_after"})


class Request(NamedTuple):
    """A request of 1.0."""

    message: Any
    beside: Beside = NOTHING
    """What it has no room for."""
    path: Words | None = None
    """What its fields were called, where that depends on the request."""


def request_of(match: Match, query: Query, body: bytes, codec: Codec, max_depth: int) -> Request:
    """Read a request; raise one `A2AError` that names what is wrong with it."""
    if not match.route.body:
        return _of_url(match, query, codec)
    name, kind = match.route.method.name, GetMessageClass(match.route.method.input_type)
    known = [(_IN_QUERY[name], text) for name, text in query if name in _IN_QUERY]
    said = _said(match, known, {"id": _ID})
    if name == _CREATE:
        check_new_id(said.get("id"), _ID)
    url: Any = V1.decode(said, kind)
    value = _parsed(body, max_depth) if body else {}
    request = of_value(name, value, codec.decode(value, kind))
    if faults := [Violation(_spelt(name, fault.field), fault.description) for fault in merge(request.message, url)]:
        refuse(faults)
    return request


def of_value(rpc: str, value: Any, message: Any) -> Request:  # noqa: ANN401 - sound JSON, and what it means
    """What a whole request says, be it a body or `params`."""
    if rpc in _SENDS:
        return Request(message, schemes_of_send(value))
    if rpc != _CREATE:
        return Request(message)
    inner = value.get("config")
    return Request(message, schemes_of_config(inner or value), _INNER_CONFIG if inner else CONFIG)


def _of_url(match: Match, query: Query, codec: Codec) -> Request:
    said = _said(match, query)
    if times := [text for name, text in query if name in _AFTERS and match.route.method.name == "ListTasks"]:
        if len(times) > 1:
            refuse([Violation(_AFTER, f"is given {len(times)} times and takes one value")])
        said[_AFTER] = times[0]
    return Request(codec.decode(said, GetMessageClass(match.route.method.input_type)))


def _said(match: Match, query: Query, names: Mapping[str, str] = MappingProxyType({})) -> dict[str, object]:
    """What the URL says; `names` are those that the query has for members."""
    faults: list[Violation] = []
    said = binding.url_values(match, query, faults)
    if faults:
        refuse([Violation(names.get(fault.field, fault.field), fault.description) for fault in faults])
    return said


def _parsed(body: bytes, max_depth: int) -> object:
    try:
        return loads(body, max_depth=max_depth)
    except A2AError as error:
        refuse([Violation("body", error.message)])


def _spelt(rpc: str, field: str) -> str:
    """The member of the body that the URL contradicts."""
    return json_path(CONFIG(snake(field))) if rpc == _CREATE else field
