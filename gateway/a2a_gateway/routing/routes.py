"""The table of all REST routes, and which of them a request means (spec: REST-01, REST-02, REST-03, REST-07)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from google.protobuf.descriptor import ServiceDescriptor

from a2a_gateway.routing.annotations import Route, RouteError, routes_of
from a2a_gateway.routing.template import Template, Wild, begins, decode, decode_between_slashes
from a2a_gateway.routing.trie import ANY, Node, Search, Verbs
from a2a_server.protocol.errors import A2AError, Violation, refuse

__all__ = ["ALIASES", "NOTHING", "Alias", "Match", "Route", "RouteError", "Table", "Unknown", "WrongVerb", "wildcards"]


@dataclass(frozen=True, slots=True)
class Alias:
    """A verb that the annotations leave out: routes of `verb` with the suffix answer `also` too."""

    suffix: str
    verb: str
    also: str
    body: str


NOTHING: Final = "There is nothing at this path."

_USUAL: Final = frozenset({"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"})
"""What `*` is told as; there is no word for all methods, and none at all would be read as none."""

ALIASES: Final = (Alias("subscribe", "GET", also="POST", body="*"),)
"""The one addition to the annotations: the tables of every version say POST, the protos GET (REST-03, CONF-12)."""


class Match(NamedTuple):
    route: Route
    captures: Mapping[str, str]
    """Field in proto spelling → what the path says, decoded."""


class Unknown(LookupError):  # noqa: N818 - an outcome of matching; the door makes it an answer
    """No route has this path; the text is meant for the client."""


class WrongVerb(LookupError):  # noqa: N818 - as Unknown
    """The path is served under other verbs; the text is meant for the client."""

    def __init__(self, allow: Sequence[str]) -> None:
        super().__init__(f"This path answers to {', '.join(allow)}.")
        self.allow = allow
        """What the header `Allow` should say."""


class Table:
    """All routes. The most specific one wins: segment by segment a literal is tried before `*`, and that before `**`.

    So the plain routes come before those that begin with a tenant (CONF-49). A path with a slash at its end is another
    path, as in every proto-derived API, and not served; the answer says so, because people expect otherwise.
    """

    __slots__ = ("_fixed", "_root", "routes")

    def __init__(self, routes: Iterable[Route], aliases: Iterable[Alias] = ()) -> None:
        self._root: Node[Route] = Node()
        self._fixed: dict[str, Verbs[Match]] = {}
        annotated = [self._add(route) for route in routes]
        also = [self._add(route) for alias in aliases for route in _aliased(alias, annotated, self._root)]
        self.routes: Sequence[Route] = (*annotated, *also)

    @classmethod
    def of(
        cls, services: Iterable[ServiceDescriptor], aliases: Iterable[Alias] = ALIASES, more: Iterable[Route] = ()
    ) -> Table:
        """Read the annotations of services; `more` are routes that no annotation has."""
        return cls([*(route for service in services for route in routes_of(service)), *more], aliases)

    def _add(self, route: Route) -> Route:
        template = route.template
        verbs = self._root.place(template)
        if (other := verbs.setdefault(route.verb, route)) is not route:
            raise RouteError(
                f"{route.method.full_name} and {other.method.full_name} both answer {route.verb} "
                f'"{template.text}" and "{other.template.text}", which match the same paths'
            )
        if not template.variables and all(isinstance(segment, str) for segment in template.segments):
            self._fixed.setdefault(template.text, {})[route.verb] = Match(route, {})
        return route

    def match(self, verb: str, raw_path: str) -> Match:
        """Find the route of a path that still has its percent-encoding, and no query.

        Raises `Unknown`, `WrongVerb`, or `A2AError` for an encoding that is none.
        """
        fixed = self._fixed.get(raw_path)
        if fixed is not None and (match := fixed.get(verb)) is not None:
            return match
        if not raw_path.startswith("/"):
            raise Unknown(NOTHING)
        segments = _segments(raw_path)
        search: Search[Route] = Search(verb, segments)
        route = search.run(self._root)
        if route is None:
            raise WrongVerb(_allow(search.missed)) if search.missed else Unknown(self._advice(raw_path))
        return Match(route, _captures(route.template, segments, raw_path))

    def verbs(self, raw_path: str) -> Sequence[str]:
        """What a path answers to; raises as `match` does where there is nothing."""
        search: Search[Route] = Search("", _segments(raw_path))
        search.run(self._root)
        if not search.missed:
            raise Unknown(self._advice(raw_path))
        return _allow(search.missed)

    def has(self, raw_path: str) -> bool:
        """Whether a path is served, under whatever verb."""
        try:
            return bool(self.routes and self.verbs(raw_path))
        except (Unknown, A2AError):
            return False

    def under(self, roots: Collection[tuple[str, ...]]) -> Table:
        """The routes that begin with the very words of one of these roots."""
        return Table(route for route in self.routes if any(begins(route.template, root) for root in roots))

    def _advice(self, raw_path: str) -> str:
        bare = raw_path.rstrip("/")
        search: Search[Route] = Search("", _segments(bare))
        if bare != raw_path and (search.run(self._root) or search.missed):
            return f"{NOTHING} Leave out the slash at its end."
        return NOTHING


def wildcards(template: Template, raw_path: str) -> Sequence[str]:
    """What a path that matches says where the template leaves it open, segment by segment, decoded entirely."""
    segments = _segments(raw_path)
    if template.suffix:
        segments[-1] = segments[-1][: -len(template.suffix) - 1]
    return [segments[at] for at, segment in enumerate(template.segments) if isinstance(segment, Wild)]


def _aliased(alias: Alias, annotated: Sequence[Route], root: Node[Route]) -> Iterator[Route]:
    """Yield the routes that an alias adds; an annotation for the same verb and path makes it needless."""
    for route in annotated:
        known = root.place(route.template)
        if (route.verb, route.template.suffix) == (alias.verb, alias.suffix) and alias.also not in known:
            yield replace(route, verb=alias.also, body=alias.body)


def _segments(raw_path: str) -> list[str]:
    """Return the decoded segments; the path `/` has none."""
    segments = raw_path.split("/")[1:] if raw_path != "/" else []
    if "%" not in raw_path and raw_path.isascii():
        return segments
    try:
        return [decode(segment) for segment in segments]
    except ValueError as error:
        refuse([Violation("path", str(error))])


def _captures(template: Template, segments: list[str], raw_path: str) -> dict[str, str]:
    kept = segments
    if "%" in raw_path and not all(variable.single for variable in template.variables):
        kept = [decode_between_slashes(segment) for segment in raw_path.split("/")[1:]]
    if template.suffix:
        cut = -len(template.suffix) - 1
        segments = [*segments[:-1], segments[-1][:cut]]
        kept = [*kept[:-1], kept[-1][:cut]]
    return {
        path: segments[start] if single else "/".join(kept[start:stop])
        for path, start, stop, single in template.variables
    }


def _allow(missed: Iterable[Verbs[Route]]) -> Sequence[str]:
    verbs = {verb for known in missed for verb in known} | {"OPTIONS"}
    if ANY in verbs:
        verbs = (verbs | _USUAL) - {ANY}
    return sorted(verbs | {"HEAD"} if "GET" in verbs else verbs)
