"""Describes the parameters of an operation, in the path and in the query (spec: QPAR-01, DOOR-03)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from a2a_gateway.openapi.schemas import Schema, Schemas
from a2a_gateway.routing.annotations import Route, captured
from a2a_gateway.routing.template import Template, Variable, Wildcard
from a2a_gateway.routing.url_fields import UnfitError, find, is_map, is_well_known
from a2a_server.protocol.codec.dialect import is_required
from a2a_server.protocol.names import JSON

_LITERAL = "-._~!$&'()+,;=:@"


class OpenApiPath(NamedTuple):
    text: str
    """`/v1/shelves/{parent}/books`."""
    parameters: list[dict[str, Any]]


def path_of(route: Route, schemas: Schemas) -> OpenApiPath:
    """Write a template with one parameter for each wildcard.

    A parameter of OpenAPI cannot hold a slash, so `{name=shelves/*/books/*}` becomes `{name1}` and `{name2}`.
    """
    template = route.template
    parameters = {
        at: _path_parameter(route, at, schemas) for at, it in enumerate(template.segments) if isinstance(it, Wildcard)
    }
    parts = [
        f"{{{parameters[at]['name']}}}" if isinstance(segment, Wildcard) else quote(segment, _LITERAL)
        for at, segment in enumerate(template.segments)
    ]
    suffix = f":{quote(template.suffix, _LITERAL)}" if template.suffix else ""
    return OpenApiPath(f"/{'/'.join(parts)}{suffix}", list(parameters.values()))


def _path_parameter(route: Route, at: int, schemas: Schemas) -> dict[str, Any]:
    schema: Schema = {"type": "string", "minLength": 1}
    parameter = {"name": f"any{at + 1}", "in": "path", "required": True, "schema": schema}
    if route.template.segments[at] is Wildcard.REST:
        parameter |= {
            "schema": {"type": "string"},
            "description": "All that follows; slashes in it are sent as they are, which OpenAPI cannot express.",
        }
    variable = next((it for it in route.template.variables if at in _wildcards(route.template, it)), None)
    if variable is None:
        return parameter
    field, wildcards = captured(route)[variable.path], _wildcards(route.template, variable)
    number = str(wildcards.index(at) + 1) if len(wildcards) > 1 else ""
    if variable.single:
        described = schemas.of_field(field.descriptor)
        parameter["schema"] = schema if described == {"type": "string"} else described
    return {**parameter, "name": field.name + number}


def _wildcards(template: Template, variable: Variable) -> list[int]:
    segments = range(len(template.segments))[variable.start : variable.stop]
    return [at for at in segments if isinstance(template.segments[at], Wildcard)]


def query_of(route: Route, schemas: Schemas) -> Iterator[dict[str, Any]]:
    """Yield the parameters for fields that are neither in the path nor in the body.

    If the body is the whole message there are none. The query may give fields then too, but should not.
    """
    if route.body != "*":
        taken = {field.path for field in captured(route).values()}
        kind = route.method.input_type
        fields = [field for field in kind.fields if field.name != route.body]
        yield from _query_parameters(fields, (), taken, (kind,), schemas)


def _query_parameters(
    fields: Collection[FieldDescriptor],
    prefix: tuple[str, ...],
    taken: Collection[tuple[str, ...]],
    outer: tuple[Descriptor, ...],
    schemas: Schemas,
) -> Iterator[dict[str, Any]]:
    for field in fields:
        path = (*prefix, field.json_name)
        kind = field.message_type
        if path in taken or kind in outer:
            continue
        if kind is not None and not field.is_repeated and not is_well_known(kind):
            yield from _query_parameters(kind.fields, path, taken, (*outer, kind), schemas)
        elif _has_text(outer[-1], field):
            yield _query_parameter(field, path, schemas)


def _has_text(kind: Descriptor, field: FieldDescriptor) -> bool:
    try:
        return find(kind, f"{field.name}[]" if is_map(field) else field.name) is not None
    except UnfitError:
        return False


def _query_parameter(field: FieldDescriptor, path: tuple[str, ...], schemas: Schemas) -> dict[str, Any]:
    parameter: dict[str, Any] = {"name": ".".join(path), "in": "query"}
    schema = schemas.of_field(field)
    if is_map(field):
        return {**parameter, "style": "deepObject", "explode": True, "schema": schema}
    if field.message_type is not None and schema.get("type", "object") in {"object", "array"} and not field.is_repeated:
        return {**parameter, "content": {JSON: {"schema": schema}}}
    if is_required(field) and len(path) == 1:
        parameter["required"] = True
    return {**parameter, "schema": schema}
