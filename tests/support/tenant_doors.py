"""Every way to call the agent of a tenant: bindings and versions, near and through a gateway of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import grpc
import orjson
from aiohttp import ClientSession
from google.protobuf import json_format

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from a2a_server.serve import Server, relaying
from a2a_server.settings import Settings
from tests.support.door_draft import say as draft_says
from tests.support.door_old import say as old_says

DRAFT: Mapping[str, Any] = {"profiles": ["draft"]}
URL = "https://hooks.example/a2a"

_NEAR = ("rest", "jsonrpc", "rest-0.3", "jsonrpc-0.3", "rest-draft", "jsonrpc-draft")
WAYS = ("grpc", *_NEAR, *(f"far-{way}" for way in _NEAR))


@dataclass(frozen=True)
class TenantDoor:
    """A client that goes one way. What it is told is the answer's text, whatever the form."""

    way: str
    base: str
    session: ClientSession
    channel: grpc.aio.Channel
    headers: Mapping[str, str]

    async def send(self, tenant: str, text: str) -> str:
        return await self._call(tenant, "send", text)

    async def hold(self, tenant: str) -> str:
        """Send to the skill that waits, and wait for its end. Over REST only."""
        body = {**_message("", "held"), "metadata": {"skill": "hold"}}
        async with self.session.post(f"{self.base}/{tenant}/message:send", json=body) as answer:
            return await answer.text()

    async def stream(self, tenant: str, text: str) -> str:
        return await self._call(tenant, "stream", text)

    async def get(self, tenant: str, task_id: str) -> str:
        return await self._call(tenant, "get", task_id)

    async def hook(self, tenant: str, task_id: str) -> str:
        return await self._call(tenant, "hook", task_id)

    async def task_of(self, tenant: str, text: str) -> str:
        """Send, and return the id of the task."""
        answer = orjson.loads(await self.send(tenant, text))
        answer = answer.get("result", answer)
        return str(answer.get("task", answer)["id"])

    async def _call(self, tenant: str, what: str, value: str) -> str:
        if self.way == "grpc":
            return await self._grpc(tenant, what, value)
        binding, _, version = self.way.partition("-")
        verb, path, body = (_by_path if binding == "rest" else _by_method)(version, tenant, what, value)
        data = None if body is None else orjson.dumps(body)
        kind = {"Content-Type": "application/json"} if body is not None else {}
        async with self.session.request(verb, self.base + path, data=data, headers={**kind, **self.headers}) as answer:
            return await answer.text()

    async def _grpc(self, tenant: str, what: str, value: str) -> str:
        stub: Any = a2a_pb2_grpc.A2AServiceStub(self.channel)
        metadata = tuple((name.lower(), said) for name, said in self.headers.items())
        message = pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text=value)])
        try:
            match what:
                case "send":
                    request = pb.SendMessageRequest(tenant=tenant, message=message)
                    answers = [await stub.SendMessage(request, metadata=metadata)]
                case "stream":
                    request = pb.SendMessageRequest(tenant=tenant, message=message)
                    answers = [item async for item in stub.SendStreamingMessage(request, metadata=metadata)]
                case "get":
                    answers = [await stub.GetTask(pb.GetTaskRequest(tenant=tenant, id=value), metadata=metadata)]
                case _:
                    config = pb.TaskPushNotificationConfig(tenant=tenant, task_id=value, url=URL)
                    answers = [await stub.CreateTaskPushNotificationConfig(config, metadata=metadata)]
        except grpc.aio.AioRpcError as error:
            return f"{error.details()}"
        return "".join(json_format.MessageToJson(answer) for answer in answers)


Asked = tuple[str, str, Any]
"""Verb, path and body."""


def _by_path(version: str, tenant: str, what: str, value: str) -> Asked:
    before = f"/{quote(tenant, safe='')}" if tenant else ""
    root = {"": before, "0.3": f"{before}/v1", "draft": f"/draft{before}/v1"}[version]
    if what in {"send", "stream"}:
        return "POST", f"{root}/message:{what}", _message(version, value)
    if what == "get":
        return "GET", f"{root}/tasks/{value}", None
    config: Any = {"pushNotificationConfig": {"url": URL}} if version else {"url": URL}
    query = "?configId=one" if version else ""
    return "POST", f"{root}/tasks/{value}/pushNotificationConfigs{query}", config


def _by_method(version: str, tenant: str, what: str, value: str) -> Asked:
    place = {"tenant": tenant} if tenant and version != "0.3" else {}
    path = {"": "/", "0.3": f"/{quote(tenant, safe='')}" if tenant else "/", "draft": "/draft/"}[version]
    params: Any = _message(version, value)
    if what == "get":
        params = {"id": value}
    elif what == "hook":
        params = _HOOKS[version](value)
    return "POST", path, {"jsonrpc": "2.0", "id": 1, "method": _NAMES[version][what], "params": {**place, **params}}


_1_0 = {
    "send": "SendMessage",
    "stream": "SendStreamingMessage",
    "get": "GetTask",
    "hook": "CreateTaskPushNotificationConfig",
}
_0_3 = {
    "send": "message/send",
    "stream": "message/stream",
    "get": "tasks/get",
    "hook": "tasks/pushNotificationConfig/set",
}
_NAMES = {"": _1_0, "0.3": _0_3, "draft": {**_1_0, "hook": "SetTaskPushNotificationConfig"}}
_HOOKS: Mapping[str, Callable[[str], Any]] = {
    "": lambda task: {"taskId": task, "url": URL},
    "0.3": lambda task: {"taskId": task, "pushNotificationConfig": {"url": URL}},
    "draft": lambda task: {
        "parent": f"tasks/{task}",
        "configId": "one",
        "config": {"pushNotificationConfig": {"url": URL}},
    },
}


def _message(version: str, text: str) -> Any:
    if version == "draft":
        return draft_says(text)
    if version == "0.3":
        return old_says(text)
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}}


@asynccontextmanager
async def tenant_door(server: Server, way: str, **headers: str) -> AsyncIterator[TenantDoor]:
    """Open a way into the server; the far ones lead through a gateway of its own."""
    async with AsyncExitStack() as stack:
        base = f"http://{server.http}"
        if way.startswith("far-"):
            upstream = {"addresses": [str(server.grpc)]}
            alone = Settings(http="127.0.0.1:0", upstream=upstream, tenants=["any"], gateway=DRAFT)
            base = f"http://{await stack.enter_async_context(relaying(alone))}"
        session = await stack.enter_async_context(ClientSession())
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(str(server.grpc)))
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        yield TenantDoor(way.removeprefix("far-"), base, session, channel, named)
