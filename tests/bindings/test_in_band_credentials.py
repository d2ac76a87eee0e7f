"""A credential that an agent asks for in band reaches the turn that asked, and nobody else (spec: SECR-04).

The agent declares no extension, and its clients know none: they send the credential as a text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Agent, Turn
from a2a_server.ports.store import Store
from tests.bindings.actors import AUTH, COMPLETED, FAILED, INPUT, WORKING, at_rest, until
from tests.bindings.test_push_delivery import received
from tests.bindings.test_push_forms import delivery
from tests.bindings.test_sensitive_answers import kept, shown, told
from tests.support.calls import SOON, key
from tests.support.copies import copy_of
from tests.support.house import REDACTED, MemoryStore
from tests.support.receivers import receiver
from tests.support.stage import texts
from tests.support.world import ByHeader, World, as_user, kinds, refused, say, serving

SECRET = "cr3d3nt14l-0f-th3-b4nk"


class Bank:
    """Asks for a credential in several ways. `release` lets the turns end that have been given one."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.read: list[str] = []
        """What the prying skill has found."""
        self.release = asyncio.Event()
        self.release.set()
        self.agent = Agent("Bank", "Knows your balance.", "1.0.0")
        skill = partial(self.agent.skill, description="At the bank.", tags=["money"])
        skill(id="balance")(self.balance)
        skill(id="steadfast", restartable=True)(self.balance)
        skill(id="patient")(self.patient)
        skill(id="elsewhere")(self.elsewhere)
        skill(id="bare")(self.bare)
        skill(id="twice")(self.twice)
        skill(id="clumsy")(self.clumsy)
        skill(id="pry")(self.pry)

    async def balance(self, turn: Turn) -> str | None:
        """Asks for the credential, works with it, and has one more question."""
        self.turns.append(turn)
        if turn.answer is None:
            if turn.number > 1:
                return "42"
            await turn.require_auth("The password?", in_band=True)
            return None
        await turn.status("I look.")
        await self.release.wait()
        await turn.ask("Anything else?")
        return None

    async def patient(self, turn: Turn) -> str:
        """Takes the credential in the turn that asked for it."""
        self.turns.append(turn)
        await turn.require_auth("The password?", in_band=True)
        return f"{len((await turn.next_message()).parts[0].text)} letters."

    async def elsewhere(self, turn: Turn) -> str | None:
        """Gets its credential by another way: what the client says is no secret."""
        self.turns.append(turn)
        if turn.number == 1:
            await turn.require_auth("Log in at bank.example.")
            return None
        return "42"

    async def bare(self, turn: Turn) -> str | None:
        """An event of its own, without words."""
        self.turns.append(turn)
        if turn.number > 1:
            return "42"
        update = pb.TaskStatusUpdateEvent(status=pb.TaskStatus(state=pb.TASK_STATE_AUTH_REQUIRED))
        update.metadata["inBand"] = True
        await turn.emit(update)
        return None

    async def twice(self, turn: Turn) -> str | None:
        """Asks for something harmless as soon as it has the credential."""
        self.turns.append(turn)
        if turn.number == 1:
            await turn.require_auth("The password?", in_band=True)
        elif len(self.turns) == 2:
            await turn.ask("Which account?")
        else:
            return "42"
        return None

    async def clumsy(self, turn: Turn) -> None:
        """Fails over the credential, and with its words."""
        if turn.number == 1:
            return await turn.require_auth("The number?", in_band=True)
        raise ValueError(turn.text)

    async def pry(self, turn: Turn) -> str:
        """Reads whatever a turn can read of other tasks."""
        found = [*turn.context.history, *await turn.context.tasks(), *turn.references]
        self.read.append(shown(found) + repr(turn.context.state) + repr(dict(turn.state)))
        return str(len(found))


@contextmanager
def everything_logged() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


async def answered(world: World, bank: Bank, skill: str = "balance", **more: Any) -> pb.Task:
    """A task whose turn has the credential, and holds it."""
    bank.release.clear()
    task = await world.send(say(skill=skill, **more))
    await world.send(say(SECRET, task_id=task.id, configuration=SOON))
    await world.reaches(task.id, WORKING)
    await until(lambda: len(bank.turns) == 2)
    return task


@pytest.mark.req("SECR-04", "INTR-05")
async def test_a_credential_is_found_nowhere_but_in_the_turn_that_asked(store: Store, tmp_path: Path) -> None:
    bank = Bank()
    with everything_logged() as lines:
        async with serving(bank.agent, store=store, push_notifications=True) as world:
            task = await answered(world, bank)
            messages = await told(world, task.id, over=False)
            assert SECRET.encode() not in kept(store, tmp_path)  # while the turn knows it
            turn = bank.turns[1]
            assert (turn.text, turn.answer, turn.history[-1].parts[0].text) == (SECRET, SECRET, SECRET)
            assert SECRET not in repr(turn.request)

            bank.release.set()
            messages.append(waiting := await world.reaches(task.id, INPUT))
            assert [part.text for part in waiting.history[-1].parts] == [REDACTED]
            messages.append(done := await world.send(say("no", task_id=task.id)))
            assert (done.status.state, texts(done)) == (COMPLETED, ["42"])
            assert SECRET not in shown(list(bank.turns[2].history))  # a later turn of the same task
            messages += await told(world, task.id, over=True)
            await at_rest(world)
            assert SECRET not in shown(messages)
    assert SECRET.encode() not in kept(store, tmp_path)
    assert SECRET not in repr(lines)


@pytest.mark.req("SECR-04")
async def test_streams_show_nothing_of_it(store: Store) -> None:
    async with serving(Bank().agent, store=store) as world:
        task = (await world.stream(say(skill="balance")))[0].task
        items = await world.stream(say(SECRET, task_id=task.id))
        assert kinds(items)[-1] == "INPUT_REQUIRED"
        assert SECRET not in shown(list(items))


@pytest.mark.req("SECR-04")
async def test_webhooks_show_nothing_of_it() -> None:
    bank = Bank()
    async with receiver() as client, serving(bank.agent, delivery=delivery()) as world:
        told_at = {"task_push_notification_config": pb.TaskPushNotificationConfig(url=client.url)}
        task = await world.send(say(skill="balance", configuration=told_at))
        await world.send(say(SECRET, task_id=task.id))
        await world.send(say("no", task_id=task.id))
        bodies = b"".join(one.body for one in await received(client, 9))
    assert b"TASK_STATE_COMPLETED" in bodies
    assert SECRET.encode() not in bodies


@pytest.mark.req("SECR-04", "AGNT-06")
async def test_no_other_skill_finds_it(store: Store) -> None:
    """Neither by the context, nor by a reference, while the turn works with it and afterwards."""
    bank = Bank()
    async with serving(bank.agent, store=store) as world:
        task = await answered(world, bank)
        for _ in range(2):
            await world.send(say(skill="pry", context_id=task.context_id, references=[task.id]))
            bank.release.set()
            await world.reaches(task.id, INPUT)
        naming = say(skill="pry", task_id=task.id)  # the task stays with the skill that it began with
        assert texts(await world.send(naming)) == ["42"]
    assert len(bank.read) == 2
    assert all(REDACTED in read and SECRET not in read for read in bank.read)


@pytest.mark.req("SECR-04", "AUTZ-02")
async def test_no_other_caller_answers_in_its_place_or_reads_it() -> None:
    bank = Bank()
    async with serving(bank.agent, authenticator=ByHeader()) as world:
        task = await world.send(say(skill="balance"), metadata=as_user("ann"))
        for request in (say(SECRET, task_id=task.id), say(SECRET, skill="pry", references=[task.id], task_id=task.id)):
            refusal = await refused(world.stub.SendMessage(request, metadata=as_user("bob")))
            assert refusal.reason == "TASK_NOT_FOUND"
            assert SECRET not in repr(refusal)
        assert len(bank.turns) == 1
        await world.send(say(SECRET, task_id=task.id), metadata=as_user("ann"))
        prying = say(skill="pry", context_id=task.context_id, references=[task.id])
        await world.send(prying, metadata=as_user("bob"))
    assert [SECRET in read or REDACTED in read for read in bank.read] == [False]


@pytest.mark.req("SECR-04", "SEND-13")
async def test_the_turn_that_asked_may_take_it_itself(store: Store, tmp_path: Path) -> None:
    async with serving(Bank().agent, store=store) as world:
        task = await world.send(say(skill="patient"))
        done = await world.send(say(SECRET, task_id=task.id))
        assert texts(done) == [f"{len(SECRET)} letters."]
        assert SECRET not in shown([done])
        await at_rest(world)
    assert SECRET.encode() not in kept(store, tmp_path)


@pytest.mark.req("SECR-04", "SEND-13")
async def test_one_that_is_sent_again_is_withheld_again(store: Store, tmp_path: Path) -> None:
    """Also when something harmless is asked by then."""
    bank = Bank()
    async with serving(bank.agent, store=store) as world:
        task = await world.send(say(skill="twice"))
        for _ in range(2):
            sent = await world.send(say(SECRET, task_id=task.id, message_id="m-2"))
        assert (sent.status.state, texts(sent)) == (COMPLETED, ["42"])
        assert SECRET not in shown([sent])
        assert [turn.text for turn in bank.turns[1:]] == [SECRET] * 2
        await at_rest(world)
    assert SECRET.encode() not in kept(store, tmp_path)


@pytest.mark.req("SECR-04", "ONCE-01")
async def test_not_even_a_hash_is_kept_for_repetitions(store: Store) -> None:
    async with serving(Bank().agent, store=store) as world:
        task = await world.send(say(skill="patient"))
        done = await world.send(say(SECRET, task_id=task.id), metadata=key())
        other = say("another", task_id=task.id)
        assert await world.send(other, metadata=key()) == done  # nothing is there to compare it with


@pytest.mark.req("SECR-04", "SECR-02")
async def test_the_log_does_not_quote_it_when_the_turn_fails(store: Store) -> None:
    with everything_logged() as lines:
        async with serving(Bank().agent, store=store) as world:
            task = await world.send(say(skill="clumsy"))
            failed = await world.send(say(SECRET, task_id=task.id))
            assert failed.status.state == FAILED
    assert [line["error"] for line in lines if line["event"] == "agent.failed"] == ["ValueError"]
    assert SECRET not in shown([failed]) + repr(lines)


@pytest.mark.req("SECR-04")
async def test_the_question_says_so_in_the_task_too(store: Store, tmp_path: Path) -> None:
    """Whoever only reads the task learns how to answer. An event without words gets some."""
    async with serving(Bank().agent, store=store) as world:
        task = await world.send(say(skill="bare"))
        question = (await world.get(task.id)).status.message
        assert (question.role, question.parts[0].text) == (pb.ROLE_AGENT, "Send the credential as the next message.")
        assert question.metadata["inBand"] is True
        done = await world.send(say(SECRET, task_id=task.id))
        assert texts(done) == ["42"]
        assert SECRET not in shown([done])
        await at_rest(world)
    assert SECRET.encode() not in kept(store, tmp_path)


@pytest.mark.req("SECR-04")
async def test_what_is_said_when_the_credential_comes_by_another_way_is_kept(store: Store) -> None:
    async with serving(Bank().agent, store=store) as world:
        task = await world.send(say(skill="elsewhere"))
        assert not task.status.message.HasField("metadata")
        done = await world.send(say("I have logged in.", task_id=task.id))
        assert done.history[-1].parts[0].text == "I have logged in."


@pytest.mark.req("SECR-04", "DURA-02", "INTR-06")
async def test_after_a_crash_it_is_asked_for_again() -> None:
    """Nobody has kept it. The question is the same, and so is what streams do with it."""
    store, bank = MemoryStore(), Bank()
    async with serving(bank.agent, store=store) as world:
        task = await answered(world, bank, "steadfast")
        async with after_a_crash(store) as (again, new):
            waiting = await again.get(task.id)
            assert (waiting.status.state, waiting.status.message.parts[0].text) == (AUTH, "The password?")
            assert not new.turns
            asked_again = (await again.stub.ListTasks(pb.ListTasksRequest(history_length=9))).tasks
            assert SECRET not in shown([waiting, *asked_again])
            items = await again.stream(say(SECRET, task_id=task.id))
            assert kinds(items)[-1] == "INPUT_REQUIRED"
            assert [turn.text for turn in new.turns] == [SECRET]
        bank.release.set()


@asynccontextmanager
async def after_a_crash(store: MemoryStore) -> AsyncIterator[tuple[World, Bank]]:
    bank = Bank()
    async with serving(bank.agent, store=copy_of(store)) as world:
        yield world, bank
