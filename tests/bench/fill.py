"""Finished echo tasks by the thousand, put into a store without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.authenticator import ANONYMOUS
from a2a_server.ports.records import Entry, TaskHead, Write
from tests.bench.requests import TEXT, message
from tests.support.house import (
    Ids,
    PostgresOptions,
    PostgresStore,
    Scope,
    SqliteStore,
    apply_status,
    artifact_event,
    status_event,
    text_part,
)

_FIRST_MS = 1_700_000_000_000
_GROUP = 1_000


def stories(count: int) -> Iterator[tuple[list[pb.StreamResponse], int]]:
    """The events of each task, and when it ended: a millisecond after the one before."""
    ids, said = Ids(), message("echo").message
    for number in range(count):
        task_id, context_id, at = ids.new_task(Scope("", ANONYMOUS)), ids.new(), _FIRST_MS + number
        submitted = status_event(task_id, context_id, pb.TASK_STATE_SUBMITTED, at).status_update.status
        task = pb.Task(id=task_id, context_id=context_id, status=submitted, history=[said])
        task.history[0].task_id, task.history[0].context_id = task_id, context_id
        echo = pb.Artifact(artifact_id="1-1", name="echo", parts=[text_part(TEXT)])
        events = [
            pb.StreamResponse(task=task),
            status_event(task_id, context_id, pb.TASK_STATE_WORKING, at),
            artifact_event(task_id, context_id, echo, last_chunk=True),
            status_event(task_id, context_id, pb.TASK_STATE_COMPLETED, at),
        ]
        yield events, at


def finished(count: int) -> Iterator[pb.Task]:
    """The tasks as they stand at their end."""
    for (first, _, artifact, last), _ in stories(count):
        task = first.task
        task.artifacts.append(artifact.artifact_update.artifact)
        apply_status(task, last.status_update.status)
        yield task


def fill(place: str | Path, count: int) -> None:
    """Write tasks into a new SQLite file, or a PostgreSQL database, as the server would have done."""
    asyncio.run(_fill(place, count))


async def _fill(place: str | Path, count: int) -> None:
    store = SqliteStore(place) if isinstance(place, Path) else PostgresStore(PostgresOptions(dsn=place))
    writes = _writes(count)
    await store.open()
    while group := list(islice(writes, _GROUP)):
        await asyncio.gather(*map(store.commit, group))
    await store.close()


def _writes(count: int) -> Iterator[Write]:
    for events, at in stories(count):
        head = pb.Task()
        head.CopyFrom(events[0].task)
        apply_status(head, events[-1].status_update.status)
        shelf = pb.Task(artifacts=[events[2].artifact_update.artifact])
        yield Write(
            scope=Scope("", ANONYMOUS),
            task_id=head.id,
            expected=0,
            epoch=1,
            entries=[Entry.of(number, event) for number, event in enumerate(events, 1)],
            head=TaskHead(head.SerializeToString(), head.context_id, head.status.state, at),
            artifacts=shelf.SerializeToString(),
            claim="bench",
        )
