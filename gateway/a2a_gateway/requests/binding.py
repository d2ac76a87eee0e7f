"""Turns an HTTP request into a request message, and an answer into a body, by the route's annotation.

Serves REST-04 to REST-06, QPAR-01, QPAR-02, TENA-03 and CONF-50. The fields of path and query become a JSON value,
which the codec reads like a body, so a field means the same in both. All faults are reported at once.

- The query never overrides the path, and the URL never overrides the body. Different values are refused (TENA-03).
- With `body: "*"`, http.proto allows no fields in the query, and grpc-gateway ignores them. Here they are read: the
  query may give the tenant (CONF-50), and ignoring it would make the call for another tenant.
- A body that the annotation does not have is ignored, as by grpc-gateway. The content of a GET "cannot alter the
  meaning" of the request (RFC 9110, 9.3.1), and some HTTP clients send `{}` with every DELETE.
- Unknown names in the query are ignored (GEN-06); some are read elsewhere, such as `A2A-Version`. Names that another
  version has for a field are refused, because ignoring them would lose a value.
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
from a2a_gateway.routing.table import Match
from a2a_gateway.routing.url_fields import UnfitError, UrlField, find, is_map, is_well_known
from a2a_server.protocol.codec import DEEPEST, Codec, JsonText, loads
from a2a_server.protocol.codec.faults import MOST, expected, key_path, shown
from a2a_server.protocol.errors import A2AError, Violation, refuse

_LONGEST_NAME = 100
_QUOTED = frozenset({FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64})


def bind(
    match: Match, query: Sequence[tuple[str, str]], body: JsonText, codec: Codec, *, max_depth: int = DEEPEST
) -> Message:
    """Return the request message, or raise one `A2AError` that names all faults."""
    plan = _plan(match.route)
    faults: list[Violation] = []
    said = url_values(match, query, faults)
    from_url = _decoded(faults, codec, said, plan.request) if said else None
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


class _RoutePlan(NamedTuple):
    """The facts that are the same for all requests of a route."""

    request: type[Message]
    kind: Descriptor
    captured: Mapping[str, UrlField]
    takes_body: bool
    member: str
    """The JSON name of the field that the body fills; empty when it fills the whole message."""


@lru_cache(maxsize=4096)
def _plan(route: Route) -> _RoutePlan:
    kind = route.method.input_type
    member = "" if route.body in {"", "*"} else kind.fields_by_name[route.body].json_name
    return _RoutePlan(GetMessageClass(kind), kind, captured(route), bool(route.body), member)


def url_values(match: Match, query: Sequence[tuple[str, str]], faults: list[Violation]) -> dict[str, object]:
    """Return the fields of path and query as JSON, which the codec has not read yet; add faults to `faults`."""
    if not (query or match.captures):
        return {}
    plan = _plan(match.route)
    said: dict[str, object] = {}
    in_path = {plan.captured[path]: text for path, text in match.captures.items()}
    for field, text in in_path.items():
        _put(said, field, [text], faults)
    for field, texts in _named(plan.kind, query, faults).items():
        if (own := in_path.get(field)) is None:
            _put(said, field, texts, faults)
        elif rivals := [text for text in texts if text not in {"", own}]:  # an empty `tenant=` is the same as none
            text = f"is {shown(own)} in the path and {shown(rivals[0])} in the query; leave it out there"
            faults.append(Violation(field.name, text))
    return said


def _named(kind: Descriptor, query: Sequence[tuple[str, str]], faults: list[Violation]) -> Mapping[UrlField, list[str]]:
    texts: dict[UrlField, list[str]] = {}
    for name, text in query:
        try:
            field = find(kind, name)
        except UnfitError as error:
            faults.append(Violation(name[:_LONGEST_NAME], str(error)))
        else:
            if field is not None:
                texts.setdefault(field, []).append(text)
    return texts


def _foreign(kind: Descriptor, query: Sequence[tuple[str, str]], codec: Codec) -> Iterator[Violation]:
    """Refuse names that another version has for a field, as in a body."""
    for name, _ in query:
        if complaint := codec.foreign(kind, name):
            yield Violation(name, complaint)


def _put(said: dict[str, object], field: UrlField, texts: Sequence[str], faults: list[Violation]) -> None:
    """Put a field's texts into the JSON, or add a fault. The codec checks the values later."""
    if len(texts) > 1 and not field.many:
        faults.append(Violation(field.name, f"is given {len(texts)} times and takes one value"))
        return
    pieces = [piece for text in texts for piece in text.split(",")] if field.splits else texts
    values = []
    for at, piece in enumerate(pieces):
        try:
            values.append(field.read(piece))
        except ValueError:
            name = f"{field.name}[{at}]" if field.many else field.name
            faults.append(Violation(name, f"must be {expected(field.descriptor)}, got {shown(piece)}"))
    if len(values) < len(pieces):
        return
    *outer, last = field.path
    inner: Any = said
    for name in outer:
        inner = inner.setdefault(name, {})
    inner[last] = values if field.many else values[0]


def _decoded(faults: list[Violation], codec: Codec, value: object, request: type[Message]) -> Message | None:
    try:
        return codec.decode(value, request)
    except A2AError as error:
        faults.extend(error.violations)
    return None


def _read(plan: _RoutePlan, body: JsonText, codec: Codec, faults: list[Violation], max_depth: int) -> Message | None:
    if not body:  # the same as `{}` (REST-05)
        return None
    try:
        value = loads(body, max_depth=max_depth)
    except A2AError as error:
        faults.append(Violation("body", error.message))
        return None
    if not plan.member and not isinstance(value, dict):
        faults.append(Violation("body", f"must be an object, got {shown(value)}"))
        return None
    return _decoded(faults, codec, {plan.member: value} if plan.member else value, plan.request)


def merge(body: Message, url: Message, prefix: str = "") -> Iterator[Violation]:
    """Add the fields that only the URL gives to the body; yield a violation for each field that differs.

    Neither overrides the other: a proxy that authorises by path could otherwise be bypassed through the body.
    A field with its default value counts as absent, unless the proto tracks its presence.
    """
    for field, value in url.ListFields():
        path = prefix + field.json_name
        if (rival := _other_choice(body, field)) is not None:
            yield Violation(path, f'cannot be in the URL while the body has "{rival}": only one may be given')
        elif is_map(field):
            yield from _merge_map(getattr(body, field.name), value, path)
        elif not (body.HasField(field.name) if field.has_presence else getattr(body, field.name)):  # not in the body
            _set(body, field, value)
        elif field.message_type is not None and not field.is_repeated and not is_well_known(field.message_type):
            yield from merge(getattr(body, field.name), value, f"{path}.")
        elif (said := getattr(body, field.name)) != value:
            yield Violation(path, _contradiction(value, said))


def _other_choice(body: Message, field: FieldDescriptor) -> str | None:
    """Return the JSON name of another member of the field's oneof that the body has set."""
    oneof = field.containing_oneof
    chosen = body.WhichOneof(oneof.name) if oneof is not None else None
    return None if chosen is None or chosen == field.name else body.DESCRIPTOR.fields_by_name[chosen].json_name


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
    in_url, in_body = (shown(it) if isinstance(it, str | int | float) else "another value" for it in (url, body))
    return f"is {in_url} in the URL and {in_body} in the body; they must be the same"


def content_of(route: Route, message: Message, codec: Codec) -> bytes:
    if not route.response_body:
        return codec.encode(message)
    field = route.method.output_type.fields_by_name[route.response_body]
    if isinstance(value := getattr(message, field.name), Message):
        return codec.encode(value)
    members = orjson.loads(codec.encode(message))
    return orjson.dumps(members[field.json_name] if field.json_name in members else _default(field))


def _default(field: FieldDescriptor) -> object:
    """Return the default of a field. ProtoJSON omits it in an object, but here the field is the whole answer."""
    if field.is_repeated:
        return {} if is_map(field) else []
    if field.enum_type is not None:
        return field.enum_type.values_by_number[0].name
    if field.type == FieldDescriptor.TYPE_BYTES:
        return ""
    return "0" if field.cpp_type in _QUOTED else field.default_value
