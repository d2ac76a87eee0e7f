"""google.api.http annotations as routes, checked when they are read (spec: REST-01, REST-02)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from google.api import annotations_pb2, http_pb2
from google.protobuf.descriptor import Descriptor, MethodDescriptor, ServiceDescriptor

from a2a_gateway.routing.parameters import Place, UnfitError, find
from a2a_gateway.routing.template import Template, TemplateError, parse
from a2a_gateway.routing.trie import ANY, METHODS


class RouteError(ValueError):
    """An annotation that cannot be served: found when the table is made, never by a request."""


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    verb: str
    """`*` takes every verb."""
    template: Template
    body: str
    """"" = none, "*" = the whole message, otherwise one field."""
    response_body: str
    """"" = the whole message, otherwise one field."""
    method: MethodDescriptor


def routes_of(service: ServiceDescriptor) -> Iterator[Route]:
    """Yield one route per binding: an RPC added to the proto needs no edit here."""
    for method in service.methods:
        options = method.GetOptions()
        if options.HasExtension(annotations_pb2.http):
            yield from _bindings(method, options.Extensions[annotations_pb2.http])


def captured(route: Route) -> Mapping[str, Place]:
    """Return the place in the request of every field that the path says."""
    places = {variable.path: find(route.method.input_type, variable.path) for variable in route.template.variables}
    return {path: place for path, place in places.items() if place is not None}  # none is: `_check` has seen to that


def _bindings(method: MethodDescriptor, rule: http_pb2.HttpRule) -> Iterator[Route]:
    try:
        yield _route(method, rule)
        for binding in rule.additional_bindings:
            yield _additional(method, binding)
    except (RouteError, TemplateError) as error:
        raise RouteError(f"{method.full_name}: {error}") from error


def _additional(method: MethodDescriptor, rule: http_pb2.HttpRule) -> Route:
    if rule.additional_bindings:
        raise RouteError("additional_bindings cannot be nested")
    return _route(method, rule)


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
        place = find(kind, path)
    except UnfitError as error:
        raise RouteError(f'the path captures "{path}", which {error}') from error
    if place is None:
        raise RouteError(f'the path captures "{path}", which {kind.full_name} does not have')
    if place.many:
        raise RouteError(f'the path captures "{path}", which is a list')


def _check_member(kind: Descriptor, name: str) -> None:
    if name and name not in kind.fields_by_name:
        raise RouteError(f'{kind.full_name} has no field "{name}"')
