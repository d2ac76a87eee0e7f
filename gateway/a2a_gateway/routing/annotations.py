"""Reads and checks the routes of google.api.http annotations (spec: REST-01, REST-02, REST-03, CONF-49).

The second half refuses routes that collide with the gateway's own pages, or with the paths of older versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from google.api import annotations_pb2, http_pb2
from google.protobuf.descriptor import Descriptor, MethodDescriptor, ServiceDescriptor

from a2a_gateway.routing.template import Segment, Template, TemplateError, overlap, parse, starts_with
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
"""All methods that aiohttp's parser accepts, except CONNECT and OPTIONS, which no route can have."""
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
    """Whether anyone may call a method, and cache its answers."""
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
        raise RouteError(_verb_fault(route.verb))
    if method.client_streaming and not route.body:
        raise RouteError("a stream of requests needs a body, which has one request in each line")
    if method.server_streaming and route.response_body:
        raise RouteError("a stream has no response_body: its events are whole messages")
    if route.body and route.verb in {"GET", "HEAD"}:
        raise RouteError(f"{route.verb} takes no body")
    for variable in route.template.variables:
        _check_captured(method.input_type, variable.path)
    _check_member(method.input_type, "" if route.body == "*" else route.body)
    _check_member(method.output_type, route.response_body)


def _verb_fault(verb: str) -> str:
    if not verb:
        return "the custom pattern has no kind"
    if verb == "OPTIONS":
        return "the gateway itself answers OPTIONS, with the methods of a path"
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
"""The segments that a path begins with; `*` matches any segment."""


class ReservedPaths(NamedTuple):
    """Paths below a root that the gateway uses itself, for an older version."""

    name: str
    root: Root
    templates: Sequence[Template]


def check_collisions(routes: Iterable[Route], pages: Collection[str], reserved: Collection[ReservedPaths]) -> None:
    """Refuse a route whose path is already used by a page, or by an older version."""
    for route in routes:
        if route.template.text in pages:
            raise _collision(route, "the gateway itself answers there")
        for paths in reserved:
            for other in paths.templates if starts_with(route.template, paths.root) else ():
                if overlap(route.template, other):
                    raise _collision(
                        route, f'{paths.name} is served at "{other.text}"; move one, or do without the other'
                    )


def reserved_for_v0_3(routes: Collection[Route], roots: Iterable[Root]) -> Iterator[ReservedPaths]:
    """Yield the paths of 0.3 for each root. They follow the segments before the root's last one."""
    for *before, last in roots:
        templates = [replace(it.template, segments=(*before, *it.template.segments)) for it in routes]
        yield ReservedPaths("A2A 0.3", (*before, last), templates)


def reserved_for_draft(path: str) -> Iterator[ReservedPaths]:
    """Yield the paths of the draft. If it is served at the root, these are /v1 and /v1 of every tenant."""
    for root in (path,) if path != "/" else ("/v1", "/*/v1"):
        template = parse(f"{root}/**")
        yield ReservedPaths("the draft", template.segments[:-1], [template])


def _collision(route: Route, reason: str) -> RouteError:
    return RouteError(f'{route.method.full_name} cannot have {route.verb} "{route.template.text}": {reason}')
