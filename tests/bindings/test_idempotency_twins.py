"""Twins: the same send several times at once, and at awkward moments (spec: ONCE-01)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Turn
from a2a_server.ports.records import Receipt, Write
from a2a_server.ports.store import Store
from tests.support.calls import SOON, key
from tests.support.house import Limits, MemoryStore, Scope
from tests.support.stage import Stage, texts
from tests.support.world import World, kinds, refused, say, serving

TWINS = 50


async def total(world: World) -> int:
    return int((await world.stub.ListTasks(pb.ListTasksRequest())).total_size)


@pytest.mark.req("ONCE-01")
async def test_twins_start_one_turn(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        sends = [asyncio.ensure_future(world.send(say(skill="hold"), metadata=key())) for _ in range(TWINS)]
        await stage.began()
        stage.release.set()
        tasks = await asyncio.gather(*sends)
        assert await total(world) == 1
    assert all(task == tasks[0] for task in tasks)
    assert tasks[0].status.state == pb.TASK_STATE_COMPLETED
    assert len(stage.turns) == 1


@pytest.mark.req("ONCE-01")
async def test_twins_of_all_kinds_share_one_turn(store: Store) -> None:
    stage = Stage()
    request = say(skill="hold")
    async with serving(stage.agent, store=store) as world:
        soon = say(skill="hold", configuration=SOON)
        streams = [asyncio.ensure_future(world.stream(request, metadata=key())) for _ in range(10)]
        sends = [asyncio.ensure_future(world.send(request, metadata=key())) for _ in range(10)]
        handed = await asyncio.gather(*(world.send(soon, metadata=key()) for _ in range(10)))
        await stage.began()
        stage.release.set()
        done = await asyncio.gather(*sends)
        for items in await asyncio.gather(*streams):
            assert kinds(items)[0] == "task"
            assert kinds(items)[-1] == "COMPLETED" or items[0].task.status.state == pb.TASK_STATE_COMPLETED
            assert items[0].task.id == done[0].id
        assert {task.id for task in [*handed, *done]} == {done[0].id}
    assert len(stage.turns) == 1


@pytest.mark.req("ONCE-01", "SEND-09")
@pytest.mark.parametrize("text", ["small talk", "work"])
async def test_twins_of_a_turn_that_may_answer_directly(store: Store, text: str) -> None:
    stage = Stage()
    request, soon = say(text, skill="maybe"), say(text, skill="maybe", configuration=SOON)
    async with serving(stage.agent, store=store) as world:
        sends = [asyncio.ensure_future(world.stub.SendMessage(request, metadata=key())) for _ in range(TWINS // 2)]
        sends += [asyncio.ensure_future(world.stub.SendMessage(soon, metadata=key())) for _ in range(TWINS // 2)]
        streams = [asyncio.ensure_future(world.stream(request, metadata=key())) for _ in range(5)]
        await stage.began()
        await asyncio.sleep(0.05)  # not needed; lets most twins arrive while the agent thinks
        stage.release.set()
        answers = await asyncio.gather(*sends)
        streamed = await asyncio.gather(*streams)
    assert len(stage.turns) == 1
    if text == "small talk":
        assert all(answer == answers[0] for answer in answers)
        assert [items[0].message for items in streamed] == [answers[0].message] * 5
    else:
        assert {answer.task.id for answer in answers} == {items[0].task.id for items in streamed}
        assert all(texts(answer.task) == ["work"] for answer in answers[: TWINS // 2])


@pytest.mark.req("ONCE-01", "SEND-13")
async def test_two_keys_may_join_at_the_same_time(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        task = await world.send(say(skill="hold", configuration=SOON))
        await stage.began()
        messages = [say(f"m{number}", task_id=task.id, configuration=SOON) for number in range(10)]
        for _ in range(2):
            await asyncio.gather(*(world.send(one, metadata=key(one.message.parts[0].text)) for one in messages))
        stage.release.set()
        await world.reaches(task.id, pb.TASK_STATE_COMPLETED)
    assert sorted(turn.text for turn in stage.turns[1:]) == [f"m{number}" for number in range(10)]


# -- awkward moments


class Gated(MemoryStore):
    """Holds commits back while it is shut."""

    def __init__(self) -> None:
        super().__init__()
        self.open_to_all = asyncio.Event()
        self.open_to_all.set()
        self.waiting = 0

    async def commit(self, write: Write) -> bool:
        self.waiting += 1
        await self.open_to_all.wait()
        return await super().commit(write)


@pytest.mark.req("ONCE-01", "DURA-01", "BLK-04")
@pytest.mark.parametrize("configuration", [{}, SOON])
async def test_a_twin_of_a_task_that_is_just_being_made_waits_for_it(configuration: dict[str, Any]) -> None:
    stage, store = Stage(), Gated()
    request = say("work", skill="maybe", configuration=configuration)
    async with serving(stage.agent, store=store) as world:
        first = asyncio.ensure_future(world.send(request, metadata=key()))
        await stage.began()
        store.open_to_all.clear()
        stage.release.set()
        while not store.waiting:  # noqa: ASYNC110 - the store is in this very loop
            await asyncio.sleep(0)
        twin = asyncio.ensure_future(world.send(request, metadata=key()))
        streamed = asyncio.ensure_future(world.stream(request, metadata=key()))
        while world.core.services.log.watched and world.pipeline.streams.count == 0:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        assert not twin.done()
        store.open_to_all.set()
        assert (await first).id == (await twin).id == (await streamed)[0].task.id
    assert len(stage.turns) == 1


@pytest.mark.req("ONCE-01", "BLK-02", "BLK-06", "SEND-13")
async def test_a_twin_of_a_joined_message_waits_for_its_own_turn(store: Store) -> None:
    stage = Stage()

    @stage.agent.skill(id="talk", description="Asks in its first turn.", tags=["test"])
    async def talk(turn: Turn) -> str | None:
        stage.turns.append(turn)
        await stage.release.wait()
        if turn.number > 1:
            return turn.text
        stage.release.clear()
        await turn.ask("What colour?")
        return None

    async with serving(stage.agent, store=store) as world:
        task = await world.send(say(skill="talk", configuration=SOON))
        await stage.began()
        more = say("red", task_id=task.id)
        first = asyncio.ensure_future(world.send(more, metadata=key()))
        while len((await world.get(task.id)).history) < 2:  # noqa: ASYNC110 - as a client polls
            await asyncio.sleep(0)
        twin = asyncio.ensure_future(world.send(more, metadata=key()))
        seen: list[pb.StreamResponse] = []

        async def watch() -> None:
            async for item in world.stub.SendStreamingMessage(more, metadata=key()):
                seen.append(item)  # noqa: PERF401 - others look while it grows

        stream = asyncio.ensure_future(watch())
        while not seen:  # noqa: ASYNC110 - the server runs in this very loop
            await asyncio.sleep(0)

        stage.release.set()
        await stage.began(2)
        assert not twin.done()
        stage.release.set()

        assert await twin == await first
        assert texts(await twin) == ["red"]
        await stream
        assert kinds(seen)[-1] == "COMPLETED"
    assert len(stage.turns) == 2


@pytest.mark.req("SEND-13", "BLK-04", "ORDR-01")
async def test_a_message_joins_an_agent_that_never_stops_talking(store: Store) -> None:
    stage = Stage()

    @stage.agent.skill(id="chatter", description="Says something all the time.", tags=["test"])
    async def chatter(turn: Turn) -> str:
        stage.turns.append(turn)
        while not stage.release.is_set():
            await turn.status("…")
            await asyncio.sleep(0)
        return turn.text

    async with serving(stage.agent, store=store) as world, asyncio.timeout(30):
        task = await world.send(say(skill="chatter", configuration=SOON))
        joined = await world.send(say("more", task_id=task.id, configuration=SOON), metadata=key())
        assert [message.parts[0].text for message in joined.history] == ["hello", "more"]
        stage.release.set()
        await world.reaches(task.id, pb.TASK_STATE_COMPLETED)


class Forgetful(MemoryStore):
    """Does not recall receipts, as if each had been left in the very moment after the question."""

    async def recall(self, scope: Scope, key: str, now_ms: int) -> Receipt | None:
        return None


@pytest.mark.req("ONCE-01")
async def test_a_key_that_was_taken_meanwhile_ends_no_running_turn() -> None:
    stage = Stage()
    async with serving(stage.agent, store=Forgetful()) as world:
        task = await world.send(say(skill="hold", configuration=SOON), metadata=key())
        await stage.began()
        await world.send(say("more", task_id=task.id, configuration=SOON), metadata=key())
        stage.release.set()
        done = await world.reaches(task.id, pb.TASK_STATE_COMPLETED)
    assert texts(done) == ["hello", "more"]


@pytest.mark.req("GEN-03", "SEND-13", "SEND-07")
async def test_a_message_that_found_no_room_leaves_no_config() -> None:
    stage = Stage()
    limits = Limits(waiting_messages=1, drain_grace=0.05)
    async with serving(stage.agent, limits=limits, push_notifications=True) as world:
        task = await world.send(say(skill="hold", configuration=SOON))
        await stage.began()
        await world.send(say("first", task_id=task.id, configuration=SOON))
        inline = pb.TaskPushNotificationConfig(url="https://example.com/")
        late = say("late", task_id=task.id, configuration={"task_push_notification_config": inline, **SOON})
        assert (await refused(world.send(late))).reason == "OVERLOADED"
        stage.release.set()
        await world.reaches(task.id, pb.TASK_STATE_COMPLETED)
        listing = pb.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        assert not (await world.stub.ListTaskPushNotificationConfigs(listing)).configs


@pytest.mark.req("ONCE-01", "BLK-02", "INTR-07")
async def test_a_twin_of_a_turn_that_waits_for_a_credential_hears_of_it_at_once(store: Store) -> None:
    stage = Stage()

    @stage.agent.skill(id="vault", description="Waits for a credential from elsewhere.", tags=["test"], direct=True)
    async def vault(turn: Turn) -> str:
        stage.turns.append(turn)
        await turn.require_auth("Log in over there.")
        await stage.release.wait()
        await turn.status("thanks")
        return "open"

    async with serving(stage.agent, store=store) as world:
        first = await world.send(say(skill="vault"), metadata=key())
        assert first.status.state == pb.TASK_STATE_AUTH_REQUIRED
        async with asyncio.timeout(30):
            assert await world.send(say(skill="vault"), metadata=key()) == first
        stage.release.set()
        await world.reaches(first.id, pb.TASK_STATE_COMPLETED)
    assert len(stage.turns) == 1
