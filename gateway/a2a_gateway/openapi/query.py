"""The fields of a request that a query may name, as parameters of OpenAPI (spec: QPAR-01, DOOR-03)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from a2a_gateway.openapi.schemas import Schemas, is_required
from a2a_gateway.routing.annotations import Route, captured
from a2a_gateway.routing.parameters import UnfitError, find, is_map, is_well_known
from a2a_server.protocol.names import JSON

Parameter = dict[str, Any]


def query_of(route: Route, schemas: Schemas) -> Iterator[Parameter]:
    """Yield what neither the path says nor the body.

    Beside a whole message as the body that is nothing: fields in the query are understood there, but no way to go.
    """
    if route.body != "*":
        taken = {place.path for place in captured(route).values()}
        kind = route.method.input_type
        fields = [field for field in kind.fields if field.name != route.body]
        yield from _parameters(fields, (), taken, (kind,), schemas)


def _parameters(
    fields: Collection[FieldDescriptor],
    prefix: tuple[str, ...],
    taken: Collection[tuple[str, ...]],
    outer: tuple[Descriptor, ...],
    schemas: Schemas,
) -> Iterator[Parameter]:
    for field in fields:
        path = (*prefix, field.json_name)
        kind = field.message_type
        if path in taken or kind in outer:
            continue
        if kind is not None and not field.is_repeated and not is_well_known(kind):
            yield from _parameters(kind.fields, path, taken, (*outer, kind), schemas)
        elif _has_text(outer[-1], field):
            yield _parameter(field, path, schemas)


def _has_text(kind: Descriptor, field: FieldDescriptor) -> bool:
    try:
        return find(kind, f"{field.name}[]" if is_map(field) else field.name) is not None
    except UnfitError:
        return False


def _parameter(field: FieldDescriptor, path: tuple[str, ...], schemas: Schemas) -> Parameter:
    parameter: Parameter = {"name": ".".join(path), "in": "query"}
    schema = schemas.of_field(field)
    if is_map(field):
        return {**parameter, "style": "deepObject", "explode": True, "schema": schema}
    if field.message_type is not None and schema.get("type", "object") in {"object", "array"} and not field.is_repeated:
        return {**parameter, "content": {JSON: {"schema": schema}}}
    if is_required(field) and len(path) == 1:
        parameter["required"] = True
    return {**parameter, "schema": schema}
