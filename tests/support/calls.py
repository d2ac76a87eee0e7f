"""One call of every operation, for rules that hold for all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, cast

from a2a_proto import a2a_pb2 as pb
from tests.support.world import say

URL = "https://example.com/hook"
STREAMS = frozenset({"SendStreamingMessage", "SubscribeToTask"})

SOON: dict[str, Any] = {"return_immediately": True}
"""The configuration of a send that does not wait."""

Calls = dict[str, Callable[[], Awaitable[Any]]]


def key(value: str = "k") -> tuple[tuple[str, str], ...]:
    """Call metadata that makes a send idempotent."""
    return (("idempotency-key", value),)


class HasStub(Protocol):
    """A client of a server."""

    @property
    def stub(self) -> Any: ...


def every_call(world: HasStub, task_id: str = "t", *, metadata: Any = None, tenant: str = "") -> Calls:
    """By the names of the RPCs, to be made by calling them; a stream is read up to its first item."""
    config = {"tenant": tenant, "task_id": task_id, "id": "c"}
    requests: dict[str, Any] = {
        "SendMessage": say(tenant=tenant),
        "SendStreamingMessage": say(tenant=tenant),
        "GetTask": pb.GetTaskRequest(tenant=tenant, id=task_id),
        "ListTasks": pb.ListTasksRequest(tenant=tenant),
        "CancelTask": pb.CancelTaskRequest(tenant=tenant, id=task_id),
        "SubscribeToTask": pb.SubscribeToTaskRequest(tenant=tenant, id=task_id),
        "CreateTaskPushNotificationConfig": pb.TaskPushNotificationConfig(
            tenant=tenant, task_id=task_id, id="c", url=URL
        ),
        "GetTaskPushNotificationConfig": pb.GetTaskPushNotificationConfigRequest(**config),
        "ListTaskPushNotificationConfigs": pb.ListTaskPushNotificationConfigsRequest(tenant=tenant, task_id=task_id),
        "DeleteTaskPushNotificationConfig": pb.DeleteTaskPushNotificationConfigRequest(**config),
        "GetExtendedAgentCard": pb.GetExtendedAgentCardRequest(tenant=tenant),
    }

    def call(rpc: str) -> Awaitable[Any]:
        made = getattr(world.stub, rpc)(requests[rpc], metadata=metadata)
        return cast("Awaitable[Any]", made.read() if rpc in STREAMS else made)

    return {rpc: partial(call, rpc) for rpc in requests}
