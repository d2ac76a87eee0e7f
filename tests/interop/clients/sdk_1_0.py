"""The official Python client of 1.0 (a2a-sdk 1.3.0), to be told what to call: speaks 1.0, or 0.3 where cards do so."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.base_client import BaseClient
from a2a.client.errors import A2AClientError
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from tests.interop.clients.channels import channel
from tests.interop.clients.told import Call, Told

TIMEOUT = 60.0


@dataclass(frozen=True)
class Connection:
    """A client that waits, one that does not, and one that streams: which a client does is its configuration."""

    card: Any
    waiting: BaseClient
    polling: BaseClient
    streaming: BaseClient
    parameters: dict[str, str]

    def context(self) -> ClientCallContext:
        return ClientCallContext(service_parameters=dict(self.parameters), timeout=TIMEOUT)


async def connect(details: dict[str, Any]) -> Connection:
    """Find the card in the wanted version, and in it the interface for the transport."""
    http = httpx.AsyncClient(timeout=TIMEOUT)
    version = {"headers": {"A2A-Version": details["version"]}}
    card = await A2ACardResolver(http, details["url"]).get_agent_card(http_kwargs=version)

    def client(**config: Any) -> Any:
        chosen = ClientConfig(
            httpx_client=http,
            grpc_channel_factory=channel,
            supported_protocol_bindings=[details["transport"]],
            **config,
        )
        return ClientFactory(chosen).create(card)

    parameters = {"authorization": f"Bearer {details['token']}"} if details["token"] else {}
    if details["extensions"]:
        parameters["A2A-Extensions"] = ",".join(details["extensions"])
    return Connection(
        card,
        client(streaming=False),
        client(streaming=False, polling=True),
        client(streaming=True),
        parameters,
    )


async def send(on: Connection, told: dict[str, Any]) -> object:
    client = on.waiting if told["wait"] else on.polling
    async for item in client.send_message(request(told), context=on.context()):
        return plain(getattr(item, item.WhichOneof("payload")))
    raise AssertionError("no answer")


async def stream(on: Connection, told: dict[str, Any]) -> AsyncIterator[object]:
    async for item in on.streaming.send_message(request(told), context=on.context()):
        yield plain(item)


def request(told: dict[str, Any]) -> pb.SendMessageRequest:
    made = pb.SendMessageRequest()
    message = made.message
    message.message_id, message.role = str(uuid4()), pb.ROLE_USER
    message.task_id, message.context_id = told["task"] or "", told["context"] or ""
    message.parts.extend(part(given) for given in told["parts"])
    made.metadata.update({"skill": told["skill"]})
    made.configuration.accepted_output_modes.extend(told["accepts"])
    if told["history"] is not None:
        made.configuration.history_length = told["history"]
    if told["push"]:
        made.configuration.task_push_notification_config.CopyFrom(config(told["push"]))
    return made


def part(given: dict[str, Any]) -> pb.Part:
    """A part as 1.0 has it, of one as 0.3 has it."""
    made = pb.Part()
    match given:
        case {"text": text}:
            made.text = text
        case {"data": data}:
            ParseDict(data, made.data)
        case {"file": file}:
            if "uri" in file:
                made.url = file["uri"]
            else:
                made.raw = base64.b64decode(file["bytes"])
            made.filename, made.media_type = file.get("name", ""), file.get("mimeType", "")
    return made


def config(given: dict[str, Any], task: str = "") -> pb.TaskPushNotificationConfig:
    made = pb.TaskPushNotificationConfig(task_id=task, id=given["id"], url=given["url"], token=given.get("token", ""))
    if "authentication" in given:
        made.authentication.scheme = given["authentication"]["schemes"][0]
        made.authentication.credentials = given["authentication"].get("credentials", "")
    return made


def plain(message: Message) -> object:
    return MessageToDict(message)


async def get(on: Connection, told: dict[str, Any]) -> object:
    query = pb.GetTaskRequest(id=told["task"], history_length=told["history"])
    return plain(await on.waiting.get_task(query, context=on.context()))


async def cancel(on: Connection, told: dict[str, Any]) -> object:
    return plain(await on.waiting.cancel_task(pb.CancelTaskRequest(id=told["task"]), context=on.context()))


async def subscribe(on: Connection, told: dict[str, Any]) -> AsyncIterator[object]:
    async for item in on.streaming.subscribe(pb.SubscribeToTaskRequest(id=told["task"]), context=on.context()):
        yield plain(item)


async def set_push(on: Connection, told: dict[str, Any]) -> object:
    wanted = config(told["config"], told["task"])
    return plain(await on.waiting.create_task_push_notification_config(wanted, context=on.context()))


async def get_push(on: Connection, told: dict[str, Any]) -> object:
    which = pb.GetTaskPushNotificationConfigRequest(task_id=told["task"], id=told["config"])
    return plain(await on.waiting.get_task_push_notification_config(which, context=on.context()))


async def list_push(on: Connection, told: dict[str, Any]) -> object:
    listing = pb.ListTaskPushNotificationConfigsRequest(task_id=told["task"])
    listed = await on.waiting.list_task_push_notification_configs(listing, context=on.context())
    return [plain(found) for found in listed.configs]


async def delete_push(on: Connection, told: dict[str, Any]) -> object:
    which = pb.DeleteTaskPushNotificationConfigRequest(task_id=told["task"], id=told["config"])
    await on.waiting.delete_task_push_notification_config(which, context=on.context())
    return None


async def card(on: Connection, told: dict[str, Any]) -> object:
    return plain(on.card)


async def extended_card(on: Connection, told: dict[str, Any]) -> object:
    asked = pb.GetExtendedAgentCardRequest()
    return plain(await on.waiting.get_extended_agent_card(asked, context=on.context()))


def describe(error: Exception) -> dict[str, Any]:
    """Its own classes say it all; where it has none, it quotes the status."""
    return {"status": str(error)} if type(error) is A2AClientError else {}


CALLS: Mapping[str, Call] = {
    "card": card,
    "extended_card": extended_card,
    "send": send,
    "stream": stream,
    "get": get,
    "cancel": cancel,
    "subscribe": subscribe,
    "set_push": set_push,
    "get_push": get_push,
    "list_push": list_push,
    "delete_push": delete_push,
}


if __name__ == "__main__":
    asyncio.run(Told(connect, CALLS, describe).run())
