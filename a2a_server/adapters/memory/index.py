"""The order of lists, kept sorted, so that neither a page nor a total looks at all tasks (spec: LIST-05, LIST-11)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice

from a2a_server.adapters.memory.places import Filter, Place, filters, insert, remove
from a2a_server.domain.lifecycle import INTERRUPTED
from a2a_server.domain.paging import Position, TaskFilter
from a2a_server.domain.scope import Scope
from a2a_server.ports.kept import Head


class TaskIndex:
    """One ascending list of (status time, task id) per combination of filters; a list is read from its end."""

    def __init__(self) -> None:
        self._scopes: dict[Scope, dict[Filter, list[Place]]] = {}
        self._waiting: dict[int, list[Place]] = {}
        """Everybody's tasks in each interrupted state; nobody waits in another."""

    def put(self, scope: Scope, task_id: str, old: Head | None, new: Head) -> None:
        """Move a task to where its new head belongs."""
        lists = self._scopes.get(scope)
        if lists is None:
            lists = self._scopes[scope] = {}
        if old is not None:
            if (old.status_ms, old.state, old.context_id) == (new.status_ms, new.state, new.context_id):
                return
            place = old.status_ms, task_id
            for key in filters(old):
                remove(lists, key, place)
            if old.state in INTERRUPTED:
                remove(self._waiting, old.state, place)
        place = new.status_ms, task_id
        insert(lists, filters(new), place)
        if new.state in INTERRUPTED:
            insert(self._waiting, (new.state,), place)

    def page(self, scope: Scope, wanted: TaskFilter, after: Position | None, limit: int) -> tuple[Sequence[str], int]:
        """Ids of one page, and the number of tasks on all pages."""
        places = self._scopes.get(scope, {}).get((wanted.context_id, wanted.state), [])
        start = 0 if wanted.since_ms is None else bisect_left(places, (wanted.since_ms, ""))
        end = len(places) if after is None else bisect_left(places, (after.status_ms, after.task_id))
        page = places[max(start, end - limit) : end]
        return [task_id for _, task_id in reversed(page)], len(places) - start

    def has_context(self, scope: Scope, context_id: str) -> bool:
        return (context_id, 0) in self._scopes.get(scope, {})

    def before(self, state: int, before_ms: int) -> Iterator[str]:
        """Ids of everybody's tasks in an interrupted state since before a time, oldest first."""
        places = self._waiting.get(state, [])
        return (task_id for _, task_id in islice(places, bisect_left(places, (before_ms, ""))))
