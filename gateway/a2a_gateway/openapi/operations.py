"""Describes each route as an operation: its parameters, body and answers (spec: DOOR-03, MEDI, ERRS-02)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final

from aiohttp import hdrs
from google.protobuf.descriptor import MethodDescriptor

from a2a_gateway.openapi.parameters import query_of
from a2a_gateway.openapi.schemas import Schema, Schemas
from a2a_gateway.requests.media_types import LINE_TYPES
from a2a_gateway.routing.annotations import Route, captured, is_public
from a2a_gateway.routing.table import Table
from a2a_gateway.upstream import is_read
from a2a_server.protocol.codec.dialect import is_required
from a2a_server.protocol.errors import ErrorCodes, Reason
from a2a_server.protocol.names import (
    A2A_JSON,
    CHALLENGE_HEADER,
    CURSOR_HEADER,
    CURSOR_PARAMETER,
    EXTENSIONS_HEADER,
    JSON,
    NDJSON,
    SSE,
    VERSION_HEADER,
)


def _object(**members: Schema) -> Schema:
    """Return the schema of an object whose members are all required."""
    return {"type": "object", "required": [*members], "properties": members}


def parameter(name: str, place: str, description: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "in": place, "description": description, "schema": schema}


_TEXT: Final[Schema] = {"type": "string"}
ERROR: Final = _object(
    error=_object(
        code={"type": "integer", "description": "The HTTP status."},
        status={"type": "string", "description": "The name of the gRPC status."},
        message=_TEXT,
        details={"type": "array", "items": _object(**{"@type": _TEXT})},
    )
)
_ERROR_LINE: Final = _object(
    code={"type": "integer", "description": "The number of the gRPC status."},
    message=_TEXT,
    details={"type": "array", "items": {"type": "object"}},
)

_ID: Final[Schema] = {"type": "string", "pattern": "^[0-9]{1,18}$"}
PARAMETERS: Final = {
    described["name"]: described
    for described in (
        parameter(
            VERSION_HEADER,
            "header",
            "The version of the protocol that the request follows.",
            {"type": "string", "enum": ["1.0"]},
        ),
        parameter(EXTENSIONS_HEADER, "header", "URIs of the extensions to activate, with commas between them.", _TEXT),
        parameter(
            CURSOR_HEADER, "header", "The id of the last event that was seen: the stream continues behind it.", _ID
        ),
        parameter(CURSOR_PARAMETER, "query", "The same as Last-Event-ID, for clients that cannot send headers.", _ID),
    )
}
"""The parameters that are not fields of a request."""
CURSORS: Final = (CURSOR_HEADER, CURSOR_PARAMETER)
"""The parameters by which a client resumes a stream."""

_FOREIGN = (HTTPStatus.CONFLICT, HTTPStatus.NOT_IMPLEMENTED)
"""Statuses that no error of a2ad has, but that errors of other servers behind the gateway may have."""

_ANSWER_HEADERS = {
    HTTPStatus.UNAUTHORIZED: CHALLENGE_HEADER,
    HTTPStatus.METHOD_NOT_ALLOWED: hdrs.ALLOW,
    HTTPStatus.TOO_MANY_REQUESTS: hdrs.RETRY_AFTER,
    HTTPStatus.SERVICE_UNAVAILABLE: hdrs.RETRY_AFTER,
}


def named_operations(table: Table, prefix: str = "") -> Iterator[tuple[str, Route]]:
    """Name operations as grpc-gateway does: `Service_Method`, and further bindings `Service_Method2` and so on."""
    seen: Counter[str] = Counter()
    for route in table.routes:
        name = f"{prefix or route.method.containing_service.name}_{route.method.name}"
        seen[name] += 1
        yield f"{name}{seen[name]}" if seen[name] > 1 else name, route


def references(*names: str) -> list[dict[str, str]]:
    return [{"$ref": f"#/components/parameters/{name}"} for name in names]


def resumes(method: MethodDescriptor) -> bool:
    return method.server_streaming and is_read(method)


def error_responses(codes: ErrorCodes) -> dict[str, Any]:
    """Return a response for every status that an error can have. Operations refer to them."""
    statuses = {HTTPStatus(reason.http(codes)) for reason in Reason}.union(_FOREIGN)
    return {str(status.value): error_response(status) for status in sorted(statuses)}


def error_response(status: HTTPStatus) -> dict[str, Any]:
    refusal = {"description": status.phrase, "content": _json({"$ref": "#/components/schemas/Error"})}
    header = _ANSWER_HEADERS.get(status)
    return {**refusal, "headers": {str(header): {"schema": _TEXT}}} if header else refusal


def operation_of(
    route: Route, in_path: Sequence[dict[str, Any]], schemas: Schemas, codes: ErrorCodes
) -> dict[str, Any]:
    method = route.method
    beside = references(VERSION_HEADER, EXTENSIONS_HEADER, *(CURSORS if resumes(method) else ()))
    operation: dict[str, Any] = {
        "tags": [method.containing_service.name],
        "summary": method.name,
        "parameters": [*in_path, *query_of(route, schemas), *beside],
        "responses": _responses(route, schemas, codes),
    }
    if route.body:
        operation["requestBody"] = _request_body(route, schemas)
    if method.GetOptions().deprecated:
        operation["deprecated"] = True
    if is_public(method):
        operation["security"] = []
    return operation


def _request_body(route: Route, schemas: Schemas) -> dict[str, Any]:
    kind, streams = route.method.input_type, route.method.client_streaming
    if route.body != "*":
        field = kind.fields_by_name[route.body]
        schema = schemas.of_field(field)
        return _lines_of(schema) if streams else {"required": is_required(field), "content": _json(schema)}
    said = {path for path in captured(route) if "." not in path}
    required = any(is_required(field) and field.name not in said for field in kind.fields)
    # Fields that the path gives may be left out of the body (REST-04).
    schema = schemas.of_members(kind, optional=said) if said else schemas.of_message(kind)
    return _lines_of(schema) if streams else {"required": required, "content": _json(schema)}


def _lines_of(schema: Schema) -> dict[str, Any]:
    """Describe each message of a stream of requests."""
    lines = {"schema": _text("Each line is one message; the stream of them ends with the body.", schema)}
    return {"required": True, "content": dict.fromkeys(LINE_TYPES, lines)}


def _responses(route: Route, schemas: Schemas, codes: ErrorCodes) -> dict[str, Any]:
    method, kind, member = route.method, route.method.output_type, route.response_body
    schema = schemas.of_field(kind.fields_by_name[member]) if member else schemas.of_message(kind)
    responses: dict[str, Any] = {"200": {"description": "OK", "content": _json(schema)}}
    if method.server_streaming:
        responses["200"] = {"description": "A stream of events", "content": stream_content(schema)}
    if is_public(method):
        responses["200"]["content"] = {JSON: {"schema": schema}}
        responses["304"] = {"description": "The card is the one that If-None-Match names."}
    return responses | {status: {"$ref": f"#/components/responses/{status}"} for status in error_responses(codes)}


def _json(schema: Schema) -> dict[str, Any]:
    return {A2A_JSON: {"schema": schema}, JSON: {"schema": schema}}


def stream_content(schema: Schema) -> dict[str, Any]:
    """Describe the events of a stream. In OpenAPI the whole stream is a string."""
    line = {"oneOf": [_object(result=schema), _object(error=_ERROR_LINE)]}
    return {
        SSE: {"schema": _text("Each `data` is one object.", schema)},
        NDJSON: {"schema": _text("Each line is one object; only the last one can hold an error.", line)},
    }


def _text(description: str, schema: Schema) -> Schema:
    return {"type": "string", "description": description, "contentMediaType": JSON, "contentSchema": schema}
