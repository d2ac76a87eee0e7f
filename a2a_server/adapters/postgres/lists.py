"""Lists of tasks: keyset pages with exact totals; and what a context holds (spec: LIST-05, LIST-11, AGNT-06)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.postgres.database import Database
from a2a_server.adapters.postgres.schema import queries
from a2a_server.adapters.postgres.tasks import Shelf, whole
from a2a_server.domain.events import last_messages
from a2a_server.domain.scope import Scope
from a2a_server.domain.slots import place_of
from a2a_server.ports.agent import ContextMemory
from a2a_server.ports.records import ARTIFACT
from a2a_server.ports.sealing import ContentSealing, context_place, head_place
from a2a_server.ports.store import ContextQuery, TaskPage, TaskQuery

if TYPE_CHECKING:
    from a2a_server.adapters.postgres.database import Connection, Rows

_SQL = queries("lists.sql")

_FIRST, _LAST = -(2**63), 2**63 - 1
_MOST_ROOM: Final = 2**62


async def page(database: Database, query: TaskQuery, sealing: ContentSealing) -> TaskPage:
    """One page, and the total at the same moment."""
    slot, scope = place_of(query.scope)
    wanted, after = query.filter, query.after
    since_ms = _FIRST if wanted.since_ms is None else wanted.since_ms
    end = (_LAST, "") if after is None else (after.status_ms, after.task_id)

    async def work(connection: Connection) -> TaskPage:
        if wanted.context_id:
            filters: Sequence[object] = (wanted.state, wanted.context_id)
            name = "page_of_context"
        else:
            filters, name = ((wanted.state,), "page_of_state") if wanted.state else ((), "page")
        room = min(query.max_bytes, _MOST_ROOM)
        bounds = since_ms, *end, query.limit + 1, room, *filters
        total = await _total(connection, query, since_ms)
        rows = await connection.fetch(_SQL[name], slot, scope, *bounds)
        tasks, more = await _fitting(connection, rows, query, sealing, artifacts=query.include_artifacts)
        return TaskPage(tasks, total, more)

    return await database.transaction(work, isolation="repeatable_read")


async def _total(connection: Connection, query: TaskQuery, since_ms: int) -> int:
    wanted, place = query.filter, place_of(query.scope)
    if wanted.context_id:
        found = await connection.fetchval(_SQL["count_of_context"], *place, since_ms, wanted.state, wanted.context_id)
    elif wanted.since_ms is None:
        found = await connection.fetchval(
            *((_SQL["total_of_state"], *place, wanted.state) if wanted.state else (_SQL["total"], *place))
        )
    elif wanted.state:
        found = await connection.fetchval(_SQL["count_of_state"], *place, since_ms, wanted.state)
    else:
        found = await connection.fetchval(_SQL["count"], *place, since_ms)
    return int(found)


async def _fitting(
    connection: Connection,
    rows: Rows,
    query: TaskQuery | ContextQuery,
    sealing: ContentSealing,
    *,
    artifacts: bool,
) -> tuple[list[pb.Task], bool]:
    """The tasks that there is room for, and whether any are left. What is left is not read."""
    slot, room = place_of(query.scope).slot, query.max_bytes
    sizes: Mapping[str, int] = {}
    if artifacts:
        found = await connection.fetch(_SQL["sizes"], slot, [row["task"] for row in rows])
        sizes = {row["task"]: row["size"] for row in found}
    heads: dict[str, bytes] = {}
    for task_id, size, head in rows:
        room -= size + sizes.get(task_id, 0)
        if len(heads) == query.limit or (heads and (room < 0 or head is None)):
            break
        heads[task_id] = head
    shelves: Mapping[str, Shelf] = {}
    if artifacts:
        found = await connection.fetch(_SQL["shelves"], slot, list(heads), ARTIFACT)
        shelves = {task_id: Shelf(*shelf) for task_id, *shelf in found}
    tasks = [
        whole(task_id, sealing.open(head, head_place(query.scope, task_id)), shelves.get(task_id, Shelf()), sealing)
        for task_id, head in heads.items()
    ]
    return tasks, len(heads) < len(rows)


async def context(database: Database, query: ContextQuery, sealing: ContentSealing) -> ContextMemory:
    """Messages and state are read now, because the agent asks for them without waiting; artifacts when it asks."""
    tasks = await _newest(database, query, sealing)
    rows = await database.fetch(_SQL["state_of_context"], *place_of(query.scope), query.context_id)
    named = {bytes(name).decode(): value for name, value in rows}
    places = {name: context_place(query.scope, query.context_id, name) for name in named}
    state = {name: sealing.open(value, places[name]) for name, value in named.items()}
    said = last_messages(tasks, query.limit, query.max_bytes)
    return ContextMemory(lambda: said, partial(_newest, database, query, sealing, artifacts=True), lambda: state)


async def _newest(
    database: Database, query: ContextQuery, sealing: ContentSealing, *, artifacts: bool = False
) -> Sequence[pb.Task]:
    """The newest tasks of a context, newest last."""
    slot, scope = place_of(query.scope)
    room = min(query.max_bytes, _MOST_ROOM)

    async def work(connection: Connection) -> Sequence[pb.Task]:
        values = slot, scope, query.context_id, query.without, query.limit, room
        rows = await connection.fetch(_SQL["newest_of_context"], *values)
        return (await _fitting(connection, rows, query, sealing, artifacts=artifacts))[0][::-1]

    return await database.transaction(work, isolation="repeatable_read")


class WaitingTask(NamedTuple):
    """A task in an interrupted state, and since when."""

    since_ms: int
    scope: Scope
    task_id: str


async def waiting_since(database: Database, state: int, before_ms: int, limit: int) -> Sequence[WaitingTask]:
    """Tasks in an interrupted state since before a time, oldest first. Other states are not in this index."""
    rows = await database.fetch(_SQL["waiting_since"], state, before_ms, limit)
    return [WaitingTask(since_ms, Scope(tenant, owner), task_id) for since_ms, tenant, owner, task_id in rows]
