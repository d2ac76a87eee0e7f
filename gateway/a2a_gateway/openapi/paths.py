"""Path templates of google.api.http as those of OpenAPI, with their parameters (spec: DOOR-03)."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from a2a_gateway.openapi.schemas import Schema, Schemas
from a2a_gateway.routing.annotations import Route, captured
from a2a_gateway.routing.template import Template, Variable, Wild

_LITERAL = "-._~!$&'()+,;=:@"


class Path(NamedTuple):
    text: str
    """`/v1/shelves/{parent}/books`."""
    parameters: list[dict[str, Any]]


def path_of(route: Route, schemas: Schemas) -> Path:
    """Write a template so that every wildcard is a parameter of its own.

    A parameter of OpenAPI cannot hold a slash, so that `{name=shelves/*/books/*}` becomes two: `{name1}`, `{name2}`.
    """
    template = route.template
    parameters = {at: _parameter(route, at, schemas) for at, it in enumerate(template.segments) if isinstance(it, Wild)}
    parts = [
        f"{{{parameters[at]['name']}}}" if isinstance(segment, Wild) else quote(segment, _LITERAL)
        for at, segment in enumerate(template.segments)
    ]
    suffix = f":{quote(template.suffix, _LITERAL)}" if template.suffix else ""
    return Path(f"/{'/'.join(parts)}{suffix}", list(parameters.values()))


def _parameter(route: Route, at: int, schemas: Schemas) -> dict[str, Any]:
    schema: Schema = {"type": "string", "minLength": 1}
    parameter = {"name": f"any{at + 1}", "in": "path", "required": True, "schema": schema}
    if route.template.segments[at] is Wild.REST:
        parameter |= {
            "schema": {"type": "string"},
            "description": "All that follows; slashes in it are sent as they are, which OpenAPI cannot express.",
        }
    variable = next((it for it in route.template.variables if at in _wildcards(route.template, it)), None)
    if variable is None:
        return parameter
    place, wildcards = captured(route)[variable.path], _wildcards(route.template, variable)
    number = str(wildcards.index(at) + 1) if len(wildcards) > 1 else ""
    if variable.single:
        described = schemas.of_field(place.field)
        parameter["schema"] = schema if described == {"type": "string"} else described
    return {**parameter, "name": place.name + number}


def _wildcards(template: Template, variable: Variable) -> list[int]:
    segments = range(len(template.segments))[variable.start : variable.stop]
    return [at for at in segments if isinstance(template.segments[at], Wild)]
