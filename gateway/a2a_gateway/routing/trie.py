"""Which route a path means: the most specific one, whatever the order of registration (spec: REST-07, CONF-49)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from a2a_gateway.routing.template import Template, Wild

T = TypeVar("T")

Verbs = dict[str, T]
"""What is found at one place, by HTTP method; `*` takes any of `METHODS`."""

ANY: Final = "*"
METHODS: Final = frozenset(
    (
        *("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT", "QUERY", "SEARCH", "TRACE"),
        *("ACL", "BIND", "CHECKOUT", "COPY", "LINK", "LOCK", "M-SEARCH", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL"),
        *("MOVE", "NOTIFY", "PROPFIND", "PROPPATCH", "PURGE", "REBIND", "REPORT", "SOURCE", "SUBSCRIBE", "UNBIND"),
        *("UNLINK", "UNLOCK", "UNSUBSCRIBE"),
    )
)
"""All methods that aiohttp's parser reads, but for CONNECT and OPTIONS, which are about more than what is at a path."""


class Node(Generic[T]):
    """A place in the tree of segments. Tried in this order: a literal, `*`, `**`."""

    __slots__ = ("here", "literals", "one", "rest")

    def __init__(self) -> None:
        self.literals: dict[str, Node[T]] = {}
        self.one: Node[T] | None = None
        self.here: dict[str, Verbs[T]] = {}
        """What ends here, by suffix; the empty suffix is none."""
        self.rest: dict[str, Verbs[T]] = {}
        """What takes all that follows, by suffix."""

    def place(self, template: Template) -> Verbs[T]:
        """Return what is known of a template's shape, to be added to."""
        node, ends = self, self.here
        for segment in template.segments:
            if segment is Wild.REST:
                ends = node.rest
                break
            node = node._child(segment)
            ends = node.here
        return ends.setdefault(template.suffix, {})

    def _child(self, segment: str | Wild) -> Node[T]:
        if isinstance(segment, str):
            return self.literals.setdefault(segment, Node())
        if self.one is None:
            self.one = Node()
        return self.one


class Search(Generic[T]):
    """One walk for one path and verb.

    The last segment `x:cancel` may be an id or the id `x` with a suffix. It is the latter wherever a route of the same
    segments has that suffix, under any verb: `GET /tasks/x:cancel` is told to use POST instead of being told that there
    is no such task. Elsewhere a colon is part of an id, as in `/tasks/urn:7`.
    """

    __slots__ = ("_head", "_last", "_segments", "_tail", "_verb", "_whole", "missed")

    def __init__(self, verb: str, segments: list[str]) -> None:
        """Search for decoded segments; no segment at all is the path `/`."""
        self._verb = verb
        self._segments = segments
        self._last = len(segments) - 1
        self._whole = segments[-1] if segments else ""
        self._head, _, self._tail = self._whole.rpartition(":")
        self.missed: list[Verbs[T]] = []
        """What the path means under other verbs."""

    def run(self, root: Node[T]) -> T | None:
        return self._walk(root, 0) if self._segments else self._end(root, "")

    def _walk(self, node: Node[T], at: int) -> T | None:
        """Go on from a node with the segment at a position; no node is visited twice."""
        segment = self._segments[at]
        found: T | None = None
        if at == self._last:
            return self._walk_last(node)
        if child := node.literals.get(segment):
            found = self._walk(child, at + 1)
        if found is None and node.one is not None and segment:
            found = self._walk(node.one, at + 1)
        if found is None and node.rest:
            found = self._take(node.rest, self._suffix(node.rest))
        return found

    def _walk_last(self, node: Node[T]) -> T | None:
        found: T | None = None
        if child := node.literals.get(self._whole):
            found = self._end(child, "")
        if found is None and self._tail and (child := node.literals.get(self._head)):
            found = self._end(child, self._tail)
        if found is None and node.one is not None:
            found = self._end_wild(node.one)
        if found is None and node.rest:
            found = self._take(node.rest, self._suffix(node.rest))
        return found

    def _end(self, node: Node[T], suffix: str) -> T | None:
        """All segments are used up, and a literal has decided which suffix there is."""
        found = self._take(node.here, suffix)
        return self._take(node.rest, suffix) if found is None and node.rest else found

    def _end_wild(self, node: Node[T]) -> T | None:
        found: T | None = None
        for ends in (node.here, node.rest):
            suffix = self._suffix(ends)
            if found is None and (self._head if suffix else self._whole):
                found = self._take(ends, suffix)
        return found

    def _suffix(self, ends: Mapping[str, Verbs[T]]) -> str:
        return self._tail if self._tail in ends else ""

    def _take(self, ends: Mapping[str, Verbs[T]], suffix: str) -> T | None:
        verbs = ends.get(suffix)
        if verbs is None:
            return None
        found = verbs.get(self._verb)
        if found is None and self._verb == "HEAD":  # GET without the body
            found = verbs.get("GET")
        if found is None and self._verb in METHODS:
            found = verbs.get(ANY)
        if found is None:
            self.missed.append(verbs)
        return found
