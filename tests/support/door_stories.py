"""Clients of both versions that do the same and tell the same, whatever their version calls it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from a2a_proto import a2a_pb2 as pb
from tests.support.door_old import OldClient, say
from tests.support.world import refused
from tests.support.world import say as say_in_1_0

URL = "https://hooks.example/a2a"
STATES = {pb.TaskState.Name(number): number for number in pb.TaskState.values()}


class Seen(NamedTuple):
    """What a client of any version can know of a task, but for its ids."""

    state: str
    question: str
    artifacts: list[str]
    history: list[tuple[str, str]]


class Client(Protocol):
    """The scenario's steps."""

    async def send(self, text: str, **more: str) -> tuple[str, Seen]: ...

    async def stream(self, text: str, **more: str) -> list[str]: ...

    async def get(self, task_id: str) -> Seen: ...

    async def cancel(self, task_id: str) -> Seen: ...

    async def watch(self, task_id: str) -> list[str]: ...

    async def hook(self, task_id: str, config_id: str) -> tuple[str, str]: ...

    async def hooks(self, task_id: str) -> list[str]: ...

    async def unhook(self, task_id: str, config_id: str) -> None: ...

    async def reason(self, step: str, task_id: str) -> str:
        """Why a step is refused."""
        ...


@dataclass
class Current:
    """A client of 1.0, through any door."""

    stub: Any

    async def send(self, text: str, **more: str) -> tuple[str, Seen]:
        task = (await self.stub.SendMessage(say_in_1_0(text, **more))).task
        return task.id, seen(task)

    async def stream(self, text: str, **more: str) -> list[str]:
        return [step(item) async for item in self.stub.SendStreamingMessage(say_in_1_0(text, **more))]

    async def get(self, task_id: str) -> Seen:
        return seen(await self.stub.GetTask(pb.GetTaskRequest(id=task_id)))

    async def cancel(self, task_id: str) -> Seen:
        return seen(await self.stub.CancelTask(pb.CancelTaskRequest(id=task_id)))

    async def watch(self, task_id: str) -> list[str]:
        return [step(item) async for item in self.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task_id))]

    async def hook(self, task_id: str, config_id: str) -> tuple[str, str]:
        config = pb.TaskPushNotificationConfig(task_id=task_id, id=config_id, url=URL)
        made = await self.stub.CreateTaskPushNotificationConfig(config)
        return made.id, made.url

    async def hooks(self, task_id: str) -> list[str]:
        wanted = pb.ListTaskPushNotificationConfigsRequest(task_id=task_id)
        return sorted(config.id for config in (await self.stub.ListTaskPushNotificationConfigs(wanted)).configs)

    async def unhook(self, task_id: str, config_id: str) -> None:
        wanted = pb.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        await self.stub.DeleteTaskPushNotificationConfig(wanted)

    async def reason(self, step: str, task_id: str) -> str:
        asked = self.send("x", task_id=task_id) if step == "send" else getattr(self, step)(task_id)
        return (await refused(asked)).reason


@dataclass
class ByMethod:
    """A client of 0.3 over JSON-RPC."""

    client: OldClient

    async def send(self, text: str, **more: str) -> tuple[str, Seen]:
        task = await self.client.call("message/send", say(text, **told(more)))
        return task["id"], old_seen(task)

    async def stream(self, text: str, **more: str) -> list[str]:
        return [old_step(event.data) for event in await self.client.stream("message/stream", say(text, **told(more)))]

    async def get(self, task_id: str) -> Seen:
        return old_seen(await self.client.call("tasks/get", {"id": task_id}))

    async def cancel(self, task_id: str) -> Seen:
        return old_seen(await self.client.call("tasks/cancel", {"id": task_id}))

    async def watch(self, task_id: str) -> list[str]:
        return [old_step(event.data) for event in await self.client.stream("tasks/resubscribe", {"id": task_id})]

    async def hook(self, task_id: str, config_id: str) -> tuple[str, str]:
        config = {"taskId": task_id, "pushNotificationConfig": {"id": config_id, "url": URL}}
        made = (await self.client.call("tasks/pushNotificationConfig/set", config))["pushNotificationConfig"]
        return made["id"], made["url"]

    async def hooks(self, task_id: str) -> list[str]:
        listed = await self.client.call("tasks/pushNotificationConfig/list", {"id": task_id})
        return sorted(config["pushNotificationConfig"]["id"] for config in listed)

    async def unhook(self, task_id: str, config_id: str) -> None:
        params = {"id": task_id, "pushNotificationConfigId": config_id}
        assert await self.client.call("tasks/pushNotificationConfig/delete", params) is None

    async def reason(self, step: str, task_id: str) -> str:
        method = {"get": "tasks/get", "cancel": "tasks/cancel", "watch": "tasks/resubscribe"}
        params: Any = {"id": task_id}
        if step == "send":
            return str((await self.client.fault("message/send", say("x", taskId=task_id)))["data"]["reason"])
        return str((await self.client.fault(method[step], params))["data"]["reason"])


@dataclass
class ByPath:
    """A client of 0.3 over REST, in either spelling."""

    client: OldClient
    words: Callable[..., dict[str, Any]]

    async def send(self, text: str, **more: str) -> tuple[str, Seen]:
        task = (await self.client.told("POST", "/v1/message:send", self.words(text, **told(more))))["task"]
        return task["id"], old_seen(task)

    async def stream(self, text: str, **more: str) -> list[str]:
        found = await self.client.watch("POST", "/v1/message:stream", self.words(text, **told(more)))
        return [old_step(next(iter(event.data.values()))) for event in found]

    async def get(self, task_id: str) -> Seen:
        return old_seen(await self.client.told("GET", f"/v1/tasks/{task_id}"))

    async def cancel(self, task_id: str) -> Seen:
        return old_seen(await self.client.told("POST", f"/v1/tasks/{task_id}:cancel"))

    async def watch(self, task_id: str) -> list[str]:
        found = await self.client.watch("GET", f"/v1/tasks/{task_id}:subscribe")
        return [old_step(next(iter(event.data.values()))) for event in found]

    async def hook(self, task_id: str, config_id: str) -> tuple[str, str]:
        body = {"pushNotificationConfig": {"url": URL}}
        path = f"/v1/tasks/{task_id}/pushNotificationConfigs?configId={config_id}"
        made = (await self.client.told("POST", path, body))["pushNotificationConfig"]
        return made["id"], made["url"]

    async def hooks(self, task_id: str) -> list[str]:
        listed = (await self.client.told("GET", f"/v1/tasks/{task_id}/pushNotificationConfigs")).get("configs", [])
        return sorted(config["pushNotificationConfig"]["id"] for config in listed)

    async def unhook(self, task_id: str, config_id: str) -> None:
        assert await self.client.told("DELETE", f"/v1/tasks/{task_id}/pushNotificationConfigs/{config_id}") == {}

    async def reason(self, step: str, task_id: str) -> str:
        path = f"/v1/tasks/{task_id}"
        asked: dict[str, tuple[Any, ...]] = {
            "get": ("GET", path),
            "cancel": ("POST", f"{path}:cancel"),
            "watch": ("GET", f"{path}:subscribe"),
            "send": ("POST", "/v1/message:send", self.words("x", taskId=task_id)),
        }
        return str((await self.client.refused(*asked[step]))["details"][0]["reason"])


def told(more: dict[str, str]) -> dict[str, Any]:
    names = {"task_id": "taskId", "context_id": "contextId"}
    return {names.get(name, name): value for name, value in more.items()}


def words(parts: Any) -> str:
    return " ".join(part.text for part in parts)


def seen(task: pb.Task) -> Seen:
    return Seen(
        pb.TaskState.Name(task.status.state),
        words(task.status.message.parts),
        [words(artifact.parts) for artifact in task.artifacts],
        [(pb.Role.Name(message.role), words(message.parts)) for message in task.history],
    )


def step(item: pb.StreamResponse) -> str:
    kind = str(item.WhichOneof("payload"))
    return pb.TaskState.Name(item.status_update.status.state) if kind == "status_update" else kind


def old_words(message: Any) -> str:
    return " ".join(part["text"] for part in message.get("parts") or message.get("content") or ())


def old_state(told: str) -> str:
    """The word of 1.0 for a state, in whichever spelling of 0.3."""
    name = "TASK_STATE_" + told.removeprefix("TASK_STATE_").upper().replace("-", "_").replace("CANCELLED", "CANCELED")
    assert name in STATES
    return name


def old_seen(task: Any) -> Seen:
    return Seen(
        old_state(task["status"]["state"]),
        old_words(task["status"].get("message", {})),
        [old_words(artifact) for artifact in task.get("artifacts", ())],
        [("ROLE_" + m["role"].removeprefix("ROLE_").upper(), old_words(m)) for m in task["history"]],
    )


def old_step(data: Any) -> str:
    if "status" in data and "final" in data:
        return old_state(data["status"]["state"])
    return "artifact_update" if "artifact" in data else "task" if "id" in data else "message"
