"""GetTask (spec: GET, IDEM-01)."""

from collections.abc import Awaitable, Callable

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.store import Store
from tests.support.stage import Stage, texts
from tests.support.world import refused, say, serving


@pytest.mark.req("GET-01")
async def test_a_task_is_told_with_status_artifacts_and_history(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        asked = await world.send(say("a car", skill="ask"))
        assert (await world.get(asked.id)).status.message.parts[0].text == "What colour?"

        await world.send(say("red", task_id=asked.id))
        task = await world.get(asked.id)

        assert task.status.state == pb.TASK_STATE_COMPLETED
        assert texts(task) == ["red it is"]
        assert [(m.role, m.parts[0].text) for m in task.history] == [
            (pb.ROLE_USER, "a car"),
            (pb.ROLE_AGENT, "What colour?"),
            (pb.ROLE_USER, "red"),
        ]


@pytest.mark.req("GET-01", "HIST-02", "HIST-03")
@pytest.mark.parametrize(("length", "expected"), [(0, []), (1, ["red"]), (2, ["What colour?", "red"]), (9, 3)])
async def test_history_is_cut_from_its_beginning(length: int, expected: list[str] | int) -> None:
    async with serving(Stage().agent) as world:
        asked = await world.send(say("a car", skill="ask"))
        await world.send(say("red", task_id=asked.id))

        task = await world.stub.GetTask(pb.GetTaskRequest(id=asked.id, history_length=length))

        said = [message.parts[0].text for message in task.history]
        assert said == expected or len(said) == expected
        assert texts(task) == ["red it is"]  # artifacts are no history


@pytest.mark.req("GET-02")
async def test_terminal_tasks_stay_readable(store: Store) -> None:
    async with serving(Stage().agent, store=store) as world:
        for skill in ("echo", "fail"):
            task = await world.send(say(skill=skill))
            assert await world.get(task.id) == task


@pytest.mark.req("GET-02", "ERRS-01", "ERRS-03")
@pytest.mark.parametrize(
    "task_id",
    [
        "nope",
        "a/b:c d",
        "Ünïcødé-🦊",
        "x" * 10_000,
        "tab\tand\x00null",
        "' OR 1=1 --",
        "../../etc/passwd",
    ],
)
async def test_what_cannot_be_found_is_told_in_one_way(store: Store, task_id: str) -> None:
    async with serving(Stage().agent, store=store) as world:
        refusal = await refused(world.get(task_id))

    assert (refusal.code.name, refusal.reason, refusal.domain) == ("NOT_FOUND", "TASK_NOT_FOUND", "a2a-protocol.org")
    assert refusal.message == "Task not found."
    assert set(refusal.metadata) == {"taskId"}
    assert len(refusal.metadata["taskId"]) <= 200
    assert not refusal.fields


@pytest.mark.req("GEN-04", "HIST-05", "ERRS-05")
@pytest.mark.not_through("rest", why="its paths cannot carry an empty id")
async def test_all_faults_are_named_at_once() -> None:
    async with serving(Stage().agent) as world:
        refusal = await refused(world.stub.GetTask(pb.GetTaskRequest(history_length=-1, tenant="a/b")))

    assert refusal.code.name == "INVALID_ARGUMENT"
    assert set(refusal.fields) == {"id", "history_length", "tenant"}


@pytest.mark.req("IDEM-01")
async def test_reading_changes_nothing(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store, push_notifications=True) as world:
        task = await world.send(say(skill="ask"))
        config = await world.stub.CreateTaskPushNotificationConfig(
            pb.TaskPushNotificationConfig(task_id=task.id, url="https://example.com/")
        )
        which = pb.GetTaskPushNotificationConfigRequest(task_id=task.id, id=config.id)
        listing = pb.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        reads: list[Callable[[], Awaitable[object]]] = [
            lambda: world.get(task.id),
            lambda: world.stub.GetTask(pb.GetTaskRequest(id=task.id, history_length=0)),
            lambda: world.stub.ListTasks(pb.ListTasksRequest(include_artifacts=True)),
            lambda: world.stub.GetTaskPushNotificationConfig(which),
            lambda: world.stub.ListTaskPushNotificationConfigs(listing),
        ]

        first = [await read() for read in reads]

        assert [await read() for read in reads] == first
        assert first[0] == task
        assert len(stage.turns) == 1
