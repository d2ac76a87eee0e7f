"""Tenants: who may name which, and what keeps them apart (spec: TENA, CONF-64)."""

from __future__ import annotations

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from a2a_server.ports.store import Store
from tests.support.calls import every_call
from tests.support.house import CallRules, Tenants
from tests.support.stage import Stage
from tests.support.world import ByHeader, as_user, refused, say, serving

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
