"""Describes the REST routes as an OpenAPI 3.1 document, made from the descriptors (spec: DOOR-03).

1. `document` takes the route table and the agent's card, and puts the document together.
2. `operations` describes each route: request body, answers, errors, and the headers that every call accepts.
3. `parameters` adds the fields that the path and the query can set.
4. `schemas` describes every message type that these refer to.
5. `security` describes how callers authenticate, as the card says.
"""

from a2a_gateway.openapi.document import document

__all__ = ["document"]
