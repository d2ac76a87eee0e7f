"""Sealed rows that somebody has changed: nothing of them is shown, and the operator reads why (spec: SECR-03)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import structlog

from a2a_proto import a2a_pb2 as pb
from tests.support.house import SealedContent, SqliteStore
from tests.support.stage import Stage
from tests.support.world import refused, say, serving


@pytest.mark.req("SECR-03")
async def test_a_task_with_anothers_content_is_an_internal_error(tmp_path: Path) -> None:
    path = tmp_path / "a2a.db"
    async with serving(Stage().agent, store=SqliteStore(path, SealedContent([bytes(32)]))) as world:
        one, two = await world.send(say("mine", skill="ask")), await world.send(say("other", skill="ask"))
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(
                "UPDATE tasks SET head = (SELECT head FROM tasks WHERE id = ?) WHERE id = ?", (two.id, one.id)
            )
        with structlog.testing.capture_logs() as logs:
            for call in (
                world.get(one.id),
                world.stub.ListTasks(pb.ListTasksRequest()),
                world.send(say("go on", task_id=one.id)),
                world.stub.CancelTask(pb.CancelTaskRequest(id=one.id)),
                world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=one.id)).read(),
            ):
                refusal = await refused(call)
                assert (refusal.reason, refusal.message) == ("INTERNAL", "Internal error.")
                assert refusal.metadata["incident"] in str(logs)
        told = [line for line in logs if line["event"] == "store.damaged"]
        assert len(told) == 5
        assert {line["why"] for line in told} == {
            f"the head  anonymous {one.id} in the store is damaged, or in the wrong place"
        }
        assert (await world.get(two.id)).history[0].parts[0].text == "other"


@pytest.mark.not_through("grpc", why="there replay is an extension that is off")
@pytest.mark.req("SECR-03")
async def test_a_damaged_event_is_not_replayed(tmp_path: Path) -> None:
    path = tmp_path / "a2a.db"
    async with serving(Stage().agent, store=SqliteStore(path, SealedContent([bytes(32)]))) as world:
        task = await world.send(say("mine", skill="ask"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE events SET wire = CAST(substr(wire, 1, 60) || x'0000' AS BLOB)")
    async with serving(Stage().agent, store=SqliteStore(path, SealedContent([bytes(32)]))) as world:
        assert (await world.get(task.id)).id == task.id
        with structlog.testing.capture_logs() as logs:
            call = world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task.id), metadata=(("last-event-id", "1"),))
            refusal = await refused(call.read())
        assert refusal.reason == "INTERNAL", (refusal, logs)
