"""One task, two versions, any door: begun on one, continued, read, watched, canceled on the other (spec: LMAP-01)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.protobuf import json_format

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.agents import Extension
from a2a_server.ports.store import Store
from tests.bindings.actors import CANCELED, COMPLETED, INPUT, Gate, at_rest, begun, until, waiting
from tests.support.calls import SOON
from tests.support.house import CallRules, Tenants
from tests.support.old import NOW, get, kinds, send, stream, tell, texts
from tests.support.stage import Stage
from tests.support.stage import texts as new_texts
from tests.support.world import ByHeader, as_user, refused, say, serving
from tests.support.world import kinds as new_kinds

OLD, NEW = "x-a2a-extensions", "a2a-extensions"
PLACE, TONE = "https://example.com/ext/place/v1", "https://example.com/ext/tone/v1"


@pytest.mark.req("LMAP-01", "VERS-01")
async def test_a_task_begun_on_1_0_is_continued_on_0_3(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        task = await world.send(say("paint", skill="ask"))
        seen = await get(world, task.id)
        assert (seen.id, seen.context_id) == (task.id, task.context_id)
        assert seen.status.state == v03.TASK_STATE_INPUT_REQUIRED
        assert [part.text for part in seen.status.update.content] == ["What colour?"]

        done = await send(world, tell("red", task_id=task.id))
        assert done.status.state == v03.TASK_STATE_COMPLETED
        assert texts(done) == ["red it is"]
        assert new_texts(await world.get(task.id)) == ["red it is"]
    assert [turn.request.version for turn in stage.turns] == ["1.0", "0.3"]


@pytest.mark.req("LMAP-01", "VERS-01")
async def test_a_task_begun_on_0_3_is_continued_on_1_0(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        task = await send(world, tell("paint", skill="ask"))
        assert (await world.get(task.id)).status.state == INPUT
        done = await world.send(say("blue", task_id=task.id))
        assert done.status.state == COMPLETED
        assert texts(await get(world, task.id)) == ["blue it is"]
        assert [message.parts[0].text for message in done.history] == ["paint", "What colour?", "blue"]
    assert [turn.request.version for turn in stage.turns] == ["0.3", "1.0"]


@pytest.mark.req("LMAP-01")
async def test_a_question_asked_in_a_stream_of_one_version_is_answered_in_one_of_the_other() -> None:
    async with serving(Stage().agent) as world:
        asked = await world.stream(say("paint", skill="ask"))
        answered = await stream(world, tell("red", task_id=asked[0].task.id))
        assert new_kinds(asked)[-1] == "INPUT_REQUIRED"
        assert kinds(answered)[-1] == "COMPLETED!"
        old = await stream(world, tell("paint", skill="ask"))
        new = await world.stream(say("red", task_id=old[0].task.id))
        assert kinds(old)[-1] == "INPUT_REQUIRED!"
        assert new_kinds(new)[-1] == "COMPLETED"


@pytest.mark.req("LMAP-01", "ORDR-02")
@pytest.mark.parametrize("begins", ["1.0", "0.3"])
async def test_readers_of_both_versions_watch_one_task(store: Store, begins: str) -> None:
    gate = Gate()
    async with serving(waiting(gate), store=store) as world:
        sender: Any = world.stream(say()) if begins == "1.0" else stream(world, tell())
        sending = asyncio.ensure_future(sender)
        task_id = await begun(world)

        seen: list[list[Any]] = []

        async def watch(stream: Any) -> list[Any]:
            seen.append(items := [])
            async for item in stream:
                items.append(item)  # noqa: PERF401 - others look while it grows
            return items

        wanted = v03.TaskSubscriptionRequest(name=f"tasks/{task_id}")
        new = [
            asyncio.ensure_future(watch(world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task_id))))
            for _ in range(3)
        ]
        old = [asyncio.ensure_future(watch(world.old.TaskSubscription(wanted))) for _ in range(3)]
        await until(lambda: len(seen) == sum(map(bool, seen)) == 6)
        gate.open()
        assert {new_kinds(items)[-1] for items in await asyncio.gather(*new)} == {"COMPLETED"}
        assert {kinds(items)[-1] for items in await asyncio.gather(*old)} == {"COMPLETED!"}
        await sending
        await at_rest(world)


@pytest.mark.req("LMAP-01")
@pytest.mark.parametrize("begins", ["1.0", "0.3"])
async def test_a_task_of_one_version_is_canceled_on_the_other(store: Store, begins: str) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        if begins == "1.0":
            task_id = (await world.send(say(skill="hold", configuration=SOON))).id
            await stage.began()
            canceled = await world.old.CancelTask(v03.CancelTaskRequest(name=f"tasks/{task_id}"))
            assert canceled.status.state == v03.TASK_STATE_CANCELLED
        else:
            task_id = (await send(world, tell(skill="hold", configuration=NOW))).id
            await stage.began()
            await world.stub.CancelTask(pb.CancelTaskRequest(id=task_id))
        assert (await world.get(task_id)).status.state == CANCELED
        assert (await get(world, task_id)).status.state == v03.TASK_STATE_CANCELLED
        refusal = await refused(world.old.CancelTask(v03.CancelTaskRequest(name=f"tasks/{task_id}")))
        assert (refusal.code.name, refusal.reason) == ("FAILED_PRECONDITION", "TASK_NOT_CANCELABLE")


@pytest.mark.req("LMAP-01", "LIST-01")
async def test_a_task_of_0_3_is_in_the_list_of_1_0() -> None:
    async with serving(Stage().agent) as world:
        task = await send(world, tell(context_id="c-1"))
        listed = await world.stub.ListTasks(pb.ListTasksRequest(context_id="c-1"))
    assert [one.id for one in listed.tasks] == [task.id]


@pytest.mark.req("LMAP-01")
async def test_what_0_3_has_no_place_for_survives_the_way_through_it() -> None:
    async with serving(Stage().agent) as world:
        other = await world.send(say())
        parts = [pb.Part(text="x", media_type="text/plain", filename="x.txt")]
        task = await world.send(say(parts=parts, references=[other.id], skill="bare"))
        seen = await get(world, task.id)
        kept = json_format.MessageToDict(seen)["history"][0]
        assert kept["metadata"]["x-a2a-compat"] == {"referenceTaskIds": [other.id]}
        assert kept["content"][0]["metadata"]["x-a2a-compat"] == {"mediaType": "text/plain", "filename": "x.txt"}

        again = tell(skill="bare")
        again.request.CopyFrom(seen.history[0])
        again.request.ClearField("task_id")
        twin = await send(world, again)
        message = (await world.get(twin.id)).history[0]
    assert list(message.parts) == parts
    assert list(message.reference_task_ids) == [other.id]
    assert not message.HasField("metadata")


# -- who calls


@pytest.mark.req("TENA-05", "AUTZ-02")
@pytest.mark.only_through("grpc", why="tenants of the other doors are in paths")
async def test_tenants_and_owners_come_from_the_caller() -> None:
    rules = CallRules(tenants=Tenants(frozenset({"north", "south"}), "north"))
    async with serving(Stage().agent, authenticator=ByHeader(), rules=rules) as world:
        ann = as_user("ann", x_tenant="south")
        task = await send(world, tell(), metadata=ann)
        request = pb.GetTaskRequest(tenant="south", id=task.id)
        assert (await world.stub.GetTask(request, metadata=as_user("ann"))).id == task.id
        assert (await get(world, task.id, metadata=ann)).id == task.id
        for stranger in (as_user("ann"), as_user("bob", x_tenant="south")):
            refusal = await refused(get(world, task.id, metadata=stranger))
            assert (refusal.code.name, refusal.reason) == ("NOT_FOUND", "TASK_NOT_FOUND")
        outside = await refused(send(world, tell(), metadata=as_user("ann", x_tenant="west")))
        assert outside.reason == "PERMISSION_DENIED"


@pytest.mark.req("ONCE-01")
async def test_a_send_is_made_once_under_its_key() -> None:
    key = (("idempotency-key", "k"),)
    async with serving(Stage().agent) as world:
        first = await send(world, tell(), metadata=key)
        assert await send(world, tell(), metadata=key) == first
        assert len((await world.stub.ListTasks(pb.ListTasksRequest())).tasks) == 1


# -- extensions


@pytest.mark.req("LPSH-04")
@pytest.mark.only_through("grpc", why="it is about 0.3's own gRPC service")
@pytest.mark.parametrize(
    ("asked", "answered", "active"),
    [
        ([(OLD, PLACE)], [(OLD, PLACE)], {PLACE}),
        ([(NEW, PLACE)], [(NEW, PLACE)], {PLACE}),
        ([(OLD, f"{TONE}, {PLACE}, urn:unknown")], [(OLD, f"{TONE}, {PLACE}")], {PLACE, TONE}),
        ([(OLD, PLACE), (OLD, TONE)], [(OLD, f"{PLACE}, {TONE}")], {PLACE, TONE}),
        ([(OLD, PLACE), (NEW, TONE)], [(OLD, f"{PLACE}, {TONE}"), (NEW, f"{PLACE}, {TONE}")], {PLACE, TONE}),
        ([(OLD, "urn:unknown")], [], set()),
        ([], [], set()),
    ],
)
async def test_extensions_are_answered_in_the_spelling_they_were_asked_in(
    asked: list[tuple[str, str]], answered: list[tuple[str, str]], active: set[str]
) -> None:
    stage = Stage(extensions=[Extension(PLACE, "Says where."), Extension(TONE, "Says how.")])
    async with serving(stage.agent) as world:
        unary = world.old.SendMessage(tell(), metadata=asked)
        task = (await unary).task
        streaming = world.old.SendStreamingMessage(tell(), metadata=asked)
        assert [item async for item in streaming]
        finished = world.old.TaskSubscription(v03.TaskSubscriptionRequest(name=f"tasks/{task.id}"), metadata=asked)
        assert [item async for item in finished]
        for call in (unary, streaming, finished):
            got = [pair for pair in await call.initial_metadata() if pair[0] in (OLD, NEW)]
            assert sorted(got) == sorted(answered)
    assert [turn.extensions for turn in stage.turns] == [active, active]


@pytest.mark.req("LPSH-04")
@pytest.mark.only_through("grpc", why="as above")
async def test_1_0_knows_its_own_spelling_only() -> None:
    stage = Stage(extensions=[Extension(PLACE, "Says where.")])
    async with serving(stage.agent) as world:
        await world.send(say(), metadata=((OLD, PLACE),))
    assert [turn.extensions for turn in stage.turns] == [set()]


# -- cards


@pytest.mark.req("LCRD-02", "LCRD-03", "LCRD-05")
@pytest.mark.only_through("grpc", why="it is about 0.3's own gRPC service")
async def test_the_card_names_where_0_3_is_spoken() -> None:
    stage = Stage(extended=lambda card, _: card)
    async with serving(stage.agent, authenticator=ByHeader(), push_notifications=True) as world:
        card = await world.old.GetAgentCard(v03.GetAgentCardRequest(), metadata=as_user("root"))
    assert (card.name, card.protocol_version) == ("Stage", "0.3.0")
    assert (card.url, card.preferred_transport) == (f"http://127.0.0.1:{world.port}", "GRPC")
    assert [(one.url, one.transport) for one in card.additional_interfaces] == [(card.url, "GRPC")]
    assert card.supports_authenticated_extended_card
    assert card.capabilities.streaming
    assert card.capabilities.push_notifications
    assert card.security_schemes["user"].api_key_security_scheme.name == "x-user"
    assert [dict(one.schemes)["user"].list[:] for one in card.security] == [[]]
