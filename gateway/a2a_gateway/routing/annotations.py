"""Routes from google.api.http annotations, checked when the table is built (spec: REST-01, REST-02, REST-03, CONF-49).

The second half refuses routes that collide with what the gateway serves itself: its own pages, and the paths of older
versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from google.api import annotations_pb2, http_pb2
from google.protobuf.descriptor import Descriptor, MethodDescriptor, ServiceDescriptor

from a2a_gateway.routing.template import Segment, Template, TemplateError, begins, meet, parse
from a2a_gateway.routing.url_fields import UnfitError, UrlField, find

ANY: Final = "*"
METHODS: Final = frozenset(
    (
        *("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT", "QUERY", "SEARCH", "TRACE"),
        *("ACL", "BIND", "CHECKOUT", "COPY", "LINK", "LOCK", "M-SEARCH", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL"),
        *("MOVE", "NOTIFY", "PROPFIND", "PROPPATCH", "PURGE", "REBIND", "REPORT", "SOURCE", "SUBSCRIBE", "UNBIND"),
        *("UNLINK", "UNLOCK", "UNSUBSCRIBE"),
    )
)
"""All methods that aiohttp's parser accepts, except CONNECT and OPTIONS, which are not about what a path serves."""
DISCOVERY: Final = "a2a_server.discovery.v1.Discovery"
_OLD_CARD: Final = "a2a_server.discovery.v1.OldDiscovery.GetAgentCard"


class RouteError(ValueError):
    """An annotation that cannot be served. Raised when the table is built, never by a request."""


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    verb: str
    """`*` accepts every verb."""
    template: Template
    body: str
    """"" = none, "*" = the whole message, otherwise one field."""
    response_body: str
    """"" = the whole message, otherwise one field."""
    method: MethodDescriptor


@dataclass(frozen=True, slots=True)
class Alias:
    """Adds a verb that the annotations lack: routes with `verb` and this suffix also answer `also`."""

    suffix: str
    verb: str
    also: str
    body: str


ALIASES: Final = (Alias("subscribe", "GET", also="POST", body="*"),)
"""The only addition to the annotations: the specification's tables say POST, the protos GET (REST-03, CONF-12)."""


def routes_of(service: ServiceDescriptor) -> Iterator[Route]:
    """Yield one route per binding: an RPC added to the proto needs no edit here."""
    for method in service.methods:
        options = method.GetOptions()
        if options.HasExtension(annotations_pb2.http):
            yield from _bindings(method, options.Extensions[annotations_pb2.http])


@lru_cache(maxsize=256)
def is_public(method: MethodDescriptor) -> bool:
    """Whether anyone may call a method; its answers may be cached."""
    return bool(method.containing_service.full_name == DISCOVERY or method.full_name == _OLD_CARD)


def captured(route: Route) -> Mapping[str, UrlField]:
    found = {variable.path: find(route.method.input_type, variable.path) for variable in route.template.variables}
    return {path: field for path, field in found.items() if field is not None}  # `_check` has refused unknown fields


def _bindings(method: MethodDescriptor, rule: http_pb2.HttpRule) -> Iterator[Route]:
    if any(binding.additional_bindings for binding in rule.additional_bindings):
        raise RouteError(f"{method.full_name}: additional_bindings cannot be nested")
    try:
        for binding in (rule, *rule.additional_bindings):
            yield _route(method, binding)
    except (RouteError, TemplateError) as error:
        raise RouteError(f"{method.full_name}: {error}") from error


def _route(method: MethodDescriptor, rule: http_pb2.HttpRule) -> Route:
    kind = rule.WhichOneof("pattern")
    if kind is None:
        raise RouteError("the annotation has no pattern such as get or post")
    verb, path = (rule.custom.kind, rule.custom.path) if kind == "custom" else (kind.upper(), getattr(rule, kind))
    route = Route(verb, parse(path), rule.body, rule.response_body, method)
    _check(route)
    return route


def _check(route: Route) -> None:
    method = route.method
    if route.verb not in METHODS and route.verb != ANY:
        raise RouteError(_unfit(route.verb))
    if method.client_streaming:
        raise RouteError("a stream of requests has no REST form")
    if method.server_streaming and route.response_body:
        raise RouteError("a stream has no response_body: its events are whole messages")
    if route.body and route.verb in {"GET", "HEAD"}:
        raise RouteError(f"{route.verb} takes no body")
    for variable in route.template.variables:
        _check_captured(method.input_type, variable.path)
    _check_member(method.input_type, "" if route.body == "*" else route.body)
    _check_member(method.output_type, route.response_body)


def _unfit(verb: str) -> str:
    if not verb:
        return "the custom pattern has no kind"
    if verb == "OPTIONS":
        return "OPTIONS is answered by the gateway itself: it tells what a path takes"
    return f'no request can have the method "{verb}"; the kind may be * or one of {", ".join(sorted(METHODS))}'


def _check_captured(kind: Descriptor, path: str) -> None:
    try:
        field = find(kind, path)
        fault = f"{kind.full_name} does not have" if field is None else "is a list" if field.many else ""
    except UnfitError as error:
        fault = str(error)
    if fault:
        raise RouteError(f'the path captures "{path}", which {fault}')


def _check_member(kind: Descriptor, name: str) -> None:
    if name and name not in kind.fields_by_name:
        raise RouteError(f'{kind.full_name} has no field "{name}"')


Root = tuple[Segment, ...]
"""The segments that a path begins with; `*` is any."""


class Area(NamedTuple):
    """Paths below a root that the gateway serves beside the services' routes."""

    name: str
    root: Root
    templates: Sequence[Template]


def check_collisions(routes: Iterable[Route], pages: Collection[str], areas: Collection[Area]) -> None:
    """Refuse a route whose own literal path is already taken by a page or an area."""
    for route in routes:
        if route.template.text in pages:
            raise _refusal(route, "the gateway itself answers there")
        for area in areas:
            for other in area.templates if begins(route.template, area.root) else ():
                if meet(route.template, other):
                    raise _refusal(route, f'{area.name} is served at "{other.text}"; move one, or do without the other')


def old_areas(routes: Collection[Route], roots: Iterable[Root]) -> Iterator[Area]:
    """Return the paths of 0.3 below each root, after what stands before the root's last segment."""
    for *before, last in roots:
        templates = [replace(it.template, segments=(*before, *it.template.segments)) for it in routes]
        yield Area("A2A 0.3", (*before, last), templates)


def draft_area(path: str) -> Area:
    return Area("the draft", tuple(path.split("/")[1:]), [parse(f"{path}/**")])


def _refusal(route: Route, reason: str) -> RouteError:
    return RouteError(f'{route.method.full_name} cannot have {route.verb} "{route.template.text}": {reason}')
