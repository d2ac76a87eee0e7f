"""REST's routes of the draft: those of 1.0, each with /v1 and without (spec: DRFT-01, CONF-12, CONF-50)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from a2a_gateway.routing.annotations import ALIASES, Route, routes_of
from a2a_gateway.routing.table import Table
from a2a_gateway.routing.template import parse
from a2a_proto import a2a_pb2, discovery_pb2

A2A: Final = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
DISCOVERY: Final = discovery_pb2.DESCRIPTOR.services_by_name["Discovery"]

VERSION: Final = "/v1"
_TENANT: Final = "/{tenant}"


def table() -> Table:
    """Paths begin behind the one where the draft is served."""
    return Table([*(spelt for route in routes_of(A2A) for spelt in _spellings(route)), *routes_of(DISCOVERY)], ALIASES)


def _spellings(route: Route) -> Iterator[Route]:
    """The version stands behind the tenant."""
    text = route.template.text
    tenant = _TENANT if text.startswith(f"{_TENANT}/") else ""
    yield replace(route, template=parse(f"{tenant}{VERSION}{text.removeprefix(tenant)}"))
    yield route
