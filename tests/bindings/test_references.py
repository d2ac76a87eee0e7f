"""What a message refers to: tasks, a skill, and its context (spec: CTX, SEND-15, CONF-21)."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.store import Store
from tests.support.house import Limits
from tests.support.stage import Stage, texts
from tests.support.world import ByHeader, as_user, refused, say, serving


@pytest.mark.req("CTX-11", "AUTZ-02")
async def test_what_the_caller_may_see_reaches_the_agent_and_nothing_else(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store, authenticator=ByHeader()) as world:
        mine = await world.send(say("mine"), metadata=as_user("ann"))
        waiting = await world.send(say("mine too", skill="ask"), metadata=as_user("ann"))
        theirs = await world.send(say("theirs"), metadata=as_user("ben"))
        elsewhere = await world.send(say("elsewhere", tenant="north"), metadata=as_user("ann"))

        named = [theirs.id, waiting.id, "nope", elsewhere.id, mine.id, "x" * 256, "a\u2028b"]
        task = await world.send(say("look", references=named), metadata=as_user("ann"))

        assert task.status.state == pb.TASK_STATE_COMPLETED
        assert list(stage.turns[-1].references) == [waiting, mine]
        assert texts(stage.turns[-1].references[1]) == ["mine"]
        assert list(task.history[0].reference_task_ids) == named  # what was said is not edited


@pytest.mark.req("CTX-11")
async def test_a_foreign_reference_and_one_that_never_was_give_the_same_answer() -> None:
    stage = Stage()
    async with serving(stage.agent, authenticator=ByHeader()) as world:
        theirs = await world.send(say(), metadata=as_user("ben"))
        seen = []
        for reference in (theirs.id, "0" * len(theirs.id)):
            task = await world.send(say(references=[reference]), metadata=as_user("ann"))
            seen.append((task.status.state, texts(task), list(stage.turns[-1].references)))
    assert seen[0] == seen[1]


@pytest.mark.req("CTX-11")
async def test_an_answer_may_refer_to_its_own_task_and_the_agent_owns_its_copies() -> None:
    stage = Stage()
    async with serving(stage.agent) as world:
        asked = await world.send(say("a car", skill="ask"))
        done = await world.send(say("red", task_id=asked.id, references=[asked.id]))
        (reference,) = stage.turns[-1].references
        assert reference == asked
        reference.history.clear()
        assert await world.get(asked.id) == done


@pytest.mark.req("CTX-11", "LIMT-01")
async def test_references_are_bounded() -> None:
    stage = Stage()
    async with serving(stage.agent, limits=Limits(reference_tasks=2, drain_grace=0.05)) as world:
        made = [(await world.send(say())).id for _ in range(3)]
        await world.send(say(references=made))
        assert [task.id for task in stage.turns[-1].references] == made[:2]

        refusal = await refused(world.send(say(references=["r"] * 101)))
        assert set(refusal.fields) == {"message.reference_task_ids"}


@pytest.mark.req("SEND-15")
async def test_a_message_may_name_its_skill_and_need_not() -> None:
    stage = Stage()
    async with serving(stage.agent) as world:
        assert texts(await world.send(say("plain"))) == ["plain"]
        assert (await world.send(say("named", skill="fail"))).status.state == pb.TASK_STATE_FAILED
    assert [turn.skill for turn in stage.turns] == ["echo", "fail"]


@pytest.mark.req("SEND-15", "ERRS-05", "GEN-03")
@pytest.mark.parametrize("value", ["nope", "", "ECHO", 7, True, None, ["echo"], {"id": "echo"}])
async def test_a_skill_that_does_not_exist_is_refused_with_those_that_do(value: Any) -> None:
    stage = Stage()
    async with serving(stage.agent) as world:
        request = say()
        request.metadata.update({"skill": value})
        for attempt in (world.send(request), world.stream(request)):
            refusal = await refused(attempt)
            assert refusal.code.name == "INVALID_ARGUMENT"
            assert refusal.fields == {
                "metadata.skill": "must be one of: echo, ask, hold, bare, fail, chat, maybe",
            }
    assert not stage.turns


@pytest.mark.req("SEND-15")
async def test_a_task_stays_with_the_skill_it_began_with() -> None:
    stage = Stage()
    async with serving(stage.agent) as world:
        asked = await world.send(say("a car", skill="ask"))
        assert texts(await world.send(say("red", task_id=asked.id, skill="echo"))) == ["red it is"]


STRICT = Limits(accept_unknown_contexts=False, drain_grace=0.05)


@pytest.mark.req("CTX-03", "CTX-09", "CTX-10")
@pytest.mark.parametrize("context_id", ["c", "a/b:c d", "ünï-🦊", " c ", "x" * 256])
async def test_a_context_of_the_clients_choice_is_kept_as_it_is(store: Store, context_id: str) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        one = await world.send(say(context_id=context_id))
        two = await world.send(say(context_id=context_id))
        assert one.id != two.id
        assert one.context_id == two.context_id == one.history[0].context_id == context_id
        listed = await world.stub.ListTasks(pb.ListTasksRequest(context_id=context_id))
        assert {task.id for task in listed.tasks} == {one.id, two.id}
    assert {turn.context_id for turn in stage.turns} == {context_id}


@pytest.mark.req("CTX-04", "ERRS-05", "GEN-03")
async def test_by_policy_unknown_contexts_are_refused_and_not_replaced(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store, limits=STRICT) as world:
        for skill in ("echo", "chat"):
            for attempt in (world.send(say(skill=skill, context_id="c")), world.stream(say(context_id="c"))):
                refusal = await refused(attempt)
                assert refusal.code.name == "INVALID_ARGUMENT"
                assert refusal.fields == {"message.context_id": "'c' is no context of yours; leave it out"}
        assert not stage.turns

        made = await world.send(say())
        again = await world.send(say(context_id=made.context_id))
        assert again.context_id == made.context_id


@pytest.mark.req("CTX-04", "ERRS-05")
@pytest.mark.parametrize("context_id", ["x" * 257, "a\nb", "a\x00"])
async def test_contexts_that_cannot_be_stored_are_refused(context_id: str) -> None:
    stage = Stage()
    async with serving(stage.agent) as world:
        refusal = await refused(world.send(say(context_id=context_id)))
    assert list(refusal.fields) == ["message.context_id"]
    assert not stage.turns


@pytest.mark.req("CTX-04", "CTX-06")
async def test_a_context_that_is_not_the_tasks_own_is_refused(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        task = await world.send(say(skill="ask"))
        other = await world.send(say())
        for context_id in ("nope", other.context_id, task.context_id.upper()):
            refusal = await refused(world.send(say(task_id=task.id, context_id=context_id)))
            assert (refusal.code.name, list(refusal.fields)) == ("INVALID_ARGUMENT", ["message.context_id"])
        assert await world.get(task.id) == task
        await world.send(say("red", task_id=task.id, context_id=task.context_id))
