"""A trace outlives the process that was given it: it is kept with the turn, and with what is owed (spec: TRAC-01)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiohttp import web

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from tests.e2e.processes import serving as process
from tests.faults.test_push_kill import SETTINGS
from tests.faults.test_recovery import SOON, Company, until
from tests.faults.test_withheld import SECRET, Keeper
from tests.support.copies import copy_of
from tests.support.deliveries import Pigeonhole, deliver
from tests.support.guard import answer
from tests.support.house import MemoryStore
from tests.support.receivers import Received, receiver
from tests.support.traces import ONE, TWO, along, traces
from tests.support.world import say, serving

PATIENT = str(Path(__file__).parents[1] / "support" / "patient.py")
HOOKED: dict[str, Any] = {**SOON, "task_push_notification_config": {"url": "https://client.example/"}}


async def told(sender: Pigeonhole, task_id: str, last: int) -> list[Mapping[str, str]]:
    """The traces of a task's webhooks up to the one of a number, each that follows another."""
    async with asyncio.timeout(30):
        while last not in {one.number for one in sender.notices if one.task_id == task_id}:  # noqa: ASYNC110 - as a client polls
            await asyncio.sleep(0.002)
    found = [one.trace.headers() if one.trace else {} for one in sender.notices if one.task_id == task_id]
    return [trace for trace, _ in groupby(found)]


async def last_of(world: Any, task_id: str) -> int:
    entries = await world.core.services.store.entries(task_id, 0, 1_000)
    return int(entries[-1].number)


async def test_turns_that_go_on_are_in_the_traces_of_their_messages() -> None:
    store, company = MemoryStore(), Company()
    async with serving(company.agent, store=store, delivery=deliver(Pigeonhole())) as world:
        task = await world.send(say(skill="steps", configuration=HOOKED), metadata=along(ONE))
        await until(world, task.id, "step 2")
        for text, trace in (("two", TWO), ("three", {})):
            await world.send(say(text, task_id=task.id, configuration=SOON), metadata=along(trace))
        sender, new = Pigeonhole(), Company()
        async with serving(new.agent, store=copy_of(store), delivery=deliver(sender)) as again:
            new.release.set()
            await again.reaches(task.id, pb.TASK_STATE_COMPLETED)
            assert await told(sender, task.id, await last_of(again, task.id)) == [ONE, TWO, {}]
            assert [turn.trace for turn in new.turns] == [ONE, TWO, {}]


async def test_a_turn_that_is_lost_ends_in_its_own_trace() -> None:
    store, company = MemoryStore(), Company()
    async with serving(company.agent, store=store, delivery=deliver(Pigeonhole())) as world:
        task = await world.send(say(skill="hold", configuration=HOOKED), metadata=along(ONE))
        await until(world, task.id, "working on it")
        await world.send(say("more", task_id=task.id, configuration=SOON), metadata=along(TWO))
        sender = Pigeonhole()
        async with serving(Company().agent, store=copy_of(store), delivery=deliver(sender)) as again:
            await again.reaches(task.id, pb.TASK_STATE_FAILED)
            assert await told(sender, task.id, await last_of(again, task.id)) == [ONE]


async def test_a_question_that_is_put_anew_is_in_the_trace_of_the_answer_that_was_lost() -> None:
    store, keeper = MemoryStore(), Keeper()
    async with serving(keeper.agent, store=store, delivery=deliver(Pigeonhole())) as world:
        hooked = {"task_push_notification_config": HOOKED["task_push_notification_config"]}
        task = await world.send(say(skill="steps", configuration=hooked), metadata=along(ONE))
        keeper.release.clear()
        await world.send(answer(task, SECRET, configuration=SOON), metadata=along(TWO))
        await world.reaches(task.id, pb.TASK_STATE_WORKING)
        asked = await last_of(world, task.id)
        sender = Pigeonhole()
        async with serving(Keeper().agent, store=copy_of(store), delivery=deliver(sender)) as again:
            await again.reaches(task.id, pb.TASK_STATE_INPUT_REQUIRED)
            last = await last_of(again, task.id)
            assert last > asked
            assert (await told(sender, task.id, last))[-1] == TWO
            done = await again.send(answer(await again.get(task.id), SECRET))
            assert done.status.state == pb.TASK_STATE_COMPLETED
            assert (await told(sender, task.id, await last_of(again, task.id)))[-2:] == [TWO, {}]


@pytest.mark.req("TRAC-01")
@pytest.mark.parametrize(("skill", "end"), [("again", "COMPLETED"), ("once", "FAILED")])
async def test_another_process_goes_on_with_the_trace_of_one_that_was_killed(
    tmp_path: Path, skill: str, end: str
) -> None:
    """Both what the dead process owed and what its successor adds: the rest of the turn, or its failure."""
    dead = asyncio.Event()

    async def refuse(one: Received) -> web.StreamResponse:
        owed = one.headers["A2A-Event-Number"] == "3" and not dead.is_set()
        return web.Response(status=500 if owed else 204)

    arguments = (PATIENT, "--store", f"sqlite:///{tmp_path / 'a2a.db'}", "--log-level", "error")
    async with receiver(refuse) as client:
        with process(*arguments, cwd=tmp_path, **SETTINGS) as first:
            async with grpc.aio.insecure_channel(first.address) as channel:
                stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)
                configuration = {**SOON, "task_push_notification_config": {"url": client.url}}
                await stub.SendMessage(say(skill=skill, configuration=configuration), metadata=along(ONE))
                await happens(lambda: len(client.received) >= 4)  # the third at least twice
                first.process.kill()
                await asyncio.to_thread(first.process.wait, 10)
        before = len(client.received)
        dead.set()
        with process(*arguments, cwd=tmp_path, **SETTINGS):
            await happens(lambda: state_of(client.last) == end)
    assert client.received[before].headers["A2A-Event-Number"] == "3"
    assert traces(client.received) == [ONE] * len(client.received)


def state_of(webhook: Received) -> str:
    update = json.loads(webhook.body).get("statusUpdate", {"status": {"state": ""}})
    return str(update["status"]["state"]).removeprefix("TASK_STATE_")


async def happens(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nobody says so
            await asyncio.sleep(0.005)
