"""What the server keeps is in the store that was plugged in, and nowhere else (spec: RECV-01)."""

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.store import Store
from tests.support.house import MemoryStore
from tests.support.stage import Stage, texts
from tests.support.world import refused, say, serving

HOOK = "https://example.com/hook"


@pytest.mark.req("RECV-01")
async def test_another_server_finds_all_in_the_same_store_and_nothing_in_another(store: Store) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        asked = await world.send(say("a car", skill="ask"))
        await world.stub.CreateTaskPushNotificationConfig(
            pb.TaskPushNotificationConfig(task_id=asked.id, id="c", url=HOOK)
        )
        await world.send(say("red", task_id=asked.id))
        task = await world.get(asked.id)
        assert (texts(task), len(task.history)) == (["red it is"], 3)

    one = pb.GetTaskPushNotificationConfigRequest(task_id=task.id, id="c")
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        assert await world.get(task.id) == task
        assert [found.id for found in (await world.stub.ListTasks(pb.ListTasksRequest())).tasks] == [task.id]
        assert (await world.stub.GetTaskPushNotificationConfig(one)).url == HOOK

    async with serving(Stage().agent, store=MemoryStore(), push_notifications=True) as world:
        assert (await refused(world.get(task.id))).reason == "TASK_NOT_FOUND"
        assert not (await world.stub.ListTasks(pb.ListTasksRequest())).tasks
        assert (await refused(world.stub.GetTaskPushNotificationConfig(one))).code.name == "NOT_FOUND"
