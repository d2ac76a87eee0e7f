"""Clients of a cluster that go on for as long as a test says, and come back when they are told to try again."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

import aiohttp
import grpc

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc, a2a_v0_3_pb2_grpc
from tests.support import old
from tests.support.world import say

REPLAY = "urn:a2a-server:replay:v1"
DONE = "TASK_STATE_COMPLETED"
_CUT = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE}
"""How a gRPC stream ends whose server has died: a balancer can only reset what has begun."""
_BROKEN = (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, ConnectionResetError)


class TryAgain(Exception):  # noqa: N818 - says what a client does
    """A call failed in a way that asks the client to come back."""


@dataclass(slots=True)
class Errand:
    """One message, and what its sender knows so far. Repeating it is safe: it has an idempotency key."""

    text: str = field(default_factory=lambda: uuid4().hex)
    task_id: str = ""
    number: int = 0
    """Of the last event of the stream."""
    answer: str = ""
    """The text, and the process that has worked."""

    def follow(self, number: int, task_id: str, answer: str) -> None:
        """Note an event. None may be missing, and none may come twice.

        A send that is repeated before its first event has come begins with the task as it is by then.
        """
        assert number == self.number + 1 or (task_id and not self.number), f"event {number} after {self.number}"
        self.number = number
        self.task_id = task_id or self.task_id
        self.answer = answer or self.answer


@dataclass(slots=True)
class Client:
    """Runs one errand after another."""

    name: str
    ask: Callable[[Errand], Awaitable[None]]
    done: list[Errand] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """What it was told to try again for."""

    async def work(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            errand = Errand()
            while not await self._is_done(errand):  # noqa: ASYNC110 - as clients do
                await asyncio.sleep(1)  # as RetryInfo and Retry-After say
            assert errand.answer.startswith(errand.text), f"{self.name}: {errand}"
            self.done.append(errand)

    async def _is_done(self, errand: Errand) -> bool:
        try:
            await self.ask(errand)
        except TryAgain as error:
            self.errors.append(f"{self.name.partition(' ')[0]}: {error}")
            return False
        return True


@dataclass(slots=True)
class Doors:
    """Every door of the balancer, as a client of its own uses it."""

    stub: Any
    old_stub: Any
    http: aiohttp.ClientSession
    fields: dict[str, str]

    def _metadata(self, errand: Errand) -> list[tuple[str, str]]:
        return [*self.fields.items(), ("idempotency-key", errand.text)]

    async def grpc(self, errand: Errand) -> None:
        request = say(errand.text, skill="quick", message_id=errand.text)
        answer = await _of_grpc(self.stub.SendMessage(request, metadata=self._metadata(errand)))
        errand.task_id, errand.answer = answer.task.id, answer.task.artifacts[0].parts[0].text

    async def old_grpc(self, errand: Errand) -> None:
        request = old.tell(errand.text, skill="quick", message_id=errand.text)
        answer = await _of_grpc(self.old_stub.SendMessage(request, metadata=self._metadata(errand)))
        errand.task_id, errand.answer = answer.task.id, answer.task.artifacts[0].parts[0].text

    async def grpc_stream(self, errand: Errand) -> None:
        metadata = [*self._metadata(errand), ("a2a-extensions", REPLAY)]
        if errand.task_id:
            metadata.append(("last-event-id", str(errand.number)))
            call = self.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=errand.task_id), metadata=metadata)
        else:
            request = say(errand.text, skill="laps", message_id=errand.text)
            call = self.stub.SendStreamingMessage(request, metadata=metadata)
        try:
            async for event in call:
                if _follow(errand, event):
                    return
        except grpc.aio.AioRpcError as error:
            if error.code() in _CUT:
                raise TryAgain(f"{error.code().name} {error.details()}") from None
            raise
        raise AssertionError(f"the stream of {errand} has no end")

    async def rest(self, errand: Errand) -> None:
        message = {"messageId": errand.text, "role": "ROLE_USER", "parts": [{"text": errand.text}]}
        answer = await self._post("/message:send", errand, {"message": message, "metadata": {"skill": "quick"}})
        _note(errand, answer["task"])

    async def jsonrpc(self, errand: Errand) -> None:
        message = {"messageId": errand.text, "role": "ROLE_USER", "parts": [{"text": errand.text}]}
        params = {"message": message, "metadata": {"skill": "quick"}}
        answer = await self._post("/", errand, {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params})
        _note(errand, answer["result"]["task"])

    async def old_jsonrpc(self, errand: Errand) -> None:
        part = {"kind": "text", "text": errand.text}
        message = {"kind": "message", "messageId": errand.text, "role": "user", "parts": [part]}
        params = {"message": message, "metadata": {"skill": "quick"}, "configuration": {"blocking": True}}
        answer = await self._post("/", errand, {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params})
        _note(errand, answer["result"])

    async def _post(self, path: str, errand: Errand, body: dict[str, Any]) -> dict[str, Any]:
        headers = {**self.fields, "idempotency-key": errand.text}
        try:
            async with self.http.post(path, json=body, headers=headers) as response:
                text = await response.text()
        except _BROKEN as error:
            raise TryAgain(repr(error)) from None
        _check(response.status, text)
        answer: dict[str, Any] = json.loads(text)
        return answer

    async def sse(self, errand: Errand) -> None:
        message = {"messageId": errand.text, "role": "ROLE_USER", "parts": [{"text": errand.text}]}
        headers = {**self.fields, "idempotency-key": errand.text}
        body = {"message": message, "metadata": {"skill": "laps"}}
        if errand.task_id:
            path = f"/tasks/{errand.task_id}:subscribe"
            call = self.http.get(path, headers={**headers, "Last-Event-ID": str(errand.number)})
        else:
            call = self.http.post("/message:stream", json=body, headers=headers)
        try:
            async with call as response:
                if response.status != 200:
                    _check(response.status, await response.text())
                async for frame in _frames(response):
                    if _follow_sse(errand, frame):
                        return
        except _BROKEN as error:
            raise TryAgain(repr(error)) from None
        raise AssertionError(f"the stream of {errand} has no end")


def _note(errand: Errand, task: dict[str, Any]) -> None:
    errand.task_id, errand.answer = task["id"], task["artifacts"][0]["parts"][0]["text"]


def _check(status: int, text: str) -> None:
    """An answer, or a request to come back; anything else is none of both."""
    if status == 503 or '"reason":"UNAVAILABLE"' in text:
        raise TryAgain(f"{status} {text}")
    assert status == 200, f"{status} {text}"
    assert '"error"' not in text, text


async def _of_grpc(call: Any) -> Any:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            raise TryAgain(f"UNAVAILABLE {error.details()}") from None
        raise


def _follow(errand: Errand, event: pb.StreamResponse) -> bool:
    """Whether this was the last one."""
    update = getattr(event, event.WhichOneof("payload"))
    number = int(update.metadata.fields[REPLAY].number_value)
    artifacts = [event.artifact_update.artifact, *event.task.artifacts]
    answers = [artifact.parts[0].text for artifact in artifacts if artifact.parts]
    errand.follow(number, event.task.id, "".join(answers))
    return pb.TASK_STATE_COMPLETED in {event.status_update.status.state, event.task.status.state}


async def _frames(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """The number and the data of every event."""
    number = ""
    async for line in response.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "id":
            number = value
        elif name == "data":
            yield number, json.loads(value)


def _follow_sse(errand: Errand, frame: tuple[str, dict[str, Any]]) -> bool:
    number, event = frame
    if "error" in event:
        raise TryAgain(json.dumps(event)) if "UNAVAILABLE" in json.dumps(event) else AssertionError(event)
    (kind, said), *_ = event.items()
    artifacts = [said["artifact"]] if kind == "artifactUpdate" else said.get("artifacts", [])
    answers = [artifact["parts"][0]["text"] for artifact in artifacts]
    errand.follow(int(number), said["id"] if kind == "task" else "", "".join(answers))
    return bool(said.get("status", {}).get("state") == DONE)


def workers(clients: list[Client]) -> set[str]:
    """The processes that have answered these clients."""
    return {re.split(r"\s", errand.answer)[1] for client in clients for errand in client.done}


@asynccontextmanager
async def clients_of(address: str, tls: str, authority: bytes, token: str) -> AsyncIterator[list[Client]]:
    """Two clients of each kind. Those over gRPC share two connections; that of 0.3 has TLS."""
    fields = {"authorization": f"Bearer {token}"}
    async with (
        grpc.aio.insecure_channel(address) as channel,
        grpc.aio.secure_channel(tls, grpc.ssl_channel_credentials(authority)) as other,
        aiohttp.ClientSession(f"http://{address}") as http,
    ):
        stub, old_stub = a2a_pb2_grpc.A2AServiceStub(channel), a2a_v0_3_pb2_grpc.A2AServiceStub(other)
        doors = Doors(stub, old_stub, http, fields)
        asked = (doors.grpc, doors.old_grpc, doors.grpc_stream, doors.rest, doors.jsonrpc, doors.old_jsonrpc, doors.sse)
        yield [Client(f"{ask.__name__} {number}", partial(ask)) for ask in asked for number in (1, 2)]
