"""The official Python client of 0.3 (a2a-sdk 0.3.26), to be told what to call; runs in the environment made for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.client.base_client import BaseClient
from a2a.client.errors import A2AClientHTTPError, A2AClientJSONRPCError
from a2a.types import (
    AgentCard,
    GetTaskPushNotificationConfigParams,
    Message,
    MessageSendConfiguration,
    PushNotificationConfig,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TransportProtocol,
)
from pydantic import BaseModel

from tests.interop.clients.channels import channel
from tests.interop.clients.told import Call, Told

TIMEOUT = 60.0


class Token(CredentialService):
    """A credential for whatever scheme the card asks for."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def get_credentials(self, security_scheme_name: str, context: ClientCallContext | None) -> str | None:
        return self._token or None


@dataclass(frozen=True)
class Connection:
    """A client that waits and one that streams: which of both a client does is its configuration, as are webhooks."""

    resolver: A2ACardResolver
    card: AgentCard
    make: Callable[..., BaseClient]
    waiting: BaseClient
    streaming: BaseClient
    headers: Mapping[str, str]

    def context(self) -> ClientCallContext:
        """A new one for each call, because the client writes into it."""
        return ClientCallContext(state={"http_kwargs": {"headers": dict(self.headers), "timeout": TIMEOUT}})


async def connect(details: dict[str, Any]) -> Connection:
    """Find the card, and in it the interface for the transport."""
    token, transport = details["token"], TransportProtocol(details["transport"])
    http = httpx.AsyncClient(timeout=TIMEOUT)
    resolver = A2ACardResolver(http, details["url"])
    card = await resolver.get_agent_card()

    def client(*, streaming: bool, push: Sequence[PushNotificationConfig] = ()) -> Any:
        config = ClientConfig(
            streaming=streaming,
            push_notification_configs=list(push),
            httpx_client=http,
            grpc_channel_factory=partial(channel, token=token),
            supported_transports=[transport],
            extensions=details["extensions"],
        )
        return ClientFactory(config).create(card, interceptors=[AuthInterceptor(Token(token))])

    # The client's REST transport leaves interceptors out.
    by_hand = {"Authorization": f"Bearer {token}"} if token and transport == TransportProtocol.http_json else {}
    return Connection(resolver, card, client, client(streaming=False), client(streaming=True), by_hand)


async def send(on: Connection, told: dict[str, Any]) -> object:
    push = [PushNotificationConfig.model_validate(told["push"])] if told["push"] else []
    async for result in _sent(on.make(streaming=False, push=push) if push else on.waiting, on, told):
        return result
    raise AssertionError("no answer")


async def stream(on: Connection, told: dict[str, Any]) -> AsyncIterator[object]:
    async for item in _sent(on.streaming, on, told):
        yield item


async def _sent(client: BaseClient, on: Connection, told: dict[str, Any]) -> AsyncIterator[object]:
    message = Message.model_validate(
        {
            "role": "user",
            "messageId": str(uuid4()),
            "parts": told["parts"],
            "taskId": told["task"],
            "contextId": told["context"],
        }
    )
    configuration = MessageSendConfiguration(
        blocking=told["wait"],
        history_length=told["history"],
        accepted_output_modes=told["accepts"],
    )
    items = client.send_message(
        message, configuration=configuration, context=on.context(), request_metadata={"skill": told["skill"]}
    )
    async for item in items:
        yield _event(item)


def _event(item: Any) -> object:
    """The update itself where the client pairs it with the task as it then is."""
    return plain(item if isinstance(item, Message) else item[1] or item[0])


def plain(model: BaseModel) -> object:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def get(on: Connection, told: dict[str, Any]) -> object:
    query = TaskQueryParams(id=told["task"], history_length=told["history"])
    return plain(await on.waiting.get_task(query, context=on.context()))


async def cancel(on: Connection, told: dict[str, Any]) -> object:
    return plain(await on.waiting.cancel_task(TaskIdParams(id=told["task"]), context=on.context()))


async def subscribe(on: Connection, told: dict[str, Any]) -> AsyncIterator[object]:
    async for item in on.streaming.resubscribe(TaskIdParams(id=told["task"]), context=on.context()):
        yield _event(item)


async def set_push(on: Connection, told: dict[str, Any]) -> object:
    config = PushNotificationConfig.model_validate(told["config"])
    request = TaskPushNotificationConfig(task_id=told["task"], push_notification_config=config)
    return plain(await on.waiting.set_task_callback(request, context=on.context()))


async def get_push(on: Connection, told: dict[str, Any]) -> object:
    request = GetTaskPushNotificationConfigParams(id=told["task"], push_notification_config_id=told["config"])
    return plain(await on.waiting.get_task_callback(request, context=on.context()))


async def card(on: Connection, told: dict[str, Any]) -> object:
    return plain(on.card)


async def card_at(on: Connection, told: dict[str, Any]) -> object:
    """Where clients of 0.2 look."""
    found = on.resolver.get_agent_card(told["path"], http_kwargs={"headers": told["headers"]})
    return plain(await found)


async def extended_card(on: Connection, told: dict[str, Any]) -> object:
    return plain(await on.waiting.get_card(context=on.context()))


def describe(error: Exception) -> dict[str, Any]:
    match error:
        case A2AClientJSONRPCError():
            return {"code": error.error.code, "data": error.error.data}
        case A2AClientHTTPError():
            return {"status": error.status_code}
        case grpc.aio.AioRpcError():
            return {"status": error.code().name, "message": error.details()}
    return {}


CALLS: Mapping[str, Call] = {
    "card": card,
    "card_at": card_at,
    "extended_card": extended_card,
    "send": send,
    "stream": stream,
    "get": get,
    "cancel": cancel,
    "subscribe": subscribe,
    "set_push": set_push,
    "get_push": get_push,
}


if __name__ == "__main__":
    asyncio.run(Told(connect, CALLS, describe).run())
