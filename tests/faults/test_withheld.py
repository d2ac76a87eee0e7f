"""Turns that knew a sensitive answer when the process died: the question is put anew (spec: XTRA-04)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Turn
from a2a_server.ports.agent import Outlet, Plan, TurnRequest
from tests.bindings.actors import CALL, COMPLETED, FAILED, INPUT, WORKING, Actor, at_rest, until
from tests.conformance.authors import Author
from tests.support.copies import copy_of
from tests.support.guard import Guard, answer, asked
from tests.support.house import MemoryStore, SqliteStore, TurnInput
from tests.support.stage import texts
from tests.support.world import World, say, serving

SECRET = "s3cr3t-0f-th3-d0or"
SOON: dict[str, Any] = {"return_immediately": True}


class Keeper(Guard):
    """Adds skills that survive a crash."""

    def __init__(self) -> None:
        super().__init__()
        skill = partial(self.agent.skill, description="A door.", tags=["test"], restartable=True)
        skill(id="steps")(self.steps)
        skill(id="enduring")(self.linger)
        skill(id="hard_of_hearing")(self.deaf)
        skill(id="draws")(self.draws)

    async def steps(self, turn: Turn) -> str | None:
        """Has used the word when it stops, and saved how far it came."""
        self.turns.append(turn)
        if turn.number == 1:
            await turn.ask("The word?", sensitive=True)
            return None
        await turn.checkpoint(tried=turn.state.get("tried", 0) + 1)
        await self.release.wait()
        return f"{turn.state['tried']} tries"

    async def draws(self, turn: Turn) -> str | None:
        """Has shown something before it asks, and listens."""
        self.turns.append(turn)
        if turn.rerun:
            await turn.status("Again.")
            return "done"
        async with turn.artifact("first") as out:
            await out.write("precious")
        await turn.checkpoint()
        await turn.ask("The word?", sensitive=True)
        await turn.next_message()
        await turn.status("I know it.")
        await asyncio.Event().wait()
        return None


@asynccontextmanager
async def restarted(store: MemoryStore) -> AsyncIterator[tuple[World, Keeper]]:
    """A new server over what a crash right now would leave."""
    keeper = Keeper()
    async with serving(keeper.agent, store=copy_of(store)) as world:
        yield world, keeper


async def answered(world: World, keeper: Keeper, skill: str) -> pb.Task:
    """A task whose turn has been given the secret, and holds it."""
    keeper.release.clear()
    task = await world.send(say(skill=skill))
    await world.send(answer(task, SECRET, configuration=SOON))
    await world.reaches(task.id, WORKING)
    await until(lambda: len(keeper.turns) == (1 if skill == "enduring" else 2))
    return task


async def leaves_a_turn(world: World) -> bool:
    """Whether the next process would find a turn."""
    return bool(await world.core.services.store.claim("next", 10))


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def said(task: pb.Task) -> list[str]:
    return [message.parts[0].text for message in task.history]


@pytest.mark.req("XTRA-04", "DURA-02", "DURA-06")
async def test_a_restartable_turn_asks_again_and_goes_on_from_its_checkpoint() -> None:
    store, keeper = MemoryStore(), Keeper()
    async with serving(keeper.agent, store=store) as world:
        task = await answered(world, keeper, "steps")
        await keeper.turns[1].checkpoint()
        async with restarted(store) as (again, new):
            waiting = await again.get(task.id)
            assert waiting.status.state == INPUT
            assert asked(waiting) == asked(task)
            assert waiting.status.message.message_id != task.status.message.message_id
            assert said(waiting) == ["hello", "The word?", ""]
            assert not new.turns
            assert not await leaves_a_turn(again)
            done = await again.send(answer(waiting, SECRET))
            assert texts(done) == ["2 tries"]
            assert [turn.answer for turn in new.turns] == [SECRET]
            assert [turn.rerun for turn in new.turns] == [False]
            assert SECRET not in str(done)
        async with restarted(store) as (again, _):  # as often as it likes
            assert (await again.get(task.id)).status.state == INPUT


@pytest.mark.req("XTRA-04", "DURA-02")
async def test_any_other_turn_is_failed_as_ever() -> None:
    store, keeper = MemoryStore(), Keeper()
    async with serving(keeper.agent, store=store) as world:
        task = await answered(world, keeper, "secret")
        async with restarted(store) as (again, _):
            failed = await again.get(task.id)
            assert failed.status.state == FAILED
            assert failed.status.message.metadata["reason"] == "SERVER_INTERRUPTED"


@pytest.mark.req("XTRA-04", "DURA-08")
async def test_a_server_that_stops_in_peace_leaves_the_same(tmp_path: Path) -> None:
    """Over a file, and nothing of the answer is in it."""
    store, keeper = SqliteStore(tmp_path / "a2a.db"), Keeper()
    async with serving(keeper.agent, store=store) as world:
        task = await answered(world, keeper, "steadfast")
    content = contents(tmp_path)
    assert task.id.encode() in content
    assert SECRET.encode() not in content
    keeper = Keeper()
    async with serving(keeper.agent, store=store) as world:
        assert asked(await world.get(task.id)) == asked(task)
        done = await world.send(answer(task, SECRET))
        assert (done.status.state, texts(done)) == (COMPLETED, ["Come in."])


@pytest.mark.req("XTRA-04", "SEND-13")
async def test_an_answer_that_waited_behind_its_question_is_asked_for_again() -> None:
    """Nobody has begun on it, and nobody can; an agent that cannot be run again needs not fail for that."""
    store, keeper = MemoryStore(), Keeper()
    keeper.release.clear()
    async with serving(keeper.agent, store=store) as world:
        task = await world.send(say(skill="deaf"))
        await world.send(answer(task, SECRET, configuration=SOON))
        async with restarted(store) as (again, new):
            waiting = await again.get(task.id)
            assert asked(waiting) == asked(task)
            done = await again.send(answer(waiting, SECRET))
            assert [turn.answer for turn in new.turns] == [SECRET]
            assert done.status.state == COMPLETED
        keeper.release.set()


@pytest.mark.req("XTRA-04", "SEND-13", "DURA-02")
async def test_a_turn_that_had_taken_its_answer_runs_again_and_asks() -> None:
    """The turn itself was begun by something that was kept; the answer behind it is struck out."""
    store, keeper = MemoryStore(), Keeper()
    async with serving(keeper.agent, store=store) as world:
        task = await answered(world, keeper, "enduring")
        async with restarted(store) as (again, new):
            waiting = await again.reaches(task.id, INPUT)
            assert asked(waiting).request_id == "word"
            await until(lambda: len(new.turns) == 1)
            assert new.turns[0].rerun
            done = await again.send(answer(waiting, SECRET))
            assert texts(done) == [f"{len(SECRET)} letters."]
            assert len(new.turns) == 1
            await at_rest(again)
            assert not await leaves_a_turn(again)


@pytest.mark.req("XTRA-04", "SEND-13", "DURA-02")
@pytest.mark.parametrize("second", ["other", None])
async def test_a_newer_question_stands(second: str | None) -> None:
    store, keeper = MemoryStore(), Keeper()
    keeper.release.clear()

    @keeper.agent.skill(id="fickle", description="A door.", tags=["test"])
    async def fickle(turn: Turn) -> None:
        await turn.ask("The word?", sensitive=True)
        await keeper.release.wait()
        await turn.ask("Your name?", request_id=second)
        await turn.checkpoint()
        keeper.turns.append(turn)
        await never.wait()

    never = asyncio.Event()
    async with serving(keeper.agent, store=store) as world:
        task = await world.send(say(skill="fickle"))
        await world.send(answer(task, SECRET, configuration=SOON))
        keeper.release.set()
        await until(lambda: len(keeper.turns) == 1)
        async with restarted(store) as (again, new):
            waiting = await again.get(task.id)
            assert waiting.status == (await world.get(task.id)).status
            assert waiting.status.message.parts[0].text == "Your name?"
            assert not new.turns
        never.set()


@pytest.mark.req("XTRA-04", "DURA-02")
async def test_a_question_that_is_no_longer_kept_cannot_be_put_anew() -> None:
    """As when a history was cut short: the task fails instead of working for ever."""
    store, actor = MemoryStore(), Actor(nothing, plan=Plan(restartable=True))
    author, message = Author(store, scope=CALL.scope), TurnInput(CALL, say())
    message.number, message.kept = 1, say("kept").message
    await author.create(claim="dead", begin=[message.stored()])
    async with serving(actor, store=store) as world:
        failed = await world.get(author.task_id)
        assert failed.status.state == FAILED
        assert failed.status.message.metadata["reason"] == "SERVER_INTERRUPTED"
    assert not actor.requests


async def nothing(request: TurnRequest, outlet: Outlet) -> None:
    """An agent that is never asked."""


@pytest.mark.req("XTRA-04", "DURA-02")
async def test_what_was_shown_before_is_there_after_a_restart() -> None:
    store, keeper = MemoryStore(), Keeper()
    async with serving(keeper.agent, store=store) as world:
        task = await world.send(say(skill="draws"))
        await world.send(answer(task, SECRET, configuration=SOON))
        await world.reaches(task.id, WORKING)
        async with restarted(store) as (again, _):
            assert texts(await again.reaches(task.id, COMPLETED)) == ["precious", "done"]
