"""Everything at once: clients and agents that throw dice, and what must be true of every log afterwards."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import cast

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import Outlet, Plan, TurnRequest
from a2a_server.ports.records import Entry
from a2a_server.ports.store import Store
from tests.bindings.actors import (
    AUTH,
    CALL,
    COMPLETED,
    FAILED,
    INPUT,
    REJECTED,
    WORKING,
    Actor,
    ask,
    at_rest,
    chunk,
    log_of,
    says,
    status,
)
from tests.support.house import (
    MOVES,
    TERMINAL,
    A2AError,
    Core,
    InputTimeouts,
    Limits,
    StreamOperation,
    fold,
    millis,
)
from tests.support.world import World, say, serving

LIMITS = Limits(
    running_turns=5, waiting_messages=3, cancel_grace=30.0, drain_grace=0.05, input_timeout=3_600.0, pending_events=8
)
EXPECTED = {"TASK_NOT_CANCELABLE", "UNSUPPORTED_OPERATION", "OVERLOADED", "INVALID_AGENT_RESPONSE"}


class Moody(Actor):
    """An agent that does anything it is allowed to, and some of what it is not."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__(self._do)
        self.dice = dice

    def plan(self, request: pb.SendMessageRequest, state: bytes) -> Plan:
        return Plan(direct=self.dice.random() < 0.3)

    async def _do(self, request: TurnRequest, outlet: Outlet) -> None:
        try:
            for _ in range(self.dice.randrange(6)):
                await self._step(outlet)
        except asyncio.CancelledError:
            if self.dice.random() < 0.7:
                raise
            if self.dice.random() < 0.5:
                outlet.emit(status(WORKING, "cleaning up"))
        if self.dice.random() < 0.1:
            raise ValueError("a bad day")
        if self.dice.random() < 0.1:
            outlet.emit(pb.StreamResponse(message=says("hi")))
        outlet.emit(status(self.dice.choice([COMPLETED, COMPLETED, INPUT, INPUT, AUTH, FAILED, REJECTED]), "so"))
        if self.dice.random() < 0.2:
            outlet.emit(status(WORKING, "on second thoughts"))
            outlet.emit(status(COMPLETED))

    async def _step(self, outlet: Outlet) -> None:
        match self.dice.randrange(7):
            case 0:
                outlet.emit(chunk("x", append=True))
            case 1:
                outlet.emit(status(WORKING, "progress"))
            case 2:
                outlet.emit(status(AUTH, "a credential, please"))
            case 3:
                await outlet.durable()
            case 4:
                await outlet.room()
            case 5:
                with suppress(TimeoutError):
                    await asyncio.wait_for(outlet.next_message(), timeout=0.001)
            case _:
                await asyncio.sleep(0)


class Crowd:
    """Clients that send, cancel, ask and follow, each at any time."""

    def __init__(self, core: Core, dice: random.Random) -> None:
        self.core = core
        self.dice = dice
        self.ids: list[str] = []
        self.views: list[list[Entry]] = []

    async def act(self) -> None:
        for _ in range(self.dice.randrange(4)):
            await asyncio.sleep(0)
        try:
            await self._act()
        except A2AError as error:
            assert error.reason.name in EXPECTED, error  # noqa: PT017 - any other refusal is a fault

    async def _act(self) -> None:
        what = self.dice.randrange(10) if self.ids else 0
        task_id = self.dice.choice(self.ids) if self.ids else ""
        match what:
            case 0 | 1:
                await self._send(say(configuration={"return_immediately": True}))
            case 2:
                await self._send(say())
            case 3 | 4:
                assert await self._send(say("more", task_id=task_id)) == task_id
            case 5:
                await self._follow("SendStreamingMessage", say("more", task_id=task_id))
            case 6:
                await self._follow("SubscribeToTask", pb.SubscribeToTaskRequest(id=task_id))
            case 7:
                await ask(self.core, "CancelTask", pb.CancelTaskRequest(id=task_id))
            case 8:
                await InputTimeouts(self.core.services, self.core.live_turns, 0).sweep()
            case _:
                await ask(self.core, "GetTask", pb.GetTaskRequest(id=task_id))

    async def _send(self, request: pb.SendMessageRequest) -> str:
        response: pb.SendMessageResponse = await ask(self.core, "SendMessage", request)
        if response.HasField("task"):
            self.ids.append(response.task.id)
        return response.task.id

    async def _follow(self, name: str, request: object) -> None:
        """A stream stays open while its task waits, so that followers give up after a while."""
        view: list[Entry] = []
        operation = cast("StreamOperation", self.core.operations[name])
        with suppress(TimeoutError):
            async with aclosing(operation(CALL, request)) as batches:
                async with asyncio.timeout(self.dice.choice([0.001, 0.05, 0.5])):
                    async for entries in batches:
                        view.extend(entries)
        if view and view[0].event.HasField("task"):
            self.views.append(view)


def check_log(entries: Sequence[Entry], stored: pb.Task) -> None:
    """One task, numbered without gaps, on legal ways only, with nothing after its end."""
    assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
    state, time = int(entries[0].event.task.status.state), millis(entries[0].event.task.status.timestamp)
    for entry in entries[1:]:
        assert state not in TERMINAL
        assert entry.event.WhichOneof("payload") != "task"
        if entry.event.HasField("status_update"):
            update = entry.event.status_update.status
            assert update.state in MOVES[state]
            assert millis(update.timestamp) >= time
            state, time = update.state, millis(update.timestamp)
    folded = pb.Task()
    fold(folded, (entry.event for entry in entries))
    assert folded == stored


def check_view(view: Sequence[Entry], entries: Sequence[Entry]) -> None:
    """A snapshot, and then exactly what the log holds after it."""
    assert view[0].event.HasField("task")
    shown = [entry for entry in entries[view[0].number :] if not entry.event.HasField("message")]
    assert [entry.wire for entry in view[1:]] == [entry.wire for entry in shown[: len(view) - 1]]


async def all_ids(world: World) -> list[str]:
    ids: list[str] = []
    request = pb.ListTasksRequest(page_size=100)
    while True:
        page = await world.stub.ListTasks(request)
        ids += [task.id for task in page.tasks]
        request.page_token = page.next_page_token
        if not request.page_token:
            assert len(set(ids)) == page.total_size
            return ids


@pytest.mark.req(
    "CANC-04", "CANX-01", "CANX-02", "STAT-01", "STAT-02", "STAT-04", "SUBS-02", "ORDR-03", "ARTF-04", "GEN-07"
)
@pytest.mark.parametrize("seed", range(6))
async def test_every_log_is_sound_whatever_happens(store: Store, seed: int) -> None:
    dice = random.Random(seed)
    agent = Moody(random.Random(seed + 1_000))
    async with serving(agent, store=store, limits=LIMITS) as world:
        crowd = Crowd(world.core, dice)
        async with asyncio.timeout(60):
            for _ in range(15):
                await asyncio.gather(*(crowd.act() for _ in range(20)))
            await at_rest(world)
        logs: dict[str, Sequence[Entry]] = {}
        for task_id in await all_ids(world):
            logs[task_id] = await log_of(world.core, task_id)
            check_log(logs[task_id], await world.get(task_id))
        assert len(logs) > 20
        assert set(crowd.ids) <= set(logs)
        for view in crowd.views:
            check_view(view, logs[view[0].event.task.id])
        assert not await store.claim("next", 10)  # no turn is left open
