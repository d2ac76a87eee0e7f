"""How many push configs one task may have: each of them is owed every event (spec: PUSH-05, LIMT-01)."""

from __future__ import annotations

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.scope import Scope
from a2a_server.ports.push import PushConfig
from a2a_server.ports.store import Store
from a2a_server.protocol.errors import A2AError, Reason, task_not_found

MOST_CONFIGS = 100


async def find_twin(store: Store, scope: Scope, config: pb.TaskPushNotificationConfig) -> PushConfig | None:
    """The config that this one would replace; refuses one too many."""
    hooks = await store.configs(scope, config.task_id, "", MOST_CONFIGS)
    if hooks is None:
        raise task_not_found(config.task_id)
    twin = next((hook for hook in hooks if hook.config.id == config.id), None)
    if twin is None and len(hooks) == MOST_CONFIGS:
        text = f"The task has {MOST_CONFIGS} push configs, which is the most it may have. Delete one first."
        raise A2AError(Reason.OVERLOADED, text, metadata={"taskId": config.task_id})
    return twin
