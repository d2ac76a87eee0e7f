"""Paths that a service and the gateway itself both want: found when a gateway is made, never by a request (CONF-49)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from a2a_gateway.routing.annotations import Route, RouteError
from a2a_gateway.routing.template import Template, begins, meet, parse

Root = tuple[str, ...]
"""The words that a path begins with."""


class Area(NamedTuple):
    """What is served under a root, beside the services."""

    name: str
    root: Root
    templates: Sequence[Template]


def check(routes: Iterable[Route], pages: Collection[str], areas: Collection[Area]) -> None:
    """Refuse a route that says a path itself, in words, where something else would answer in its stead."""
    for route in routes:
        if route.template.text in pages:
            raise _refusal(route, "the gateway itself answers there")
        for area in areas:
            if begins(route.template, area.root) and (other := _met(route.template, area)) is not None:
                raise _refusal(route, f'{area.name} is served at "{other.text}"; move one, or do without the other')


def old_areas(routes: Collection[Route], roots: Iterable[Root]) -> Iterator[Area]:
    """What 0.3 has at each root: its paths, behind what stands before the last word."""
    for *before, last in roots:
        templates = [replace(it.template, segments=(*before, *it.template.segments)) for it in routes]
        yield Area("A2A 0.3", (*before, last), templates)


def draft_area(path: str) -> Area:
    """All paths under one."""
    template = parse(f"{path}/**")
    return Area("the draft", tuple(path.split("/")[1:]), [template])


def _met(template: Template, area: Area) -> Template | None:
    return next((other for other in area.templates if meet(template, other)), None)


def _refusal(route: Route, reason: str) -> RouteError:
    return RouteError(f'{route.method.full_name} cannot have {route.verb} "{route.template.text}": {reason}')
