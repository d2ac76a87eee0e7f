"""How much of each owner is stored: counted by the statements that change it (spec: LIMT-02, KEPT-01).

1. Head, log, artifacts and agent state of a task are counted with its state. Its fence says how much that is, so that
   the same is taken off when the task is in another state, or gone. Chunks wait there for the task's next change.
2. Push configs and values of contexts are counted with the state 0. Their rows say how much longer they have become.
3. Counts are spread over parts, as numbers of tasks are: see `writes.sql`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from a2a_server.adapters.postgres.database import Database
from a2a_server.adapters.postgres.schema import queries
from a2a_server.domain.scope import Scope
from a2a_server.domain.slots import place_of
from a2a_server.ports.retention import Holdings

if TYPE_CHECKING:
    from a2a_server.adapters.postgres.database import Connection

_SQL = queries("holdings.sql")


async def grow(connection: Connection, task: tuple[int, str], part: int, growth: int) -> None:
    """Count what push configs of a task, and values of its context, have grown. The last step of a transaction."""
    if growth:
        await connection.execute(_SQL["grow"], *task, part, growth)


async def held(database: Database, owner: str, tenant: str) -> Holdings:
    if tenant:
        rows = await database.fetch(_SQL["held_in_tenant"], *place_of(Scope(tenant, owner)))
    else:
        rows = await database.fetch(_SQL["held"], owner)
    return Holdings(*rows[0])
