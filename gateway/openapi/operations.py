"""One operation per route: what it takes, and every answer it can give (spec: DOOR-03, MEDI, ERRS-02)."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from a2a_server.errors import ErrorCodes, Reason
from gateway import accept
from gateway.annotations import Route, captured
from gateway.openapi.query import query_of
from gateway.openapi.schemas import Schema, Schemas, is_required

DISCOVERY: Final = "a2a_server.discovery.v1.Discovery"
"""The service that anybody may call; its answers are for caches."""

ERROR: Final[Schema] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "status", "message", "details"],
            "properties": {
                "code": {"type": "integer", "description": "The HTTP status."},
                "status": {"type": "string", "description": "The name of the gRPC status."},
                "message": {"type": "string"},
                "details": {
                    "type": "array",
                    "items": {"type": "object", "required": ["@type"], "properties": {"@type": {"type": "string"}}},
                },
            },
        }
    },
}

HEADERS: Final[dict[str, tuple[str, Schema]]] = {
    "A2A-Version": ("The version of the protocol that the request follows.", {"type": "string", "enum": ["1.0"]}),
    "A2A-Extensions": ("URIs of the extensions to activate, with commas between them.", {"type": "string"}),
    "Last-Event-ID": (
        "The id of the last event that was seen: the stream continues behind it.",
        {"type": "string", "pattern": "^[0-9]{1,18}$"},
    ),
}

_FOREIGN = (HTTPStatus.CONFLICT, HTTPStatus.NOT_IMPLEMENTED)
"""What no row of the catalogue says, but other people's servers behind the gateway may."""

_ANSWER_HEADERS = {
    HTTPStatus.UNAUTHORIZED: "WWW-Authenticate",
    HTTPStatus.METHOD_NOT_ALLOWED: "Allow",
    HTTPStatus.TOO_MANY_REQUESTS: "Retry-After",
    HTTPStatus.SERVICE_UNAVAILABLE: "Retry-After",
}


def parameters() -> dict[str, Any]:
    """The headers that every operation takes, to be referred to."""
    return {
        name: {"name": name, "in": "header", "description": description, "schema": schema}
        for name, (description, schema) in HEADERS.items()
    }


def refusals(codes: ErrorCodes) -> dict[str, Any]:
    """Every status that an error may have, to be referred to; the catalogue says which there are."""
    statuses = {HTTPStatus(reason.http(codes)) for reason in Reason}.union(_FOREIGN)
    return {str(status.value): refusal_with(status) for status in sorted(statuses)}


def refusal_with(status: HTTPStatus) -> dict[str, Any]:
    """An error with a status."""
    refusal: dict[str, Any] = {
        "description": status.phrase,
        "content": _json({"$ref": "#/components/schemas/Error"}),
    }
    if header := _ANSWER_HEADERS.get(status):
        refusal["headers"] = {header: {"schema": {"type": "string"}}}
    return refusal


def operation_of(
    route: Route, in_path: Sequence[dict[str, Any]], schemas: Schemas, codes: ErrorCodes
) -> dict[str, Any]:
    method = route.method
    names = ["A2A-Version", "A2A-Extensions"]
    if method.server_streaming and route.verb == "GET":  # what EventSource does
        names.append("Last-Event-ID")
    headers = [{"$ref": f"#/components/parameters/{name}"} for name in names]
    operation: dict[str, Any] = {
        "tags": [method.containing_service.name],
        "summary": method.name,
        "parameters": [*in_path, *query_of(route, schemas), *headers],
        "responses": _responses(route, schemas, codes),
    }
    if route.body:
        operation["requestBody"] = _request_body(route, schemas)
    if method.GetOptions().deprecated:
        operation["deprecated"] = True
    if method.containing_service.full_name == DISCOVERY:
        operation["security"] = []
    return operation


def _request_body(route: Route, schemas: Schemas) -> dict[str, Any]:
    kind = route.method.input_type
    if route.body != "*":
        field = kind.fields_by_name[route.body]
        return {"required": is_required(field), "content": _json(schemas.of_field(field))}
    said = {path for path in captured(route) if "." not in path}
    required = any(is_required(field) and field.name not in said for field in kind.fields)
    # What the path says may be left out of the body (REST-04).
    schema = schemas.of_members(kind, optional=said) if said else schemas.of_message(kind)
    return {"required": required, "content": _json(schema)}


def _responses(route: Route, schemas: Schemas, codes: ErrorCodes) -> dict[str, Any]:
    method = route.method
    kind = method.output_type
    schema = (
        schemas.of_field(kind.fields_by_name[route.response_body]) if route.response_body else schemas.of_message(kind)
    )
    responses: dict[str, Any] = {"200": {"description": "OK", "content": _json(schema)}}
    if method.server_streaming:
        responses["200"] = {"description": "A stream of events", "content": _stream(schema)}
    if method.containing_service.full_name == DISCOVERY:
        responses["200"]["content"] = {accept.JSON: {"schema": schema}}
        responses["304"] = {"description": "The card is the one that If-None-Match names."}
    return responses | {status: {"$ref": f"#/components/responses/{status}"} for status in refusals(codes)}


def _json(schema: Schema) -> dict[str, Any]:
    return {accept.A2A: {"schema": schema}, accept.JSON: {"schema": schema}}


def _stream(schema: Schema) -> dict[str, Any]:
    """Say what each event is; the stream as a whole is a text to OpenAPI."""
    described = {
        accept.SSE: "Each `data` is one object.",
        accept.NDJSON: "Each line is an object whose `result` is one object, or at the end one with `error`.",
    }
    return {
        media: {
            "schema": {
                "type": "string",
                "description": description,
                "contentMediaType": accept.JSON,
                "contentSchema": schema,
            }
        }
        for media, description in described.items()
    }
