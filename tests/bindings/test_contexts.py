"""Context ids: kept, refused by policy, never replaced (spec: CTX, CONF-21)."""

from __future__ import annotations

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.store import Store
from tests.support.house import Limits
from tests.support.stage import Stage
from tests.support.world import refused, say, serving

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
