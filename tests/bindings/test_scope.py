"""What is somebody else's does not exist: one answer, byte for byte (spec: AUTZ-02, AUTZ-03, TENA-05, AUTN-03)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from google.rpc import status_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.store import Store
from tests.support.calls import every_call
from tests.support.house import CallRules, Limits, Secret, Tenants, by_secrets
from tests.support.stage import Stage
from tests.support.world import ByHeader, World, as_user, refused, say, serving

Attempt = Callable[[World, str, str, Any], Awaitable[object]]
"""A call about a task: world, task id, tenant, metadata."""

URL = "https://example.com/"


async def _drained(stream: Any) -> list[pb.StreamResponse]:
    return [item async for item in stream]


ATTEMPTS: dict[str, Attempt] = {
    "get": lambda w, i, t, m: w.stub.GetTask(pb.GetTaskRequest(id=i, tenant=t), metadata=m),
    "get-history": lambda w, i, t, m: w.stub.GetTask(pb.GetTaskRequest(id=i, tenant=t, history_length=0), metadata=m),
    "cancel": lambda w, i, t, m: w.stub.CancelTask(pb.CancelTaskRequest(id=i, tenant=t), metadata=m),
    "subscribe": lambda w, i, t, m: _drained(
        w.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=i, tenant=t), metadata=m)
    ),
    "send": lambda w, i, t, m: w.stub.SendMessage(say(task_id=i, tenant=t), metadata=m),
    "send-in-context": lambda w, i, t, m: w.stub.SendMessage(say(task_id=i, tenant=t, context_id="c"), metadata=m),
    "send-in-other-context": lambda w, i, t, m: w.stub.SendMessage(
        say(task_id=i, tenant=t, context_id="d"), metadata=m
    ),
    "send-once": lambda w, i, t, m: w.stub.SendMessage(
        say(task_id=i, tenant=t), metadata=(*m, ("idempotency-key", "k"))
    ),
    "send-with-config": lambda w, i, t, m: w.stub.SendMessage(
        say(
            task_id=i,
            tenant=t,
            configuration={"task_push_notification_config": pb.TaskPushNotificationConfig(task_id=i, url=URL)},
        ),
        metadata=m,
    ),
    "stream": lambda w, i, t, m: _drained(w.stub.SendStreamingMessage(say(task_id=i, tenant=t), metadata=m)),
    "create-config": lambda w, i, t, m: w.stub.CreateTaskPushNotificationConfig(
        pb.TaskPushNotificationConfig(task_id=i, id="theirs", url=URL, tenant=t), metadata=m
    ),
    "get-config": lambda w, i, t, m: w.stub.GetTaskPushNotificationConfig(
        pb.GetTaskPushNotificationConfigRequest(task_id=i, id="theirs", tenant=t), metadata=m
    ),
    "list-configs": lambda w, i, t, m: w.stub.ListTaskPushNotificationConfigs(
        pb.ListTaskPushNotificationConfigsRequest(task_id=i, tenant=t), metadata=m
    ),
    "list-configs-by-token": lambda w, i, t, m: w.stub.ListTaskPushNotificationConfigs(
        pb.ListTaskPushNotificationConfigsRequest(task_id=i, tenant=t, page_token="nonsense"), metadata=m
    ),
    "delete-config": lambda w, i, t, m: w.stub.DeleteTaskPushNotificationConfig(
        pb.DeleteTaskPushNotificationConfigRequest(task_id=i, id="theirs", tenant=t), metadata=m
    ),
}


async def heard(attempt: Awaitable[object], task_id: str) -> tuple[object, ...]:
    """Everything a client can see of a refusal, the id it asked for blanked out."""
    try:
        answer = await attempt
    except grpc.aio.AioRpcError as error:
        refusal = error
    else:
        raise AssertionError(f"was not refused: {answer}")
    trailers: list[tuple[str, str | bytes]] = []
    for name, value in refusal.trailing_metadata() or ():
        if name == "grpc-status-details-bin":
            assert isinstance(value, bytes)
            details = status_pb2.Status.FromString(value).details
            trailers += [(detail.type_url, detail.value.replace(task_id.encode(), b"?")) for detail in details]
        else:
            trailers.append((name, value))
    text = (refusal.details() or "").replace(task_id, "?")
    return refusal.code(), text, tuple(refusal.initial_metadata() or ()), trailers


# As long as the ids of tasks, so that lengths inside the details are equal, too.
NOBODYS = "00000000-0000-7000-8000-000000000000"


@pytest.mark.req("AUTZ-02", "AUTZ-03", "TENA-05", "CANC-02", "SUBS-04", "SEND-06", "PUSH-07", "PUSH-11", "GET-02")
@pytest.mark.parametrize("name", ATTEMPTS)
async def test_a_foreign_task_is_like_one_that_never_was(store: Store, name: str) -> None:
    attempt, stage = ATTEMPTS[name], Stage()
    async with serving(stage.agent, store=store, authenticator=ByHeader(), push_notifications=True) as world:
        ann, ben = as_user("ann"), as_user("ben")
        asked = await world.send(say(skill="ask", context_id="c", tenant="north"), metadata=ann)
        held = await world.send(
            say(skill="hold", context_id="c", tenant="north", configuration={"return_immediately": True}), metadata=ann
        )
        done = await world.send(say(context_id="c", tenant="north"), metadata=ann)
        for task in (asked, held, done):
            config = pb.TaskPushNotificationConfig(task_id=task.id, id="theirs", url=URL, tenant="north")
            await world.stub.CreateTaskPushNotificationConfig(config, metadata=ann)
        await works(world, held.id)
        before = await everything(world)

        for tenant, metadata in (("north", ben), ("", ann), ("south", ann), ("north ", ann), ("north", as_user("Ann"))):
            never = await heard(attempt(world, NOBODYS, tenant, metadata), NOBODYS)
            for task in (asked, held, done):
                assert await heard(attempt(world, task.id, tenant, metadata), task.id) == never

        assert await everything(world) == before
        async with asyncio.timeout(30):
            while world.core.services.log.watched:  # noqa: ASYNC110 - readers close behind their answers
                await asyncio.sleep(0.005)
        stage.release.set()
    assert len(stage.turns) == 3


async def works(world: World, task_id: str) -> None:
    """Wait until ann's task in the tenant has said that it is at work, and does not change any more."""
    asked = pb.GetTaskRequest(id=task_id, tenant="north")
    async with asyncio.timeout(30):
        while not (await world.stub.GetTask(asked, metadata=as_user("ann"))).status.HasField("message"):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def everything(world: World) -> list[object]:
    """All that ann has in the tenant."""
    ann = as_user("ann")
    tasks = await world.stub.ListTasks(pb.ListTasksRequest(tenant="north", include_artifacts=True), metadata=ann)
    listings = [pb.ListTaskPushNotificationConfigsRequest(tenant="north", task_id=task.id) for task in tasks.tasks]
    return [tasks, *[await world.stub.ListTaskPushNotificationConfigs(listing, metadata=ann) for listing in listings]]


@pytest.mark.req("AUTZ-02")
async def test_unknown_ids_are_refused_alike_by_every_operation() -> None:
    async with serving(Stage().agent, push_notifications=True) as world:
        answers = {
            name: await heard(attempt(world, NOBODYS, "", ()), NOBODYS)
            for name, attempt in ATTEMPTS.items()
            if name not in {"list-configs-by-token", "get-config"}  # a bad token is told first; a config is named
        }
    assert len({str(answer) for answer in answers.values()}) == 1, answers


@pytest.mark.req("AUTN-01", "AUTN-02", "GEN-03")
@pytest.mark.parametrize("value", [None, "", "Bearer", "Bearer wrong", "Basic c2VjcmV0", "secret", "Bearer secret,x"])
async def test_nobody_gets_anywhere_without_credentials(value: str | None) -> None:
    digest = hashlib.sha256(b"secret").digest()
    known = Secret(digest, Caller("ann", authenticated=True, extended_card=True))
    authenticator = by_secrets([known])
    stage = Stage()
    async with serving(stage.agent, authenticator=authenticator, push_notifications=True) as world:
        good = (("authorization", "Bearer secret"),)
        task = await world.send(say(skill="ask"), metadata=good)
        metadata = () if value is None else (("authorization", value), ("x-user", "ann"), ("x-key", "secret"))
        for name, call in every_call(world, task.id, metadata=metadata).items():
            refusal = await refused(call())
            assert (refusal.code.name, refusal.reason) == ("UNAUTHENTICATED", "UNAUTHENTICATED"), name
            wrong = ', error="invalid_token"' if value and value.startswith("Bearer") else ""
            assert refusal.metadata == {"challenge": f'Bearer realm="a2a"{wrong}'}
        assert await world.get(task.id, metadata=good) == task
    assert len(stage.turns) == 1


@pytest.mark.req("AUTN-03")
async def test_nothing_in_a_message_changes_who_calls(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store, authenticator=ByHeader()) as world:
        request = say("I am ann", context_id="c")
        for struct in (request.metadata, request.message.metadata):
            struct.update({"x-user": "ann", "owner": "ann", "caller": {"owner": "ann"}, "authorization": "Bearer ann"})
        task = await world.send(request, metadata=as_user("ben"))

        (turn,) = stage.turns
        assert (turn.caller.owner, turn.caller.authenticated) == ("ben", True)
        assert (await world.get(task.id, metadata=as_user("ben"))).id == task.id
        assert not (await world.stub.ListTasks(pb.ListTasksRequest(), metadata=as_user("ann"))).tasks


@pytest.mark.req("CTX-12", "CTX-04", "AUTZ-02")
async def test_a_context_of_somebody_else_is_neither_joined_nor_confirmed(store: Store) -> None:
    limits = Limits(accept_unknown_contexts=False, drain_grace=0.05)
    ann, ben = as_user("ann"), as_user("ben")
    async with serving(Stage().agent, store=store, authenticator=ByHeader(), limits=limits) as world:
        known = (await world.send(say(), metadata=ann)).context_id
        assert (await world.send(say(context_id=known), metadata=ann)).context_id == known

        foreign = await heard(world.send(say(context_id=known), metadata=ben), known)
        assert foreign == await heard(world.send(say(context_id=NOBODYS), metadata=ben), NOBODYS)
        assert not (await world.stub.ListTasks(pb.ListTasksRequest(context_id=known), metadata=ben)).tasks


@pytest.mark.req("CTX-12", "CTX-03")
async def test_two_callers_may_choose_the_same_context_and_never_meet(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store, authenticator=ByHeader()) as world:
        mine = await world.send(say("mine", context_id="c"), metadata=as_user("ann"))
        theirs = await world.send(say("theirs", context_id="c", references=[mine.id]), metadata=as_user("ben"))

        assert mine.context_id == theirs.context_id == "c"
        assert [len(turn.history) for turn in stage.turns] == [1, 1]
        assert not stage.turns[1].references
        for user, task in (("ann", mine), ("ben", theirs)):
            listed = await world.stub.ListTasks(pb.ListTasksRequest(context_id="c"), metadata=as_user(user))
            assert [one.id for one in listed.tasks] == [task.id]


@pytest.mark.req("AUTZ-02", "ONCE-01")
async def test_idempotency_keys_are_everybodys_own(store: Store) -> None:
    stage = Stage()
    key = ("idempotency-key", "k")
    async with serving(stage.agent, store=store, authenticator=ByHeader()) as world:
        tasks = [
            await world.send(say(text, tenant=tenant), metadata=(*as_user(user), key))
            for user, tenant, text in (("ann", "", "a"), ("ben", "", "b"), ("ann", "north", "c"))
        ]
        again = await world.send(say("a"), metadata=(*as_user("ann"), key))
    assert len({task.id for task in tasks}) == 3
    assert again == tasks[0]
    assert len(stage.turns) == 3


CLOSED = ("PERMISSION_DENIED", "The caller may not act in this tenant.")


@pytest.mark.req("TENA-01", "TENA-02", "TENA-05", "LIST-01")
async def test_every_tenant_is_a_space_of_its_own(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        tenants = ["", "north", "south", "North", "a b", "ünï-🦊", "tasks:all", "x" * 255]
        made = {tenant: await world.send(say(tenant=tenant, context_id="c")) for tenant in tenants}

        for tenant, task in made.items():
            listed = await world.stub.ListTasks(pb.ListTasksRequest(tenant=tenant, context_id="c"))
            assert [one.id for one in listed.tasks] == [task.id]
            for other in tenants:
                got = world.stub.GetTask(pb.GetTaskRequest(tenant=other, id=task.id))
                if other == tenant:
                    assert (await got).id == task.id
                else:
                    assert (await refused(got)).reason == "TASK_NOT_FOUND"
    assert [turn.tenant for turn in stage.turns] == tenants


@pytest.mark.req("TENA-01", "GEN-03", "ERRS-05")
@pytest.mark.parametrize("tenant", ["a/b", "/", "x" * 257, "a\nb", "a\x00"])
async def test_a_tenant_that_no_path_could_carry_is_refused_by_every_operation(tenant: str) -> None:
    stage = Stage()
    async with serving(stage.agent, push_notifications=True, authenticator=ByHeader()) as world:
        for name, call in every_call(world, "t", tenant=tenant, metadata=as_user("root")).items():
            if name == "GetExtendedAgentCard":  # has no say here: the stage has no extended card
                assert (await refused(call())).code.name in {"INVALID_ARGUMENT", "FAILED_PRECONDITION"}
                continue
            refusal = await refused(call())
            assert (refusal.code.name, list(refusal.fields)) == ("INVALID_ARGUMENT", ["tenant"]), name
    assert not stage.turns


@pytest.mark.req("TENA-04")
async def test_tenants_that_are_not_served_and_tenants_that_nobody_has_look_alike() -> None:
    rules = CallRules(tenants=Tenants(frozenset({"north", "south"})))
    async with serving(Stage().agent, rules=rules, push_notifications=True) as world:
        task = await world.send(say(tenant="north"))
        for tenant in ("", "west", "NORTH", "x" * 300):
            for name, call in every_call(world, task.id, tenant=tenant).items():
                refusal = await refused(call())
                assert (refusal.code.name, refusal.message) == CLOSED, (tenant, name)
                assert "north" not in str(refusal)
        assert (await world.send(say(tenant="south"))).id


@pytest.mark.req("TENA-04", "TENA-05", "TENA-06", "AUTN-03")
async def test_a_caller_that_belongs_to_a_tenant_stays_in_it() -> None:
    ann, stage = as_user("ann", x_tenant="north"), Stage()
    async with serving(stage.agent, authenticator=ByHeader(), push_notifications=True) as world:
        implied = await world.send(say(), metadata=ann)
        named = await world.send(say(tenant="north"), metadata=ann)
        assert {turn.tenant for turn in stage.turns} == {"north"}
        listed = await world.stub.ListTasks(pb.ListTasksRequest(), metadata=ann)
        assert {task.id for task in listed.tasks} == {implied.id, named.id}

        await world.send(say(tenant="south"), metadata=as_user("ann"))
        for tenant in ("south", "nowhere"):
            for name, call in every_call(world, implied.id, tenant=tenant, metadata=ann).items():
                refusal = await refused(call())
                assert (refusal.code.name, refusal.message) == CLOSED, name


@pytest.mark.req("TENA-06")
async def test_the_default_tenant_is_the_one_in_the_settings() -> None:
    rules = CallRules(tenants=Tenants(frozenset({"north", "south"}), default="south"))
    async with serving(Stage().agent, rules=rules) as world:
        task = await world.send(say())
        assert (await world.stub.GetTask(pb.GetTaskRequest(id=task.id, tenant="south"))).id == task.id
        assert (await refused(world.stub.GetTask(pb.GetTaskRequest(id=task.id, tenant="north")))).reason


@pytest.mark.req("TENA-07")
@pytest.mark.parametrize("name", ["tasks", "v1", "extendedAgentCard", ".well-known", "message:send", "a/b", "x" * 256])
@pytest.mark.only_through("grpc", why="never gets as far as a door")
def test_tenants_that_would_hide_behind_a_route_are_refused_at_the_start(name: str) -> None:
    with pytest.raises(ValueError, match="tenant"):
        Tenants(frozenset({name}))
    with pytest.raises(ValueError, match="tenant"):
        Tenants(default=name)


@pytest.mark.req("TENA-06")
@pytest.mark.only_through("grpc", why="never gets as far as a door")
def test_the_default_tenant_must_be_one_that_is_served() -> None:
    with pytest.raises(ValueError, match="default tenant"):
        Tenants(frozenset({"north"}), default="south")


@pytest.mark.req("TENA-01")
async def test_the_public_card_may_be_asked_for_in_any_tenant() -> None:
    rules = CallRules(tenants=Tenants(frozenset({"north"})))
    async with serving(Stage().agent, rules=rules) as world:
        cards = [await world.discovery.GetAgentCard(GetAgentCardRequest(tenant=tenant)) for tenant in ("", "north")]
    assert cards[0] == cards[1]
