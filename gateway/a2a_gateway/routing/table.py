"""The table of all REST routes; finds the route of a request (spec: REST-01, REST-02, REST-03, REST-07, CONF-49)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from google.protobuf.descriptor import ServiceDescriptor

from a2a_gateway.routing.annotations import ALIASES, ANY, METHODS, Alias, Route, RouteError, is_public, routes_of
from a2a_gateway.routing.template import Segment, Template, Wildcard, decode, decode_between_slashes, starts_with
from a2a_server.protocol.errors import A2AError, Violation, refuse

NOT_SERVED: Final = "There is nothing at this path."

_USUAL: Final = frozenset({"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"})
"""The verbs in `Allow` for a route that accepts every verb: the header has no value for "all"."""

Verbs = dict[str, Route]
"""The routes of one path, by HTTP method; `*` stands for any of `METHODS`."""


class Match(NamedTuple):
    route: Route
    captures: Mapping[str, str]
    """The decoded text that the path gives for each field; fields are named as in the proto."""


class UnknownPath(LookupError):  # noqa: N818 - a usual result of matching
    """No route has this path. The text is for the client."""


class WrongVerb(LookupError):  # noqa: N818 - as Unknown
    """The path is served under other verbs. The text is for the client."""

    def __init__(self, allow: Sequence[str]) -> None:
        super().__init__(f"This path answers to {', '.join(allow)}.")
        self.allow = allow
        """The value of the header `Allow`."""


class Table:
    """All routes. The most specific one wins: in each segment a literal is tried before `*`, and `*` before `**`.

    So plain routes come before those that begin with a tenant (CONF-49). A path with a slash at its end is another
    path, which is not served; the answer says to leave out the slash.
    """

    __slots__ = ("_fixed", "_root", "routes")

    def __init__(self, routes: Iterable[Route], aliases: Iterable[Alias] = ()) -> None:
        self._root = Node()
        self._fixed: dict[str, dict[str, Match]] = {}
        annotated = [self._add(route) for route in routes]
        also = [self._add(route) for alias in aliases for route in _aliased(alias, annotated, self._root)]
        self.routes: Sequence[Route] = (*annotated, *also)

    @classmethod
    def of(
        cls, services: Iterable[ServiceDescriptor], aliases: Iterable[Alias] = ALIASES, more: Iterable[Route] = ()
    ) -> Table:
        """Read the annotations of services; `more` are routes without an annotation."""
        return cls([*(route for service in services for route in routes_of(service)), *more], aliases)

    def _add(self, route: Route) -> Route:
        template = route.template
        verbs = self._root.routes_for(template)
        if (other := verbs.setdefault(route.verb, route)) is not route:
            raise RouteError(
                f"{route.method.full_name} and {other.method.full_name} both answer {route.verb} "
                f'"{template.text}" and "{other.template.text}", which match the same paths'
            )
        if not template.variables and all(isinstance(segment, str) for segment in template.segments):
            self._fixed.setdefault(template.text, {})[route.verb] = Match(route, {})
        return route

    def match(self, verb: str, raw_path: str) -> Match:
        """Find the route for a path that is still percent-encoded and has no query.

        Raises `UnknownPath`, `WrongVerb`, or `A2AError` when the encoding is broken.
        """
        fixed = self._fixed.get(raw_path)
        if fixed is not None and (match := fixed.get(verb)) is not None:
            return match
        if not raw_path.startswith("/"):
            raise UnknownPath(NOT_SERVED)
        segments = _segments(raw_path)
        search = Search(verb, segments)
        route = search.run(self._root)
        if route is None:
            raise WrongVerb(_allow(search.other_verbs)) if search.other_verbs else UnknownPath(self._advice(raw_path))
        return Match(route, _captures(route.template, segments, raw_path))

    def verbs(self, raw_path: str) -> Sequence[str]:
        """Return the verbs of a path; raises as `match` does when the path is not served."""
        if other_verbs := self._routes_at(raw_path):
            return _allow(other_verbs)
        raise UnknownPath(self._advice(raw_path))

    def has(self, raw_path: str) -> bool:
        try:
            return bool(self.routes and self.verbs(raw_path))
        except (UnknownPath, A2AError):
            return False

    def is_public(self, raw_path: str) -> bool:
        """Whether any web page may read the answers at a path (CONF-77)."""
        try:
            return is_public(self.match("GET", raw_path).route.method)
        except (LookupError, A2AError):
            return False

    def under(self, roots: Collection[tuple[Segment, ...]]) -> Table:
        """Return the routes that begin with one of these roots."""
        return Table(route for route in self.routes if any(starts_with(route.template, root) for root in roots))

    def _advice(self, raw_path: str) -> str:
        bare = raw_path.rstrip("/")
        slashed = bare != raw_path and self._routes_at(bare)
        return f"{NOT_SERVED} Leave out the slash at its end." if slashed else NOT_SERVED

    def _routes_at(self, raw_path: str) -> Sequence[Verbs]:
        """Return the routes of a path, for all verbs."""
        search = Search("", _segments(raw_path))
        search.run(self._root)
        return search.other_verbs


@dataclass(slots=True, eq=False)
class Node:
    """A node of the trie of segments. A search tries a literal first, then `*`, then `**`."""

    literals: dict[str, Node] = field(default_factory=dict)
    one: Node | None = None
    here: dict[str, Verbs] = field(default_factory=dict)
    """Routes that end here, by suffix; "" = no suffix."""
    rest: dict[str, Verbs] = field(default_factory=dict)
    """Routes whose `**` matches all segments from here on, by suffix."""

    def routes_for(self, template: Template) -> Verbs:
        """Return the routes of a template, which the caller may add to."""
        node, ends = self, self.here
        for segment in template.segments:
            if segment is Wildcard.REST:
                ends = node.rest
                break
            node = node._child(segment)
            ends = node.here
        return ends.setdefault(template.suffix, {})

    def _child(self, segment: str | Wildcard) -> Node:
        if isinstance(segment, str):
            return self.literals.setdefault(segment, Node())
        if self.one is None:
            self.one = Node()
        return self.one


class Search:
    """Finds the route for one path and verb.

    The last segment `x:cancel` may be an id, or the id `x` with a suffix. It has a suffix if a route with the same
    segments has that suffix, under any verb: `GET /tasks/x:cancel` is answered with "use POST", not with "no such
    task". Otherwise the colon is part of the id, as in `/tasks/urn:7`.
    """

    __slots__ = ("_begins_with_dot", "_head", "_last", "_segments", "_tail", "_verb", "_whole", "other_verbs")

    def __init__(self, verb: str, segments: list[str]) -> None:
        """Take decoded segments; the path `/` has none."""
        self._verb = verb
        self._segments = segments
        self._last = len(segments) - 1
        self._whole = segments[-1] if segments else ""
        self._head, _, self._tail = self._whole.rpartition(":")
        self._begins_with_dot = bool(segments) and segments[0].startswith(".")
        self.other_verbs: list[Verbs] = []
        """The routes that the path has under other verbs."""

    def run(self, root: Node) -> Route | None:
        return self._walk(root, 0) if self._segments else self._end(root, "")

    def _walk(self, node: Node, at: int) -> Route | None:
        """Search from a node on, with the segment at a position. No node is visited twice."""
        segment = self._segments[at]
        found: Route | None = None
        if at == self._last:
            return self._walk_last(node)
        if child := node.literals.get(segment):
            found = self._walk(child, at + 1)
        if found is None and node.one is not None and segment:
            found = self._walk(node.one, at + 1)
        if found is None and node.rest:
            found = self._take(node.rest, self._suffix(node.rest))
        return found

    def _walk_last(self, node: Node) -> Route | None:
        found: Route | None = None
        if child := node.literals.get(self._whole):
            found = self._end(child, "")
        if found is None and self._tail and (child := node.literals.get(self._head)):
            found = self._end(child, self._tail)
        if found is None and node.one is not None:
            found = self._end_at_wildcard(node.one)
        if found is None and node.rest:
            found = self._take(node.rest, self._suffix(node.rest))
        return found

    def _end(self, node: Node, suffix: str) -> Route | None:
        """Return the route that ends at a node reached by a literal. The literal has decided the suffix."""
        found = self._take(node.here, suffix)
        return self._take(node.rest, suffix) if found is None and node.rest else found

    def _end_at_wildcard(self, node: Node) -> Route | None:
        found: Route | None = None
        for ends in (node.here, node.rest):
            suffix = self._suffix(ends)
            if found is None and (self._head if suffix else self._whole):
                found = self._take(ends, suffix)
        return found

    def _suffix(self, ends: Mapping[str, Verbs]) -> str:
        return self._tail if self._tail in ends else ""

    def _take(self, ends: Mapping[str, Verbs], suffix: str) -> Route | None:
        verbs = ends.get(suffix)
        if verbs is None or (self._begins_with_dot and any(map(_begins_with_tenant, verbs.values()))):
            return None
        found = verbs.get(self._verb)
        if found is None and self._verb == "HEAD":  # GET without the body
            found = verbs.get("GET")
        if found is None and self._verb in METHODS:
            found = verbs.get(ANY)
        if found is None:
            self.other_verbs.append(verbs)
        return found


def _begins_with_tenant(route: Route) -> bool:
    """Whether the paths of a route begin with a tenant."""
    return any(variable.path == "tenant" and variable.start == 0 for variable in route.template.variables)


def wildcards(template: Template, raw_path: str) -> Sequence[str]:
    """Return the decoded segments of a matching path where the template has wildcards."""
    segments = _segments(raw_path)
    if template.suffix:
        segments[-1] = segments[-1][: -len(template.suffix) - 1]
    return [segments[at] for at, segment in enumerate(template.segments) if isinstance(segment, Wildcard)]


def _aliased(alias: Alias, annotated: Sequence[Route], root: Node) -> Iterator[Route]:
    """Yield the routes that an alias adds, unless an annotation has the same verb and path."""
    for route in annotated:
        known = root.routes_for(route.template)
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


def _allow(other_verbs: Iterable[Verbs]) -> Sequence[str]:
    verbs = {verb for known in other_verbs for verb in known} | {"OPTIONS"}
    if ANY in verbs:
        verbs = (verbs | _USUAL) - {ANY}
    return sorted(verbs | {"HEAD"} if "GET" in verbs else verbs)
