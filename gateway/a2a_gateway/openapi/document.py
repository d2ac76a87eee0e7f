"""The document as a whole: paths, components, and how to authenticate (spec: DOOR-03)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from a2a_gateway.openapi.operations import ERROR, operation_of, parameters, refusals
from a2a_gateway.openapi.paths import Path, path_of
from a2a_gateway.openapi.schemas import Schemas
from a2a_gateway.openapi.security import requirements_of, schemes_of
from a2a_gateway.routing.annotations import Route
from a2a_gateway.routing.table import Table
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import ErrorCodes

_VERBS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})
_OTHER: Final = "x-additional-operations"
"""For custom verbs and `*`, of which OpenAPI knows nothing before 3.2."""


_UNTOLD: Final = {
    "title": "A2A",
    "version": "1.0",
    "description": "The agent does not tell its card here: its name is unknown, and how callers prove who they are.",
}

Addition = Callable[[dict[str, Any], Schemas], None]
"""Adds to a document what other versions serve."""


def document(
    table: Table,
    *,
    card: pb.AgentCard | None = None,
    server: str = "",
    codes: ErrorCodes = "1.0.1",
    more: Iterable[Addition] = (),
) -> dict[str, Any]:
    """Describe all routes of a table, as the agent of the card, if it has told one, serves them at a URL."""
    schemas = Schemas(Error=ERROR)
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": _UNTOLD if card is None else _info(card),
        "paths": _paths(table, schemas, codes),
        "components": {
            "schemas": schemas.components,
            "parameters": parameters(),
            "responses": refusals(codes),
        },
    }
    if card is not None:
        described["components"]["securitySchemes"] = schemes_of(card)
        described["security"] = requirements_of(card)
    if server:
        described["servers"] = [{"url": server}]
    for add in more:
        add(described, schemas)
    return described


def _info(card: pb.AgentCard) -> dict[str, str]:
    return {"title": card.name or "A2A", "version": card.version or "1.0", "description": card.description}


def _paths(table: Table, schemas: Schemas, codes: ErrorCodes) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    # Paths that differ in the names of their parameters only are the same to OpenAPI: the first one's names are used.
    shapes: dict[object, Path] = {}
    for name, route in _named(table):
        template = route.template
        path = shapes.setdefault((template.segments, template.suffix), path_of(route, schemas))
        operation = {"operationId": name, **operation_of(route, path.parameters, schemas, codes)}
        operations = paths.setdefault(path.text, {})
        if route.verb in _VERBS:
            operations[route.verb.lower()] = operation
        else:
            operations.setdefault(_OTHER, {})[route.verb] = operation
    return paths


def _named(table: Table) -> Iterator[tuple[str, Route]]:
    """Name operations as grpc-gateway does: `Service_Method`, and further bindings `Service_Method2` and so on."""
    seen: dict[str, int] = {}
    for route in table.routes:
        name = f"{route.method.containing_service.name}_{route.method.name}"
        seen[name] = seen.get(name, 0) + 1
        yield f"{name}{seen[name]}" if seen[name] > 1 else name, route
