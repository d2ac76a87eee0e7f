"""What clients of 0.3 say over gRPC, and one call of every RPC they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from a2a_proto import a2a_v0_3_pb2 as v03
from tests.support.calls import URL, Calls
from tests.support.world import World

STREAMS = frozenset({"SendStreamingMessage", "TaskSubscription"})
RPCS = (
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "CancelTask",
    "TaskSubscription",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfig",
    "DeleteTaskPushNotificationConfig",
    "GetAgentCard",
)
NOW: Mapping[str, Any] = {"blocking": False}


def tell(
    text: str = "hello", *, skill: str = "", task_id: str = "", context_id: str = "", **kwargs: Any
) -> v03.SendMessageRequest:
    """A user's message that waits for its answer; further members of SendMessageRequest as keywords."""
    message = v03.Message(
        message_id=kwargs.pop("message_id", "m-1"),
        role=v03.ROLE_USER,
        content=kwargs.pop("content", None) or [v03.Part(text=text)],
        task_id=task_id,
        context_id=context_id,
    )
    configuration = v03.SendMessageConfiguration(**{"blocking": True, **kwargs.pop("configuration", {})})
    request = v03.SendMessageRequest(request=message, configuration=configuration, **kwargs)
    if skill:
        request.metadata["skill"] = skill
    return request


async def send(world: World, request: v03.SendMessageRequest, **kwargs: Any) -> v03.Task:
    """A send that must be answered with a task."""
    response = await world.old.SendMessage(request, **kwargs)
    assert response.WhichOneof("payload") == "task", response
    task: v03.Task = response.task
    return task


async def stream(world: World, request: v03.SendMessageRequest, **kwargs: Any) -> list[v03.StreamResponse]:
    """All items of a stream, to its end."""
    return [item async for item in world.old.SendStreamingMessage(request, **kwargs)]


async def subscribe(world: World, task_id: str, **kwargs: Any) -> list[v03.StreamResponse]:
    request = v03.TaskSubscriptionRequest(name=f"tasks/{task_id}")
    return [item async for item in world.old.TaskSubscription(request, **kwargs)]


async def get(world: World, task_id: str, **kwargs: Any) -> v03.Task:
    task: v03.Task = await world.old.GetTask(v03.GetTaskRequest(name=f"tasks/{task_id}"), **kwargs)
    return task


def kinds(items: Sequence[v03.StreamResponse]) -> list[str]:
    """What a stream consisted of: payload names, statuses by their state, with an exclamation mark when final."""
    return [
        v03.TaskState.Name(item.status_update.status.state).removeprefix("TASK_STATE_") + "!" * item.status_update.final
        if item.HasField("status_update")
        else str(item.WhichOneof("payload"))
        for item in items
    ]


def texts(task: v03.Task) -> list[str]:
    """The texts of a task's artifacts."""
    return [part.text for artifact in task.artifacts for part in artifact.parts]


def every_old_call(world: World, task_id: str = "t", *, metadata: Any = None) -> Calls:
    """By the names of the RPCs, to be made by calling them; a stream is read up to its first item."""
    task, config = f"tasks/{task_id}", f"tasks/{task_id}/pushNotificationConfigs/c"
    hook = v03.TaskPushNotificationConfig(
        name=config, push_notification_config=v03.PushNotificationConfig(id="c", url=URL)
    )
    requests: dict[str, Any] = {
        "SendMessage": tell(),
        "SendStreamingMessage": tell(),
        "GetTask": v03.GetTaskRequest(name=task),
        "CancelTask": v03.CancelTaskRequest(name=task),
        "TaskSubscription": v03.TaskSubscriptionRequest(name=task),
        "CreateTaskPushNotificationConfig": v03.CreateTaskPushNotificationConfigRequest(
            parent=task, config_id="c", config=hook
        ),
        "GetTaskPushNotificationConfig": v03.GetTaskPushNotificationConfigRequest(name=config),
        "ListTaskPushNotificationConfig": v03.ListTaskPushNotificationConfigRequest(parent=task),
        "DeleteTaskPushNotificationConfig": v03.DeleteTaskPushNotificationConfigRequest(name=config),
        "GetAgentCard": v03.GetAgentCardRequest(),
    }

    def call(rpc: str) -> Any:
        made = getattr(world.old, rpc)(requests[rpc], metadata=metadata)
        return cast("Any", made.read() if rpc in STREAMS else made)

    return {rpc: partial(call, rpc) for rpc in requests}
