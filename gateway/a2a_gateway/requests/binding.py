"""A request message from path, query and body, with all faults at once (spec: REST-04, REST-05, QPAR-01, QPAR-02).

Path and query become a JSON value, which the codec judges like a body: a field has one meaning, wherever it stands.

- The query never changes what the path says; a contradiction is refused, and so it is between URL and body (TENA-03).
- Beside `body: "*"` http.proto leaves nothing for the query and grpc-gateway drops it. Here it may still name fields,
  because a tenant may be in it (CONF-50) and a dropped one would be a call on behalf of somebody else.
- A body where the annotation has none is ignored, as by grpc-gateway: content of a GET "cannot alter the meaning"
  of the request (RFC 9110, 9.3.1), and some HTTP clients send `{}` with every DELETE.
- Names that are no fields are ignored (GEN-06); among them are those read elsewhere, such as `A2A-Version`. Those by
  which other versions mean a field are not: what they say would be lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_gateway.routing.annotations import Route, captured
from a2a_gateway.routing.parameters import Parameter, UnfitError, find, is_map, is_well_known
from a2a_gateway.routing.table import Match
from a2a_server.protocol.codec import Codec, loads
from a2a_server.protocol.codec.codec import DEEPEST
from a2a_server.protocol.codec.faults import MOST, expected, key_path, shown
from a2a_server.protocol.errors import A2AError, Violation, refuse

_LONGEST_NAME = 100


def bind(
    match: Match, query: Sequence[tuple[str, str]], body: bytes, codec: Codec, *, max_depth: int = DEEPEST
) -> Message:
    """Make the request; raise one `A2AError` that names everything wrong with it."""
    plan = _plan(match.route)
    faults: list[Violation] = []
    said = _said(plan, match.captures, query, faults) if query or match.captures else {}
    from_url = _judged(faults, codec, said, plan.request) if said else None
    if query:
        faults.extend(_foreign(plan.kind, query, codec))
    from_body = _read(plan, body, codec, faults, max_depth) if plan.takes_body else None
    if from_url is not None and from_body is not None:
        faults.extend(merge(from_body, from_url))
    if faults:
        refuse(faults[:MOST], more=len(faults) >= MOST)
    if from_body is not None:
        return from_body
    return plan.request() if from_url is None else from_url


def said(match: Match, query: Sequence[tuple[str, str]], faults: list[Violation]) -> dict[str, object]:
    """Return what the URL says of the route's request, as JSON that nobody has judged; add what has no such form."""
    return _said(_plan(match.route), match.captures, query, faults) if query or match.captures else {}


class _Plan(NamedTuple):
    """What of a route does not change from request to request."""

    request: type[Message]
    kind: Descriptor
    captured: Mapping[str, Parameter]
    takes_body: bool
    member: str
    """The JSON name of the field that the body is; empty when it is the whole message."""


@lru_cache(maxsize=4096)
def _plan(route: Route) -> _Plan:
    kind = route.method.input_type
    member = "" if route.body in {"", "*"} else kind.fields_by_name[route.body].json_name
    return _Plan(GetMessageClass(kind), kind, captured(route), bool(route.body), member)


def _said(
    plan: _Plan, captures: Mapping[str, str], query: Sequence[tuple[str, str]], faults: list[Violation]
) -> dict[str, object]:
    """Return what the URL says, as JSON."""
    said: dict[str, object] = {}
    in_path = {plan.captured[path]: text for path, text in captures.items()}
    for place, text in in_path.items():
        _put(said, place, [text], faults)
    for place, texts in _named(plan.kind, query, faults).items():
        if place not in in_path:
            _put(said, place, texts, faults)
        elif rivals := [text for text in texts if text not in {"", in_path[place]}]:  # `tenant=` says nothing
            description = (
                f"is {shown(in_path[place])} in the path and {shown(rivals[0])} in the query; leave it out there"
            )
            faults.append(Violation(place.name, description))
    return said


def _named(
    kind: Descriptor, query: Sequence[tuple[str, str]], faults: list[Violation]
) -> Mapping[Parameter, list[str]]:
    """Return the query's texts by the field they name."""
    texts: dict[Parameter, list[str]] = {}
    for name, text in query:
        try:
            place = find(kind, name)
        except UnfitError as error:
            faults.append(Violation(name[:_LONGEST_NAME], str(error)))
        else:
            if place is not None:
                texts.setdefault(place, []).append(text)
    return texts


def _foreign(kind: Descriptor, query: Sequence[tuple[str, str]], codec: Codec) -> Iterator[Violation]:
    """Complain of what is another version's and would be lost, as a body's is."""
    for name, _ in query:
        if complaint := codec.foreign(kind, name):
            yield Violation(name, complaint)


def _put(said: dict[str, object], place: Parameter, texts: Sequence[str], faults: list[Violation]) -> None:
    """Set a field, or say why its texts do not fit; what they mean is the codec's to judge."""
    if len(texts) > 1 and not place.many:
        faults.append(Violation(place.name, f"is given {len(texts)} times and takes one value"))
        return
    pieces = [piece for text in texts for piece in text.split(",")] if place.splits else texts
    values = []
    for at, piece in enumerate(pieces):
        try:
            values.append(place.read(piece))
        except ValueError:
            name = f"{place.name}[{at}]" if place.many else place.name
            faults.append(Violation(name, f"must be {expected(place.field)}, got {shown(piece)}"))
    if len(values) < len(pieces):
        return
    *outer, last = place.path
    inner: Any = said
    for name in outer:
        inner = inner.setdefault(name, {})
    inner[last] = values if place.many else values[0]


def _judged(faults: list[Violation], codec: Codec, value: object, request: type[Message]) -> Message | None:
    try:
        return codec.decode(value, request)
    except A2AError as error:
        faults.extend(error.violations)
    return None


def _read(plan: _Plan, body: bytes, codec: Codec, faults: list[Violation], max_depth: int) -> Message | None:
    if not body:  # says nothing, as `{}` does (REST-05)
        return None
    try:
        value = loads(body, max_depth=max_depth)
    except A2AError as error:
        faults.append(Violation("body", error.message))
        return None
    if not plan.member and not isinstance(value, dict):
        faults.append(Violation("body", f"must be an object, got {shown(value)}"))
        return None
    return _judged(faults, codec, {plan.member: value} if plan.member else value, plan.request)


def merge(body: Message, url: Message, prefix: str = "") -> Iterator[Violation]:
    """Add to the body what only the URL says, and yield a violation for all that they say differently.

    Nobody overrides anybody: a proxy that authorises by path would otherwise let through what the body says instead.
    A field at its default counts as not said, unless the proto tracks its presence.
    """
    for field, value in url.ListFields():
        path = prefix + field.json_name
        if (rival := _rival(body, field)) is not None:
            yield Violation(path, f'cannot be in the URL while the body has "{rival}": only one may be given')
        elif is_map(field):
            yield from _merge_map(getattr(body, field.name), value, path)
        elif not _is_said(body, field):
            _set(body, field, value)
        elif field.message_type is not None and not field.is_repeated and not is_well_known(field.message_type):
            yield from merge(getattr(body, field.name), value, f"{path}.")
        elif (said := getattr(body, field.name)) != value:
            yield Violation(path, _contradiction(value, said))


def _rival(body: Message, field: FieldDescriptor) -> str | None:
    """Return the JSON name of the other member of the field's oneof that the body has chosen."""
    oneof = field.containing_oneof
    chosen = body.WhichOneof(oneof.name) if oneof is not None else None
    return None if chosen is None or chosen == field.name else body.DESCRIPTOR.fields_by_name[chosen].json_name


def _is_said(body: Message, field: FieldDescriptor) -> bool:
    return body.HasField(field.name) if field.has_presence else bool(getattr(body, field.name))


def _set(body: Message, field: FieldDescriptor, value: Any) -> None:  # noqa: ANN401 - a field's value
    if field.is_repeated:
        getattr(body, field.name).extend(value)
    elif field.message_type is not None:
        getattr(body, field.name).CopyFrom(value)
    else:
        setattr(body, field.name, value)


def _merge_map(said: MutableMapping[Any, Any], added: MutableMapping[Any, Any], path: str) -> Iterator[Violation]:
    for key, value in added.items():
        if key not in said:
            said[key] = value
        elif said[key] != value:
            yield Violation(path + key_path(key), _contradiction(value, said[key]))


def _contradiction(url: object, body: object) -> str:
    return f"is {_shown(url)} in the URL and {_shown(body)} in the body; they must be the same"


def _shown(value: object) -> str:
    return shown(value) if isinstance(value, str | int | float) else "another value"


_QUOTED = frozenset({FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64})


def content_of(route: Route, message: Message, codec: Codec) -> bytes:
    """Return the JSON text of an answer."""
    if not route.response_body:
        return codec.encode(message)
    field = route.method.output_type.fields_by_name[route.response_body]
    if isinstance(value := getattr(message, field.name), Message):
        return codec.encode(value)
    members = orjson.loads(codec.encode(message))
    return orjson.dumps(members[field.json_name] if field.json_name in members else _default(field))


def _default(field: FieldDescriptor) -> object:
    """What ProtoJSON leaves out of an object; alone it has to be said."""
    if field.is_repeated:
        return {} if is_map(field) else []
    if field.enum_type is not None:
        return field.enum_type.values_by_number[0].name
    if field.type == FieldDescriptor.TYPE_BYTES:
        return ""
    return "0" if field.cpp_type in _QUOTED else field.default_value
