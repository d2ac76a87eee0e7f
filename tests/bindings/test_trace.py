"""A call's trace goes on in everything that is sent because of it, whatever door it came through (spec: TRAC-01)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.store import Store
from tests.bindings.test_push_delivery import delivering, events, inline, numbers, received
from tests.support.house import Limits
from tests.support.receivers import Received, receiver
from tests.support.stage import Stage
from tests.support.traces import NONE, ONE, TWO, along, traces
from tests.support.world import kinds, say, serving

__all__ = ["serving"]  # by which the tests here go through every door

SOON: dict[str, Any] = {"return_immediately": True}


@pytest.mark.req("TRAC-01")
async def test_the_trace_of_a_send_is_that_of_its_webhooks_and_of_its_agent(store: Store) -> None:
    stage = Stage()
    async with receiver() as client, delivering(stage, store=store) as world:
        await world.send(say(skill="echo", configuration=inline(client)), metadata=along(ONE))
        assert traces(await received(client, 4)) == [ONE] * 4
        await world.stream(say(skill="echo", configuration=inline(client)), metadata=along(TWO))
        assert traces(await received(client, 8))[4:] == [TWO] * 4
        await world.send(say(skill="echo", configuration=inline(client)))
        assert traces(await received(client, 12))[8:] == [NONE] * 4
    assert [turn.trace for turn in stage.turns] == [ONE, TWO, NONE]


@pytest.mark.parametrize(
    ("told", "passed_on"),
    [
        ((("traceparent", "00-nonsense-01"), ("tracestate", "a=1")), NONE),
        ((("tracestate", "a=1"),), NONE),
        ((*along(TWO), ("tracestate", "a=1"), ("tracestate", "b=2")), TWO | {"tracestate": "a=1,b=2"}),
        ((*along(TWO), ("tracestate", "x" * 513)), TWO),
    ],
    ids=["malformed", "no parent", "two states", "a long state"],
)
async def test_what_is_malformed_is_ignored_and_no_error(
    told: tuple[tuple[str, str], ...], passed_on: Mapping[str, str]
) -> None:
    stage = Stage()
    async with receiver() as client, delivering(stage) as world:
        task = await world.send(say(skill="echo", configuration=inline(client)), metadata=told)
        assert task.status.state == pb.TASK_STATE_COMPLETED
        assert traces(await received(client, 4)) == [passed_on] * 4
    assert stage.turns[0].trace == passed_on


@pytest.mark.not_through("grpc", why="it keeps the last of several parents to itself, and takes no other values")
@pytest.mark.parametrize(
    ("told", "passed_on"),
    [
        ((*along(ONE), ("traceparent", TWO["traceparent"])), NONE),
        ((("traceparent", "\u00e9"),), NONE),
        ((*along(TWO), ("tracestate", "a=\u00e9")), TWO),
    ],
    ids=["two parents", "no ASCII", "a state that is no ASCII"],
)
async def test_what_only_http_can_say_is_ignored_and_no_error(
    told: tuple[tuple[str, str], ...], passed_on: Mapping[str, str]
) -> None:
    async with receiver() as client, delivering(Stage()) as world:
        await world.send(say(skill="echo", configuration=inline(client)), metadata=told)
        assert traces(await received(client, 4)) == [passed_on] * 4


async def test_a_follow_up_has_the_trace_of_its_own_call(store: Store) -> None:
    async with receiver() as client, delivering(Stage(), store=store) as world:
        for answered in (TWO, NONE):
            before = len(client.received)
            task = await world.send(say(skill="ask", configuration=inline(client)), metadata=along(ONE))
            await world.send(say("red", task_id=task.id), metadata=along(answered))
            found = traces(await received(client, before + 6))[before:]
            assert found == [ONE] * 3 + [answered] * 3


async def test_a_message_that_waits_brings_its_trace_into_its_own_turn(store: Store) -> None:
    stage = Stage()
    async with receiver() as client, delivering(stage, store=store) as world:
        task = await world.send(say(skill="hold", configuration={**inline(client), **SOON}), metadata=along(ONE))
        await stage.began()
        await world.send(say("more", task_id=task.id, configuration=SOON), metadata=along(TWO))
        await world.send(say("and more", task_id=task.id, configuration=SOON))
        stage.release.set()
        await world.reaches(task.id, pb.TASK_STATE_COMPLETED)
        entries = await store.entries(task.id, 0, 100)
        owed = [entry for entry in entries if not entry.event.HasField("message")]
        found = await received(client, len(owed))
        assert numbers(found) == [entry.number for entry in owed]
        assert kinds(events(found)) == [
            *("task", "WORKING", "WORKING", "artifact_update", "WORKING"),
            *("WORKING", "artifact_update", "WORKING"),
            *("WORKING", "artifact_update", "COMPLETED"),
        ]
        assert traces(found) == [ONE] * 5 + [TWO] * 3 + [NONE] * 3
    assert [turn.trace for turn in stage.turns] == [ONE, TWO, NONE]


@pytest.mark.parametrize("trace", [TWO, NONE], ids=["with", "without"])
async def test_the_cancel_of_a_task_that_waits_has_a_trace_of_its_own(store: Store, trace: Mapping[str, str]) -> None:
    async with receiver() as client, delivering(Stage(), store=store) as world:
        task = await world.send(say(skill="ask", configuration=inline(client)), metadata=along(ONE))
        await world.stub.CancelTask(pb.CancelTaskRequest(id=task.id), metadata=along(trace))
        found = await received(client, 4)
        assert kinds(events(found))[2:] == ["INPUT_REQUIRED", "CANCELED"]
        assert traces(found) == [ONE] * 3 + [trace]


async def test_a_turn_that_is_canceled_ends_in_the_trace_in_which_it_began(store: Store) -> None:
    stage = Stage()
    async with receiver() as client, delivering(stage, store=store) as world:
        task = await world.send(say(skill="hold", configuration={**inline(client), **SOON}), metadata=along(ONE))
        await stage.began()
        await world.stub.CancelTask(pb.CancelTaskRequest(id=task.id), metadata=along(TWO))
        found = await received(client, 4)
        assert kinds(events(found)) == ["task", "WORKING", "WORKING", "CANCELED"]
        assert traces(found) == [ONE] * 4


async def test_what_no_call_has_caused_has_no_trace(store: Store) -> None:
    limits = Limits(input_timeout=0.1, drain_grace=0.05)
    async with receiver() as client, delivering(Stage(), store=store, limits=limits) as world:
        await world.send(say(skill="ask", configuration=inline(client)), metadata=along(ONE))
        found = await received(client, 4)
        assert kinds(events(found))[2:] == ["INPUT_REQUIRED", "FAILED"]
        assert traces(found) == [ONE] * 3 + [NONE]


async def test_who_asks_for_webhooks_gives_them_no_trace(store: Store) -> None:
    stage = Stage()
    async with receiver() as client, delivering(stage, store=store) as world:
        task = await world.send(say(skill="ask"), metadata=along(ONE))
        asking = pb.TaskPushNotificationConfig(task_id=task.id, id="c", url=client.url)
        await world.stub.CreateTaskPushNotificationConfig(asking, metadata=along(TWO))
        await world.send(say("red", task_id=task.id))
        assert traces(await received(client, 3)) == [NONE] * 3


async def test_a_turn_that_might_have_answered_directly_has_its_trace_when_it_makes_a_task(store: Store) -> None:
    stage = Stage()
    stage.release.set()
    async with receiver() as client, delivering(stage, store=store) as world:
        await world.send(say("work", skill="maybe", configuration=inline(client)), metadata=along(ONE))
        assert traces(await received(client, 4)) == [ONE] * 4


async def test_a_repeated_send_changes_nothing(store: Store) -> None:
    key = (("idempotency-key", "k"),)
    async with receiver() as client, delivering(Stage(), store=store) as world:
        first, again = [
            await world.send(say(skill="echo", configuration=inline(client)), metadata=(*key, *along(trace)))
            for trace in (ONE, TWO)
        ]
        assert first.id == again.id
        assert traces(await received(client, 4)) == [ONE] * 4
        await world.send(say(skill="echo", configuration=inline(client)), metadata=along(TWO))
        assert traces(await received(client, 8))[4:] == [TWO] * 4


async def test_every_attempt_has_the_same_trace(store: Store) -> None:
    statuses = iter([500, 503, 204, 404])

    async def moody(_: Received) -> web.StreamResponse:
        return web.Response(status=next(statuses, 204))

    async with receiver(moody) as client, delivering(Stage(), store=store) as world:
        task = await world.send(say(skill="ask", configuration=inline(client)), metadata=along(ONE))
        await world.send(say("red", task_id=task.id), metadata=along(TWO))
        found = await received(client, 9)
        assert numbers(found) == [1, 1, 1, 2, 2, 3, 5, 6, 7]
        assert traces(found) == [ONE] * 6 + [TWO] * 3
