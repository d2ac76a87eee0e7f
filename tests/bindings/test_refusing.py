"""Skills that refuse a message with an error of the protocol, and leave no task behind (spec: AGNT-12, ERRS-01)."""

from __future__ import annotations

import asyncio

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import (
    INPUT_REQUESTS,
    Agent,
    ContentTypeNotSupported,
    InvalidParams,
    Turn,
    UnsupportedOperation,
)
from a2a_server.ports.authenticator import ANONYMOUS
from a2a_server.ports.store import Store
from tests.bindings.actors import CANCELED, COMPLETED, FAILED, INPUT, PATIENT, WORKING, Gate, at_rest
from tests.support.calls import key
from tests.support.deliveries import Pigeonhole, deliver
from tests.support.house import IdleTask, Limits, Scope
from tests.support.world import Refusal, World, kinds, refused, say, serving

NOW = {"return_immediately": True}
A2A = "a2a-protocol.org"


NO = UnsupportedOperation("I do not do that.")
SIZE = {"metadata.size": "must be at most 10"}
REFUSALS = {
    "at once": NO,
    "later": NO,
    "waits": NO,
    "type": ContentTypeNotSupported("I read no TIFF."),
    "parts": InvalidParams({"message.parts": "must be one"}),
    "field": InvalidParams(SIZE),
    "fields": InvalidParams({**SIZE, "metadata.colour": "must be red"}),
    "too late": InvalidParams(SIZE),
}


class Picky:
    """Refuses what it is told to refuse, as early or as late as it is told."""

    def __init__(self) -> None:
        self.turns = 0
        self.gate = Gate()
        self.agent = agent = Agent("Picky", "Takes few things.", "1.0.0", default_input_modes=["*/*"])
        agent.skill(id="pick", tags=["test"], may_refuse=True)(self.pick)
        agent.skill(id="chat", tags=["test"], direct=True)(self.chat)
        agent.skill(id="plain", tags=["test"])(self.pick)

    async def pick(self, turn: Turn) -> None:
        self.turns += 1
        text = turn.text
        if text == "later":
            await asyncio.sleep(0.01)
        if text in {"waits", "works"}:
            await self.gate.wait()
        if text == "too late":
            await turn.status("Working on it …")
        if text in REFUSALS:
            raise REFUSALS[text]
        if text == "ask":
            return await turn.ask("What?")
        return await turn.add_artifact(text)

    async def chat(self, turn: Turn) -> None:
        if turn.text == "rude":
            raise UnsupportedOperation("I do not talk about that.")
        await turn.reply("hi")


async def total(world: World) -> int:
    return int((await world.stub.ListTasks(pb.ListTasksRequest())).total_size)


def told(refusal: Refusal) -> tuple[str, str, str, str]:
    return refusal.code.name, refusal.reason, refusal.domain, refusal.message


UNSUPPORTED = ("FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", A2A, "I do not do that.")


async def nothing_remains(world: World) -> None:
    """No task, no turn, no slot, and nobody who reads a log."""
    await at_rest(world)
    assert await total(world) == 0
    assert (world.core.services.agents.root.slots.running, world.core.services.agents.root.slots.waiting) == (0, 0)
    assert world.core.services.log.watched == 0


@pytest.mark.req("AGNT-12", "ERRS-01")
@pytest.mark.parametrize("text", ["at once", "later"])
@pytest.mark.parametrize("configuration", [{}, NOW], ids=["blocking", "immediate"])
async def test_a_refused_send_leaves_no_task(store: Store, text: str, configuration: dict[str, bool]) -> None:
    async with serving(Picky().agent, store=store) as world:
        assert told(await refused(world.stub.SendMessage(say(text, configuration=configuration)))) == UNSUPPORTED
        await nothing_remains(world)


@pytest.mark.req("AGNT-12")
@pytest.mark.parametrize("text", ["at once", "later"])
async def test_a_refused_stream_has_no_event(store: Store, text: str) -> None:
    async with serving(Picky().agent, store=store) as world:
        assert told(await refused(world.stream(say(text)))) == UNSUPPORTED
        await nothing_remains(world)


@pytest.mark.req("AGNT-12", "ERRS-01", "ERRS-05")
async def test_the_errors_say_what_is_wrong() -> None:
    async with serving(Picky().agent) as world:
        kind = await refused(world.stub.SendMessage(say("type")))
        assert told(kind) == ("INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED", A2A, "I read no TIFF.")
        one = await refused(world.stub.SendMessage(say("field")))
        assert told(one) == ("INVALID_ARGUMENT", "INVALID_PARAMS", A2A, "metadata.size: must be at most 10")
        assert one.fields == {"metadata.size": "must be at most 10"}
        two = await refused(world.stub.SendMessage(say("fields")))
        assert two.message == "2 fields of the request are wrong."
        assert two.fields == {"metadata.size": "must be at most 10", "metadata.colour": "must be red"}
        await nothing_remains(world)


@pytest.mark.req("AGNT-12")
async def test_a_message_that_is_not_refused_makes_a_task_as_ever(store: Store) -> None:
    async with serving(Picky().agent, store=store) as world:
        task = await world.send(say("yes", metadata={"a": 1}))
        assert task.status.state == COMPLETED
        assert task.artifacts[0].parts[0].text == "yes"
        assert [said.parts[0].text for said in task.history] == ["yes"]
        items = await world.stream(say("yes"))
        assert kinds(items) == ["task", "WORKING", "artifact_update", "COMPLETED"]
        assert await total(world) == 2


@pytest.mark.req("AGNT-12")
async def test_nothing_is_seen_before_the_first_event_and_everything_after_it() -> None:
    picky = Picky()
    async with serving(picky.agent) as world:
        sending = asyncio.ensure_future(world.send(say("works", configuration=NOW)))
        await picky.gate.reached.wait()
        assert await total(world) == 0
        picky.gate.open()
        task = await sending
        await world.reaches(task.id, COMPLETED)


@pytest.mark.req("AGNT-12")
@pytest.mark.parametrize("streamed", [False, True])
async def test_once_there_is_an_event_a_refusal_fails_the_task(store: Store, *, streamed: bool) -> None:
    async with serving(Picky().agent, store=store) as world:
        if streamed:
            items = await world.stream(say("too late"))
            assert kinds(items) == ["task", "WORKING", "FAILED"]
            status = items[-1].status_update.status
        else:
            status = (await world.send(say("too late"))).status
        assert status.state == FAILED
        assert status.message.parts[0].text == "metadata.size: must be at most 10"
        assert status.message.metadata["reason"] == "INVALID_PARAMS"


@pytest.mark.req("AGNT-12")
async def test_a_skill_that_did_not_say_so_cannot_refuse(store: Store) -> None:
    async with serving(Picky().agent, store=store) as world:
        for text in ("at once", "later"):
            status = (await world.send(say(text, skill="plain"))).status
            assert (status.state, status.message.parts[0].text) == (FAILED, "I do not do that.")


@pytest.mark.req("AGNT-12", "SEND-09")
async def test_a_direct_skill_may_refuse_as_well() -> None:
    async with serving(Picky().agent) as world:
        refusal = await refused(world.stub.SendMessage(say("rude", skill="chat")))
        assert (refusal.reason, refusal.message) == ("UNSUPPORTED_OPERATION", "I do not talk about that.")
        await nothing_remains(world)


# -- what came with the message


@pytest.mark.req("AGNT-12", "ONCE-01")
@pytest.mark.parametrize("skill", ["pick", "chat"])
async def test_the_key_of_a_refused_send_is_free_again(store: Store, skill: str) -> None:
    picky = Picky()
    async with serving(picky.agent, store=store) as world:
        wrong = say("later" if skill == "pick" else "rude", skill=skill)
        for _ in range(2):  # it runs again
            assert (await refused(world.stub.SendMessage(wrong, metadata=key()))).reason == "UNSUPPORTED_OPERATION"
        right = say("yes", skill=skill)
        first = await world.stub.SendMessage(right, metadata=key())
        assert await world.stub.SendMessage(right, metadata=key()) == first
        assert (await refused(world.stub.SendMessage(wrong, metadata=key()))).reason == "INVALID_PARAMS"
    assert picky.turns == (3 if skill == "pick" else 0)


@pytest.mark.req("AGNT-12", "ONCE-01")
async def test_twins_with_a_key_are_refused_together(store: Store) -> None:
    picky = Picky()
    async with serving(picky.agent, store=store) as world:
        twins = [asyncio.ensure_future(refused(world.stub.SendMessage(say("waits"), metadata=key()))) for _ in range(5)]
        await picky.gate.reached.wait()
        picky.gate.open()
        assert {told(refusal) for refusal in await asyncio.gather(*twins)} == {UNSUPPORTED}
        await nothing_remains(world)


@pytest.mark.req("AGNT-12", "PAID-01")
async def test_a_refused_send_tells_no_webhook() -> None:
    hole = Pigeonhole()
    async with serving(Picky().agent, delivery=deliver(hole)) as world:
        config = pb.TaskPushNotificationConfig(url="https://hooks.example/a2a")
        hooked = {"task_push_notification_config": config}
        await refused(world.stub.SendMessage(say("later", configuration=hooked)))
        await nothing_remains(world)
        await world.send(say("yes", configuration=hooked))
        async with asyncio.timeout(30):
            while len(hole.notices) < 4:  # noqa: ASYNC110 - the relay is an actor of its own
                await asyncio.sleep(0.005)
        assert len({notice.hook.config.task_id for notice in hole.notices}) == 1


@pytest.mark.req("AGNT-12", "AGNT-04")
async def test_a_refused_turn_gives_its_slot_to_the_next() -> None:
    picky = Picky()
    async with serving(picky.agent, limits=Limits(running_turns=1, drain_grace=0.05)) as world:
        first = asyncio.ensure_future(refused(world.stub.SendMessage(say("waits"))))
        await picky.gate.reached.wait()
        others = [asyncio.ensure_future(refused(world.stub.SendMessage(say("at once")))) for _ in range(3)]
        async with asyncio.timeout(30):
            while world.core.services.agents.root.slots.waiting < 3:  # noqa: ASYNC110 - as the queue fills
                await asyncio.sleep(0.005)
        assert await total(world) == 0
        picky.gate.open()
        assert {told(refusal) for refusal in await asyncio.gather(first, *others)} == {UNSUPPORTED}
        await nothing_remains(world)


# -- follow-ups


async def asked(world: World) -> pb.Task:
    task = await world.send(say("ask"))
    assert task.status.state == INPUT
    await at_rest(world)
    return await world.get(task.id)


@pytest.mark.req("AGNT-12", "CTX-05")
@pytest.mark.parametrize("text", ["at once", "later"])
@pytest.mark.parametrize("way", ["blocking", "immediate", "stream", "key"])
async def test_a_refused_follow_up_leaves_the_task_as_it_was(store: Store, text: str, way: str) -> None:
    async with serving(Picky().agent, store=store) as world:
        before = await asked(world)
        log = await store.entries(before.id, 0, 100)
        request = say(text, task_id=before.id, message_id="m-2", configuration=NOW if way == "immediate" else {})
        more = {"metadata": key()} if way == "key" else {}
        call = world.stream(request) if way == "stream" else world.stub.SendMessage(request, **more)
        assert told(await refused(call)) == UNSUPPORTED
        await at_rest(world)
        assert await world.get(before.id) == before
        assert await store.entries(before.id, 0, 100) == log
        after = await world.send(say("yes", task_id=before.id, message_id="m-3"), **more)
        assert after.status.state == COMPLETED
        assert [said.message_id for said in after.history if said.role == pb.ROLE_USER] == ["m-1", "m-3"]


@pytest.mark.req("AGNT-12", "CTX-05", "STRM-01")
async def test_a_follow_up_that_is_taken_looks_as_ever() -> None:
    async with serving(Picky().agent) as world:
        before = await asked(world)
        items = await world.stream(say("yes", task_id=before.id, message_id="m-2"))
        assert kinds(items) == ["task", "artifact_update", "COMPLETED"]
        assert items[0].task.status.state == WORKING
        assert [said.message_id for said in items[0].task.history if said.role == pb.ROLE_USER] == ["m-1", "m-2"]
        again = await asked(world)
        task = await world.send(say("ask", task_id=again.id, message_id="m-2", configuration=NOW))
        assert [said.message_id for said in task.history if said.role == pb.ROLE_USER] == ["m-1", "m-2"]
        await world.reaches(again.id, INPUT)


@pytest.mark.req("AGNT-12", "ONCE-01")
async def test_a_follow_up_with_a_key_runs_once() -> None:
    picky = Picky()
    async with serving(picky.agent) as world:
        before = await asked(world)
        request = say("yes", task_id=before.id, message_id="m-2")
        first, second = await asyncio.gather(*(world.send(request, metadata=key()) for _ in range(2)))
        assert first == second
    assert picky.turns == 2


@pytest.mark.req("AGNT-12", "SEND-13")
async def test_who_writes_meanwhile_waits_for_the_decision() -> None:
    picky = Picky()
    async with serving(picky.agent) as world:
        before = await asked(world)
        first = asyncio.ensure_future(
            refused(world.stub.SendMessage(say("waits", task_id=before.id, message_id="m-2")))
        )
        await picky.gate.reached.wait()
        second = asyncio.ensure_future(world.send(say("yes", task_id=before.id, message_id="m-3")))
        await asyncio.sleep(0.02)
        assert await world.get(before.id) == before
        picky.gate.open()
        assert told(await first) == UNSUPPORTED
        task = await second
        assert [said.message_id for said in task.history if said.role == pb.ROLE_USER] == ["m-1", "m-3"]


@pytest.mark.req("AGNT-12", "CANC-04")
async def test_a_cancel_takes_the_message_in_that_is_being_looked_at() -> None:
    picky = Picky()
    async with serving(picky.agent, limits=PATIENT) as world:
        before = await asked(world)
        sending = asyncio.ensure_future(world.send(say("waits", task_id=before.id, message_id="m-2")))
        await picky.gate.reached.wait()
        canceled = await world.stub.CancelTask(pb.CancelTaskRequest(id=before.id))
        assert canceled.status.state == CANCELED
        assert (await sending).status.state == CANCELED
        assert [said.message_id for said in canceled.history if said.role == pb.ROLE_USER] == ["m-1", "m-2"]


@pytest.mark.req("AGNT-12", "DURA-08")
async def test_a_stop_of_the_server_leaves_the_waiting_task_alone(store: Store) -> None:
    picky = Picky()
    async with serving(picky.agent, store=store) as world:
        before = await asked(world)
        sending = asyncio.ensure_future(refused(world.stub.SendMessage(say("waits", task_id=before.id))))
        await picky.gate.reached.wait()
        await world.core.drain()
        assert (await sending).reason == "UNAVAILABLE"
        record = await store.load(Scope("", ANONYMOUS), before.id)
        assert record is not None
        assert record.task == before


@pytest.mark.req("AGNT-12", "AGNT-05")
async def test_a_turn_that_takes_too_long_to_decide_has_taken_the_message(store: Store) -> None:
    async with serving(Picky().agent, store=store, limits=Limits(turn_timeout=0.1, drain_grace=0.05)) as world:
        before = await asked(world)
        task = await world.send(say("waits", task_id=before.id, message_id="m-2"))
        assert (task.status.state, task.status.message.metadata["reason"]) == (FAILED, "TURN_TIMEOUT")
        assert [said.message_id for said in task.history if said.role == pb.ROLE_USER] == ["m-1", "m-2"]


@pytest.mark.req("AGNT-12", "CANX-02")
async def test_a_task_that_ended_meanwhile_takes_no_message(store: Store) -> None:
    """As when its question runs out of time in the moment in which the turn begins."""
    picky = Picky()
    async with serving(picky.agent, store=store) as world:
        before = await asked(world)
        sending = asyncio.ensure_future(refused(world.stub.SendMessage(say("works", task_id=before.id))))
        await picky.gate.reached.wait()
        scope = Scope("", ANONYMOUS)
        record = await world.core.services.find(scope, before.id)
        await IdleTask(world.core.services, scope, record).move(CANCELED)
        picky.gate.open()
        assert (await sending).reason == "UNAVAILABLE"
        await at_rest(world)
        assert (await world.get(before.id)).status.state == CANCELED


@pytest.mark.req("AGNT-12", "SEND-13")
async def test_who_waits_for_a_further_message_has_taken_the_first() -> None:
    agent = Agent("Listener", "Listens.", "1.0.0")

    @agent.skill(id="listen", tags=["test"], may_refuse=True)
    async def listen(turn: Turn) -> str | None:
        if turn.number == 1:
            await turn.ask("What?")
            return None
        return (await turn.next_message()).parts[0].text

    async with serving(agent) as world:
        before = await asked(world)
        first = await world.send(say("one", task_id=before.id, message_id="m-2", configuration=NOW))
        assert first.status.state == WORKING
        done = await world.send(say("two", task_id=before.id, message_id="m-3"))
        assert done.artifacts[0].parts[0].text == "two"
        assert [said.message_id for said in done.history if said.role == pb.ROLE_USER] == ["m-1", "m-2", "m-3"]


@pytest.mark.req("AGNT-12", "XTRA-04")
async def test_a_sensitive_answer_may_be_refused_and_is_never_kept(store: Store) -> None:
    agent = Agent("Guard", "Opens doors.", "1.0.0", extensions=[INPUT_REQUESTS])

    @agent.skill(id="open", tags=["test"], may_refuse=True)
    async def open_door(turn: Turn) -> str | None:
        if turn.answer is None:
            await turn.ask("What is the word?", sensitive=True)
            return None
        if turn.answer != "mellon":
            raise InvalidParams({"message.parts[0].text": "must be the word"})
        return "Come in."

    async with serving(agent, store=store) as world:
        before = await asked(world)
        wrong = await refused(world.stub.SendMessage(say("open", task_id=before.id, message_id="m-2")))
        assert wrong.fields == {"message.parts[0].text": "must be the word"}
        await at_rest(world)
        assert await world.get(before.id) == before
        done = await world.send(say("mellon", task_id=before.id, message_id="m-3"), metadata=key())
        assert done.artifacts[0].parts[0].text == "Come in."
        assert [said.parts[0].text for said in done.history] == ["ask", "What is the word?", "[redacted]"]


@pytest.mark.req("AGNT-12", "CTX-05")
async def test_a_turn_that_may_refuse_finds_the_task_as_any_other() -> None:
    """The question in the history, the message behind it, and the task at work."""
    found: list[pb.Task] = []
    agent = Agent("Looks", "Looks at its task.", "1.0.0")

    async def look(turn: Turn) -> None:
        if turn.number == 1:
            return await turn.ask("What?")
        found.append(turn.task)
        return None

    agent.skill(id="may", tags=["test"], may_refuse=True)(look)
    agent.skill(id="plain", tags=["test"])(look)
    async with serving(agent) as world:
        for skill in ("may", "plain"):
            task = await world.send(say(skill=skill))
            done = await world.send(say("this", task_id=task.id, message_id="m-2"))
            assert [said.parts[0].text for said in done.history] == ["hello", "What?", "this"]
    one, other = found
    assert one.status.state == other.status.state == WORKING
    assert not one.status.HasField("message")
    for task in found:
        assert [said.parts[0].text for said in task.history] == ["hello", "What?", "this"]
