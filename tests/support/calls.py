"""One call of every operation, for rules that hold for all of them."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from generated import a2a_pb2 as pb
from tests.support.world import World, say

URL = "https://example.com/hook"


def every_call(
    world: World, task_id: str = "t", *, metadata: Any = None, tenant: str = ""
) -> dict[str, Awaitable[Any]]:
    """By the names of the RPCs; a stream is read up to its first item."""
    stub = world.stub

    def ask(rpc: str, request: Any) -> Any:
        return getattr(stub, rpc)(request, metadata=metadata)

    config = {"tenant": tenant, "task_id": task_id, "id": "c"}
    return {
        "SendMessage": ask("SendMessage", say(tenant=tenant)),
        "SendStreamingMessage": ask("SendStreamingMessage", say(tenant=tenant)).read(),
        "GetTask": ask("GetTask", pb.GetTaskRequest(tenant=tenant, id=task_id)),
        "ListTasks": ask("ListTasks", pb.ListTasksRequest(tenant=tenant)),
        "CancelTask": ask("CancelTask", pb.CancelTaskRequest(tenant=tenant, id=task_id)),
        "SubscribeToTask": ask("SubscribeToTask", pb.SubscribeToTaskRequest(tenant=tenant, id=task_id)).read(),
        "CreateTaskPushNotificationConfig": ask(
            "CreateTaskPushNotificationConfig",
            pb.TaskPushNotificationConfig(tenant=tenant, task_id=task_id, id="c", url=URL),
        ),
        "GetTaskPushNotificationConfig": ask(
            "GetTaskPushNotificationConfig", pb.GetTaskPushNotificationConfigRequest(**config)
        ),
        "ListTaskPushNotificationConfigs": ask(
            "ListTaskPushNotificationConfigs", pb.ListTaskPushNotificationConfigsRequest(tenant=tenant, task_id=task_id)
        ),
        "DeleteTaskPushNotificationConfig": ask(
            "DeleteTaskPushNotificationConfig", pb.DeleteTaskPushNotificationConfigRequest(**config)
        ),
        "GetExtendedAgentCard": ask("GetExtendedAgentCard", pb.GetExtendedAgentCardRequest(tenant=tenant)),
    }
