"""Lists of tasks: keyset pages with exact totals (spec: LIST-05, LIST-06, LIST-11)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.sqlite.schema import queries
from a2a_server.adapters.sqlite.tasks import Tail, whole
from a2a_server.domain.scope import Scope
from a2a_server.ports.sealing import ContentSealing, artifacts_place, context_place, head_place
from a2a_server.ports.store import ContextQuery, TaskPage, TaskQuery

_SQL = queries("lists.sql")

_FIRST, _LAST = -(2**63), 2**63 - 1
"""The smallest and the greatest integer in SQLite."""


def page(connection: sqlite3.Connection, query: TaskQuery, sealing: ContentSealing) -> TaskPage:
    """One page, and the total at the same moment."""
    bounds = _bounds(query)
    connection.execute("BEGIN")
    try:
        total = connection.execute(_SQL[_total_of(query)], bounds).fetchone()[0]
        rows = connection.execute(_SQL[_page_of(query)], bounds)
        tasks, more = _fitting(connection, rows, query, sealing, artifacts=query.include_artifacts)
    finally:
        connection.rollback()  # there is nothing to commit
    return TaskPage(tasks, total, more)


def newest(
    connection: sqlite3.Connection, query: ContextQuery, sealing: ContentSealing, *, artifacts: bool = False
) -> Sequence[pb.Task]:
    """The newest tasks of a context, newest last."""
    place = {"tenant": query.scope.tenant, "owner": query.scope.owner, "context_id": query.context_id}
    rows = connection.execute(_SQL["newest_of_context"], {**place, "without": query.without, "limit": query.limit})
    return _fitting(connection, _by_creation(rows), query, sealing, artifacts=artifacts)[0][::-1]


def _by_creation(rows: Iterable[tuple[int, str, bytes, int]]) -> Iterator[tuple[int, str, bytes]]:
    """Tasks with the same status time in the order of their creation: their ids are in none."""
    for _, same in groupby(rows, itemgetter(3)):
        for key, task_id, head, _ in sorted(same, reverse=True):
            yield key, task_id, head


def state_of_context(
    connection: sqlite3.Connection, query: ContextQuery, sealing: ContentSealing
) -> Mapping[str, bytes]:
    scope, context = query.scope, query.context_id
    rows = connection.execute(_SQL["state_of_context"], (scope.tenant, scope.owner, context))
    return {name: sealing.open(value, context_place(scope, context, name)) for name, value in rows}


def _fitting(
    connection: sqlite3.Connection,
    rows: Iterable[tuple[int, str, bytes]],
    query: TaskQuery | ContextQuery,
    sealing: ContentSealing,
    *,
    artifacts: bool,
) -> tuple[list[pb.Task], bool]:
    """The tasks that there is room for, and whether any are left. What is left is not read."""
    tasks: list[pb.Task] = []
    room, limit = query.max_bytes, query.limit
    for key, task_id, head in rows:
        room -= len(head)
        if artifacts:
            shelf = connection.execute(_SQL["shelf"], (key,)).fetchone()
            room -= shelf[2]
            if shelf[0] < shelf[1]:  # the task is being written
                room -= connection.execute(_SQL["tail_size"], (key, shelf[0])).fetchone()[0]
        if room < 0 and tasks:
            return tasks, True
        opened = sealing.open(head, head_place(query.scope, task_id))
        if artifacts:
            tail = key, task_id, shelf[0], shelf[1]
            tasks.append(_with_artifacts(connection, opened, shelf[3], tail, sealing))
        else:
            tasks.append(pb.Task.FromString(opened))
    return tasks[:limit], len(tasks) > limit


def _bounds(query: TaskQuery) -> Mapping[str, str | int]:
    wanted, after = query.filter, query.after
    return {
        "tenant": query.scope.tenant,
        "owner": query.scope.owner,
        "context_id": wanted.context_id,
        "state": wanted.state,
        "since_ms": _FIRST if wanted.since_ms is None else wanted.since_ms,
        "after_ms": _LAST if after is None else after.status_ms,
        "after_id": "" if after is None else after.task_id,
        "limit": query.limit + 1,  # to know whether there are more
    }


def _page_of(query: TaskQuery) -> str:
    if query.filter.context_id:
        return "page_of_context"
    return "page_of_state" if query.filter.state else "page"


def _total_of(query: TaskQuery) -> str:
    if query.filter.context_id:
        return "count_of_context"
    if query.filter.since_ms is None:
        return "total"
    return "count_of_state" if query.filter.state else "count"


def _with_artifacts(
    connection: sqlite3.Connection, head: bytes, artifacts: bytes | None, tail: Tail, sealing: ContentSealing
) -> pb.Task:
    key, task_id, *_ = tail
    if artifacts is None:
        (artifacts,) = connection.execute(_SQL["artifacts"], (key,)).fetchone()
    return whole(connection, head + sealing.open(artifacts or b"", artifacts_place(task_id)), tail, sealing)


def waiting_since(
    connection: sqlite3.Connection, state: int, before_ms: int, limit: int
) -> Sequence[tuple[Scope, str]]:
    """Tasks in an interrupted state since before a time. Other states are not in this index."""
    rows = connection.execute(_SQL["waiting_since"], (state, before_ms, limit))
    return [(Scope(tenant, owner), task_id) for tenant, owner, task_id in rows]
