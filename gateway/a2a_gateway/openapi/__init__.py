"""The REST routes as an OpenAPI 3.1 document, made from the descriptors (spec: DOOR-03)."""

from a2a_gateway.openapi.document import document

__all__ = ["document"]
