"""Clients of all servers, which record what they send and hear, and never give up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any

import grpc

from a2a_proto import a2a_pb2 as pb
from tests.faults.cluster.agent import CHUNKS
from tests.faults.cluster.fleet import Fleet, Member
from tests.faults.cluster.history import Acknowledged, Heard, History, Sent
from tests.support.house import REPLAY, TERMINAL
from tests.support.world import say

_ASKING = ("a2a-extensions", REPLAY)
_PATIENCE = 8.0
"""Seconds after which a client that hears nothing tries another server."""
_PAUSE = 0.1
_PASSING = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,  # the client's own
    grpc.StatusCode.CANCELLED,  # by the client, whose patience was over
}
WHOLE = "".join(f"{number};" for number in range(1, CHUNKS + 1))
_STOPS = TERMINAL | {pb.TASK_STATE_INPUT_REQUIRED}


class Elsewhere(Exception):  # noqa: N818 - no error: whoever asks tries another server
    """The server did not answer."""


class Load:
    """Clients at work. What each waits for now is in `waiting`: its kind, its server and its task."""

    def __init__(self, fleet: Fleet, history: History, dice: random.Random, hooks: str = "") -> None:
        self._fleet = fleet
        self._history = history
        self._dice = dice
        self._hooks = hooks
        self._numbers = count(1)
        self._closing = asyncio.Event()
        self.retries = 0
        self.waiting: dict[str, tuple[str, Member, str]] = {}

    async def run(self, each: int = 2) -> None:
        """Work until `finish`; then every client ends what it has begun."""
        kinds = (self._stream, self._stream_laps, self._watch, self._block, self._talk, self._join)
        async with asyncio.TaskGroup() as group:
            for kind in kinds:
                for _ in range(each):
                    group.create_task(self._keep_on(kind))

    def finish(self) -> None:
        self._closing.set()

    async def _keep_on(self, client: Callable[[str], Awaitable[None]]) -> None:
        while not self._closing.is_set():
            name = f"m{next(self._numbers)}"
            with suppress(grpc.aio.AioRpcError):  # is among the surprises
                await client(name)
            self.waiting.pop(name, None)
            await asyncio.sleep(self._dice.uniform(0, 0.1))

    # -- what clients do

    async def _stream(self, name: str) -> None:
        await self._stream_of(name, "chunks")

    async def _stream_laps(self, name: str) -> None:
        await self._stream_of(name, "laps", restartable=True)

    async def _stream_of(self, name: str, skill: str, *, restartable: bool = False) -> None:
        self._history.sent.append(Sent(name, restartable, WHOLE))
        await self._follow(name, say(name, message_id=name, skill=skill, **self._config(name)))

    async def _watch(self, name: str) -> None:
        """Several readers, on all servers, of one task."""
        self._history.sent.append(Sent(name, restartable=True, text=WHOLE))
        now = {"return_immediately": True}
        task = await self._send(name, say(name, message_id=name, skill="laps", configuration=now))
        await asyncio.gather(*(self._read(f"{name}-{place}", task.id, 0) for place in range(len(self._fleet.members))))

    async def _block(self, name: str) -> None:
        self._history.sent.append(Sent(name, text=WHOLE))
        task = await self._send(name, say(name, message_id=name, skill="chunks", **self._config(name)))
        if task.status.state not in TERMINAL:
            self._history.surprises.append(f"{task.id}: a blocking send returned {task.status.state}")

    async def _talk(self, name: str) -> None:
        """A question and an answer, through different servers."""
        self._history.sent.append(Sent(name, restartable=True, text=f"{name} {name}-2"))
        task = await self._send(name, say(name, message_id=name, skill="ask"))
        await self._answer(name, task)

    async def _join(self, name: str) -> None:
        """The answer comes before the question, mostly to another server than the one that works."""
        self._history.sent.append(Sent(name, restartable=True, text=f"{name} {name}-2"))
        now = {"return_immediately": True}
        task = await self._send(name, say(name, message_id=name, skill="ask", configuration=now))
        await self._answer(name, task)

    async def _answer(self, name: str, task: pb.Task) -> None:
        if task.status.state in TERMINAL:
            return
        second = f"{name}-2"
        self._history.sent.append(Sent(second, restartable=True))
        await self._send(second, say(second, message_id=second, task_id=task.id))

    # -- how they do it

    def _config(self, name: str) -> dict[str, Any]:
        if not self._hooks:
            return {}
        return {"configuration": {"task_push_notification_config": {"id": name, "url": f"{self._hooks}/{name}"}}}

    async def _send(self, name: str, request: pb.SendMessageRequest) -> pb.Task:
        """Send until there is an answer."""

        async def attempt(member: Member) -> pb.Task:
            self.waiting[name] = "send", member, request.message.task_id
            metadata = (("idempotency-key", name),)
            answer = await member.stub.SendMessage(request, metadata=metadata, timeout=_PATIENCE)
            task: pb.Task = answer.task
            return task

        task: pb.Task = await self._insist(attempt)
        self._acknowledge(request, task.id, task.status.state)
        return task

    def _acknowledge(self, request: pb.SendMessageRequest, task_id: str, state: int) -> None:
        name, returns = request.message.message_id, request.configuration.return_immediately
        final = state in TERMINAL and not returns
        self._history.acknowledged.append(Acknowledged(name, task_id, state if final else 0))
        if request.configuration.HasField("task_push_notification_config"):
            self._history.configs[name] = task_id

    async def _follow(self, name: str, request: pb.SendMessageRequest) -> None:
        """Send with a stream, and read on elsewhere when that breaks."""
        heard: list[Heard] = []

        async def attempt(member: Member) -> None:
            self.waiting[name] = "stream", member, heard[-1].task if heard else ""
            if heard:
                return await self._subscribe(name, member, heard)
            metadata = (_ASKING, ("idempotency-key", name))
            items = member.stub.SendStreamingMessage(request, metadata=metadata, timeout=3 * _PATIENCE)
            return await self._hear(name, member, items, heard)

        await self._insist(attempt)
        self._acknowledge(request, heard[0].task, heard[-1].state)

    async def _read(self, reader: str, task_id: str, after: int) -> None:
        """Read a task's log from the beginning to its end."""
        heard = [Heard(reader, "", task_id, after, "", "")]

        async def attempt(member: Member) -> None:
            self.waiting[reader] = "read", member, task_id
            await self._subscribe(reader, member, heard)

        await self._insist(attempt)
        self.waiting.pop(reader, None)

    async def _subscribe(self, reader: str, member: Member, heard: list[Heard]) -> None:
        request, cursor = pb.SubscribeToTaskRequest(id=heard[-1].task), str(heard[-1].number)
        metadata = (_ASKING, ("last-event-id", cursor))
        items = member.stub.SubscribeToTask(request, metadata=metadata, timeout=3 * _PATIENCE)
        await self._hear(reader, member, items, heard)

    async def _hear(self, reader: str, member: Member, items: Any, heard: list[Heard]) -> None:
        """Read to the end of the turn. A stream that ends before is a broken one."""
        stream = aiter(items)
        try:
            while True:
                async with asyncio.timeout(_PATIENCE):
                    item = await anext(stream)
                heard.append(self._history.hear(reader, member.name, item))
        except StopAsyncIteration:
            pass
        except TimeoutError:
            items.cancel()
            raise Elsewhere from None
        if not heard or heard[-1].state not in _STOPS:
            state = heard[-1].state if heard else "nothing"
            self._history.surprises.append(f"{reader}: a stream on {member.name} ended with {state}")

    async def _insist(self, attempt: Callable[[Member], Awaitable[Any]]) -> Any:
        while True:
            member = self._dice.choice(self._fleet.up or self._fleet.members)
            try:
                return await attempt(member)
            except Elsewhere:
                pass
            except grpc.aio.AioRpcError as error:
                if error.code() not in _PASSING:
                    self._history.surprises.append(f"{member.name} answered {error.code().name}: {error.details()}")
                    raise
            self.retries += 1
            await asyncio.sleep(_PAUSE)
