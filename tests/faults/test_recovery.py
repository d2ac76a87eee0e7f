"""What a dead process left behind is settled at the next start (spec: DURA-02, DURA-06).

A copy of the memory store, taken in the middle of something, is what a crash in that moment would have left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Turn
from tests.support.copies import copy_of
from tests.support.house import Limits, MemoryStore
from tests.support.stage import Stage, texts
from tests.support.world import ByHeader, World, as_user, refused, say, serving

SOON: dict[str, Any] = {"return_immediately": True}
ACTIVE = {pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING}
TEXT = "The server was interrupted while the agent was working on this task. Send the message again to start over."


class Company(Stage):
    """Adds skills that survive a crash."""

    def __init__(self) -> None:
        super().__init__()
        skill = partial(self.agent.skill, description="A part to play.", tags=["test"])
        skill(id="steps", restartable=True)(self.steps)
        skill(id="wait_for_auth", restartable=True)(self.wait_for_auth)
        skill(id="ask_and_linger")(self.ask_and_linger)

    async def steps(self, turn: Turn) -> str:
        """Three steps, the state saved after each; waits between the second and the third."""
        self.turns.append(turn)
        for step in range(turn.state.get("done", 0) + 1, 4):
            if step == 3:
                await self.release.wait()
            await turn.add_artifact(f"step {step}{' again' if turn.rerun else ''}")
            await turn.checkpoint(done=step)
        return turn.text

    async def wait_for_auth(self, turn: Turn) -> str:
        """Asks for a credential that comes by another way, and waits for it."""
        self.turns.append(turn)
        await turn.require_auth("Log in over there.")
        await self.release.wait()
        await turn.status("thanks")
        return "in"

    async def ask_and_linger(self, turn: Turn) -> str | None:
        """Asks in its first turn, and does not return at once."""
        self.turns.append(turn)
        if turn.number > 1:
            return turn.text
        await turn.ask("What colour?")
        await self.release.wait()
        return None


@asynccontextmanager
async def restarted(store: MemoryStore, **options: Any) -> AsyncIterator[tuple[World, Company]]:
    """A new server over what a crash right now would leave."""
    company = Company()
    async with serving(company.agent, store=copy_of(store), **options) as world:
        yield world, company


async def until(world: World, task_id: str, said: str) -> None:
    """Wait until the task says something."""
    async with asyncio.timeout(30):
        while said not in str(await world.get(task_id)):  # noqa: ASYNC110 - as a client polls
            await asyncio.sleep(0.001)


def reason(task: pb.Task) -> str:
    return task.status.message.metadata.fields["reason"].string_value


@pytest.mark.req("DURA-02", "DURA-06")
async def test_a_restartable_turn_goes_on_from_its_checkpoint() -> None:
    store, company = MemoryStore(), Company()
    async with serving(company.agent, store=store) as world:
        task = await world.send(say("done", skill="steps", configuration=SOON))
        await until(world, task.id, "step 2")
        async with restarted(store) as (again, new):
            new.release.set()
            done = await again.reaches(task.id, pb.TASK_STATE_COMPLETED)
            assert texts(done) == ["step 1", "step 2", "step 3 again", "done"]
            assert [message.parts[0].text for message in done.history] == ["done"]
            (turn,) = new.turns
            assert turn.rerun
            assert turn.number == 1
        assert not company.turns[0].rerun


@pytest.mark.req("DURA-02", "STAT-04")
async def test_any_other_turn_is_failed_and_says_why() -> None:
    store, company = MemoryStore(), Company()
    async with serving(company.agent, store=store) as world:
        task = await world.send(say(skill="hold", configuration=SOON))
        await until(world, task.id, "working on it")
        async with restarted(store) as (again, new):
            failed = await again.get(task.id)
            assert failed.status.state == pb.TASK_STATE_FAILED
            assert failed.status.message.parts[0].text == TEXT
            assert failed.status.message.role == pb.ROLE_AGENT
            assert reason(failed) == "SERVER_INTERRUPTED"
            assert failed.history == task.history
            assert (await refused(again.send(say(task_id=task.id)))).reason == "UNSUPPORTED_OPERATION"
            assert (await again.stub.ListTasks(pb.ListTasksRequest(status=failed.status.state))).total_size == 1
            assert not new.turns
        async with restarted(store) as (again, _):
            assert (await again.get(task.id)).status.state == pb.TASK_STATE_FAILED


@pytest.mark.req("DURA-02")
async def test_what_has_no_turn_is_left_alone() -> None:
    store, company = MemoryStore(), Company()
    async with serving(company.agent, store=store) as world:
        tasks = [await world.send(say(skill=skill)) for skill in ("echo", "fail", "bare", "ask")]
        async with restarted(store) as (again, new):
            for task in tasks:
                assert await again.get(task.id) == task
            done = await again.send(say("red", task_id=tasks[-1].id))
            assert texts(done) == ["red it is"]
            assert new.turns[0].number > 1


@pytest.mark.req("DURA-02", "DURA-06")
async def test_a_follow_up_turn_is_settled_like_a_first_one() -> None:
    store, company = MemoryStore(), Company()

    @company.agent.skill(id="talk", description="Asks, then works.", tags=["test"])
    async def talk(turn: Turn) -> None:
        if turn.number == 1:
            return await turn.ask("What colour?")
        await turn.status(f"painting it {turn.text}")
        await company.release.wait()
        return None

    async with serving(company.agent, store=store) as world:
        asked = await world.send(say(skill="talk"))
        await world.send(say("red", task_id=asked.id, configuration=SOON))
        await until(world, asked.id, "painting it red")
        async with restarted(store) as (again, _):
            failed = await again.get(asked.id)
            assert reason(failed) == "SERVER_INTERRUPTED"
            assert [message.parts[0].text for message in failed.history] == ["hello", "What colour?", "red"]


@pytest.mark.req("DURA-02", "SEND-13")
async def test_messages_that_waited_behind_a_restartable_turn_get_theirs() -> None:
    store, company = MemoryStore(), Company()
    async with serving(company.agent, store=store) as world:
        task = await world.send(say("one", skill="steps", configuration=SOON))
        await until(world, task.id, "step 2")
        for text in ("two", "three"):
            await world.send(say(text, task_id=task.id, configuration=SOON))
        async with restarted(store) as (again, new):
            new.release.set()
            done = await again.reaches(task.id, pb.TASK_STATE_COMPLETED)
            assert [turn.text for turn in new.turns] == ["one", "two", "three"]
            assert [turn.rerun for turn in new.turns] == [True, False, False]
            assert texts(done)[-1] == "three"


@pytest.mark.req("DURA-02", "AGNT-04")
async def test_tasks_that_waited_for_a_slot() -> None:
    store, company = MemoryStore(), Company()
    limits = Limits(running_turns=1, drain_grace=0.05)
    async with serving(company.agent, store=store, limits=limits) as world:
        first = await world.send(say(skill="hold", configuration=SOON))
        await until(world, first.id, "working on it")
        lost = await world.send(say(skill="echo", configuration=SOON))
        kept = [await world.send(say(f"k{number}", skill="steps", configuration=SOON)) for number in range(3)]
        async with restarted(store, limits=limits) as (again, new):
            new.release.set()
            for task in kept:
                await again.reaches(task.id, pb.TASK_STATE_COMPLETED)
            assert [turn.text for turn in new.turns] == ["k0", "k1", "k2"]
            assert reason(await again.get(lost.id)) == reason(await again.get(first.id)) == "SERVER_INTERRUPTED"


@pytest.mark.req("DURA-02", "INTR-07")
async def test_a_restartable_turn_that_waited_for_a_credential_waits_again() -> None:
    store, company = MemoryStore(), Company()
    async with serving(company.agent, store=store) as world:
        task = await world.send(say(skill="wait_for_auth"))
        assert task.status.state == pb.TASK_STATE_AUTH_REQUIRED
        async with restarted(store) as (again, new):
            await again.reaches(task.id, pb.TASK_STATE_AUTH_REQUIRED)
            new.release.set()
            done = await again.reaches(task.id, pb.TASK_STATE_COMPLETED)
            assert texts(done) == ["in"]
            assert [turn.rerun for turn in new.turns] == [True]


@pytest.mark.req("DURA-02", "SEND-13")
async def test_a_message_that_waited_behind_a_question_is_its_answer() -> None:
    store, company = MemoryStore(), Company()
    async with serving(company.agent, store=store) as world:
        task = await world.send(say(skill="ask_and_linger"))
        assert task.status.state == pb.TASK_STATE_INPUT_REQUIRED
        async with restarted(store) as (again, _):
            assert await again.get(task.id) == task
        joined = await world.send(say("red", task_id=task.id, configuration=SOON))
        assert len(joined.history) == 3
        async with restarted(store) as (again, new):
            done = await again.reaches(task.id, pb.TASK_STATE_COMPLETED)
            assert [turn.text for turn in new.turns] == ["red"]
            assert texts(done) == ["red"]


@pytest.mark.req("DURA-02", "AUTN-03", "EXTN-02", "CTX-11", "TENA-05")
async def test_a_rerun_knows_all_that_the_first_run_knew() -> None:
    store, company = MemoryStore(), Company()
    ann: Mapping[str, Any] = {"metadata": as_user("ann", x_tenant="north")}
    async with serving(company.agent, store=store, authenticator=ByHeader()) as world:
        other = await world.send(say(), **ann)
        request = say("hello", skill="steps", references=[other.id], configuration=SOON)
        request.metadata["colour"] = "red"
        request.configuration.accepted_output_modes.append("text/plain")
        await world.send(request, **ann)
        while len(company.turns) < 2:  # noqa: ASYNC110 - the skills run in this very loop
            await asyncio.sleep(0)
        async with restarted(store, authenticator=ByHeader()) as (_, new):
            while not new.turns:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0)
            before, after = company.turns[1], new.turns[0]
            for name in ("caller", "tenant", "metadata", "message", "accepted_output_modes", "references", "number"):
                assert getattr(after, name) == getattr(before, name), name
            assert after.caller.owner == "ann"


@pytest.mark.req("DURA-02", "ONCE-01")
@pytest.mark.parametrize("skill", ["hold", "maybe"])
async def test_a_send_whose_server_died_may_be_repeated_under_its_key(skill: str) -> None:
    store, company = MemoryStore(), Company()
    request, key = say("small talk", skill=skill), (("idempotency-key", "k"),)
    async with serving(company.agent, store=store) as world:
        lost = asyncio.ensure_future(world.stub.SendMessage(request, metadata=key))
        while not company.turns:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        async with restarted(store) as (again, new):
            new.release.set()
            answer = await again.stub.SendMessage(request, metadata=key)
            if skill == "hold":  # it had a task, and that is what became of it
                assert reason(answer.task) == "SERVER_INTERRUPTED"
                assert not new.turns
            else:  # nothing had come of it
                assert answer.message.parts[0].text == "indeed"
                assert len(new.turns) == 1
            assert await again.stub.SendMessage(request, metadata=key) == answer
        company.release.set()
        await lost


@pytest.mark.req("DURA-02")
async def test_an_agent_that_has_lost_the_skill_fails_the_task() -> None:
    store, company = MemoryStore(), Company()
    async with serving(company.agent, store=store) as world:
        task = await world.send(say("done", skill="steps", configuration=SOON))
        await until(world, task.id, "step 2")
        async with serving(Stage().agent, store=copy_of(store)) as again:
            failed = await again.get(task.id)
            assert (failed.status.state, reason(failed)) == (pb.TASK_STATE_FAILED, "SERVER_INTERRUPTED")
            assert texts(failed) == ["step 1", "step 2"]


@pytest.mark.req("DURA-02")
async def test_many_tasks_are_settled_before_the_door_opens() -> None:
    store, company = MemoryStore(), Company()
    limits = Limits(running_turns=1000, drain_grace=0.05)
    async with serving(company.agent, store=store, limits=limits) as world:
        sends = (world.send(say(skill="hold", configuration=SOON)) for _ in range(200))
        await asyncio.gather(*sends)
        async with restarted(store) as (again, _):
            first = await again.stub.ListTasks(pb.ListTasksRequest(status=pb.TASK_STATE_FAILED))
            assert first.total_size == 200
            for state in ACTIVE:
                assert not (await again.stub.ListTasks(pb.ListTasksRequest(status=state))).total_size
