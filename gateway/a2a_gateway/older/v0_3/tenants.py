"""0.3 says a tenant by the path, and nowhere else (spec: TENA-03, CONF-50)."""

from __future__ import annotations

from typing import Final

from a2a_gateway.calls import Query
from a2a_server.protocol.errors import Violation, refuse

_NAME: Final = "tenant"


def without_tenant(query: Query, tenant: str) -> Query:
    """What else a query says; one that names another tenant than the path is refused.

    To ignore it would be to make the call in somebody else's space.
    """
    said = [text for name, text in query if name == _NAME]
    if not said:
        return query
    if any(text not in {"", tenant} for text in said):
        refuse([Violation(_NAME, "is A2A 1.0's in the query; 0.3 has it in the path, as in /{tenant}/v1/tasks")])
    return [(name, text) for name, text in query if name != _NAME]
