"""Lists of tasks: keyset pages with exact totals (spec: LIST-05, LIST-06, LIST-11)."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.sqlite.schema import queries
from a2a_server.adapters.sqlite.tasks import whole
from a2a_server.domain.scope import Scope
from a2a_server.ports.store import TaskPage, TaskQuery

_SQL = queries("lists.sql")

_Shelf = tuple[int, int, int, bytes | None]
"""What a task's artifacts are made of, as the query says it."""

_FIRST, _LAST = -(2**63), 2**63 - 1
"""The smallest and the greatest integer in SQLite."""


def page(connection: sqlite3.Connection, query: TaskQuery) -> TaskPage:
    """One page, and the total at the same moment."""
    bounds = _bounds(query)
    connection.execute("BEGIN")
    try:
        total = connection.execute(_SQL[_total_of(query)], bounds).fetchone()[0]
        tasks, more = _fitting(connection, query, connection.execute(_SQL[_page_of(query)], bounds))
    finally:
        connection.rollback()  # there is nothing to commit
    return TaskPage(tasks, total, more)


def _fitting(connection: sqlite3.Connection, query: TaskQuery, rows: sqlite3.Cursor) -> tuple[list[pb.Task], bool]:
    """The tasks that the page has room for, and whether any are left. What is left is not read."""
    tasks: list[pb.Task] = []
    room, artifacts, read = query.max_bytes, query.include_artifacts, pb.Task.FromString
    for key, head in rows:
        room -= len(head)
        if artifacts:
            shelf = connection.execute(_SQL["shelf"], (key,)).fetchone()
            room -= shelf[2]
            if shelf[0] < shelf[1]:  # the task is being written
                room -= connection.execute(_SQL["tail_size"], (key, shelf[0])).fetchone()[0]
        if room < 0 and tasks:
            return tasks, True
        tasks.append(_with_artifacts(connection, key, head, shelf) if artifacts else read(head))
    return tasks[: query.limit], len(tasks) > query.limit


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


def _with_artifacts(connection: sqlite3.Connection, key: int, head: bytes, shelf: _Shelf) -> pb.Task:
    shelved, number, _, artifacts = shelf
    if artifacts is None:
        (artifacts,) = connection.execute(_SQL["artifacts"], (key,)).fetchone()
    return whole(connection, head, artifacts, (key, shelved, number))


def waiting_since(
    connection: sqlite3.Connection, state: int, before_ms: int, limit: int
) -> Sequence[tuple[Scope, str]]:
    """Tasks in an interrupted state since before a time. Other states are not in this index."""
    rows = connection.execute(_SQL["waiting_since"], (state, before_ms, limit))
    return [(Scope(tenant, owner), task_id) for tenant, owner, task_id in rows]
