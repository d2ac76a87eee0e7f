"""The order of lists, kept sorted, so that neither a page nor a total looks at all tasks (spec: LIST-05, LIST-11)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import islice

from a2a_server.domain.paging import Position, TaskFilter
from a2a_server.domain.scope import Scope
from a2a_server.ports.store import Head

_Place = tuple[int, str]
_Filter = tuple[Scope | None, str, int]


class TaskIndex:
    """One ascending list of (status time, task id) per combination of filters; a list is read from its end."""

    def __init__(self) -> None:
        self._lists: dict[_Filter, list[_Place]] = {}

    def put(self, scope: Scope, task_id: str, old: Head | None, new: Head) -> None:
        """Move a task to where its new head belongs."""
        if old is not None:
            if (old.status_ms, old.state, old.context_id) == (new.status_ms, new.state, new.context_id):
                return
            place = old.status_ms, task_id
            for key in _filters(scope, old):
                places = self._lists[key]
                del places[bisect_left(places, place)]
                if not places:
                    del self._lists[key]
        place = new.status_ms, task_id
        for key in _filters(scope, new):
            insort(self._lists.setdefault(key, []), place)

    def page(self, scope: Scope, wanted: TaskFilter, after: Position | None, limit: int) -> tuple[Sequence[str], int]:
        """Ids of one page, and the number of tasks on all pages."""
        places = self._lists.get((scope, wanted.context_id, wanted.state), [])
        start = 0 if wanted.since_ms is None else bisect_left(places, (wanted.since_ms, ""))
        end = len(places) if after is None else bisect_left(places, (after.status_ms, after.task_id))
        page = places[max(start, end - limit) : end]
        return [task_id for _, task_id in reversed(page)], len(places) - start

    def has_context(self, scope: Scope, context_id: str) -> bool:
        return (scope, context_id, 0) in self._lists

    def before(self, state: int, before_ms: int) -> Iterator[str]:
        """Ids of everybody's tasks in a state since before a time, oldest first."""
        places = self._lists.get((None, "", state), [])
        return (task_id for _, task_id in islice(places, bisect_left(places, (before_ms, ""))))


def _filters(scope: Scope, head: Head) -> set[_Filter]:
    """Every filter that a task passes. An empty context or state means no filter, also when the task's own is empty."""
    context, state = head.context_id, head.state
    return {(scope, "", 0), (scope, "", state), (scope, context, 0), (scope, context, state), (None, "", state)}
