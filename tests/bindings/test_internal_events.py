"""What agents tell the telemetry, and nobody else (spec: INTL)."""

from __future__ import annotations

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Agent, Turn
from a2a_server.ports.agent import InternalEvent, Outlet, TurnRequest
from a2a_server.ports.store import Store
from tests.bindings.actors import COMPLETED, Actor, log_of, status
from tests.support.world import kinds, say, serving


def thinker() -> Agent:
    agent = Agent("Thinker", "Thinks.", "1.0.0")

    @agent.skill(id="think", tags=["test"])
    async def think(turn: Turn) -> str:
        turn.internal("llm-call", iteration=1)
        turn.internal("tool-start", toolName="search", toolCallId="c1")
        turn.internal("internal:tool-complete", toolCallId="c1", success=True)
        turn.internal("checkpoint", iteration=2)
        return "thought"

    return agent


@pytest.mark.req("INTL-01", "INTL-02")
async def test_internal_events_reach_the_hooks_and_nothing_else(store: Store) -> None:
    seen: list[InternalEvent] = []
    also: list[InternalEvent] = []
    async with serving(thinker(), store=store, observers=[seen.append, also.append]) as world:
        items = await world.stream(say())
        task = await world.get(items[0].task.id)
        assert kinds(items) == ["task", "WORKING", "artifact_update", "COMPLETED"]
        assert [event.kind for event in seen] == [
            "internal:llm-call",
            "internal:tool-start",
            "internal:tool-complete",
            "internal:checkpoint",
        ]
        assert seen == also
        assert {event.task_id for event in seen} == {task.id}
        assert seen[1].fields == {"toolName": "search", "toolCallId": "c1"}
        assert all(event.at_ms > 0 for event in seen)
        stored = str(task) + str(await log_of(world.core, task.id)) + str(items)
        assert "internal" not in stored
        assert "search" not in stored


@pytest.mark.req("INTL-01")
async def test_without_hooks_they_go_nowhere() -> None:
    async with serving(thinker()) as world:
        assert (await world.send(say())).status.state == COMPLETED


@pytest.mark.req("INTL-02")
async def test_a_hook_that_fails_is_not_the_agents_fault() -> None:
    seen: list[InternalEvent] = []

    def broken(event: InternalEvent) -> None:
        raise RuntimeError("the collector is away")

    async with serving(thinker(), observers=[broken, seen.append]) as world:
        assert (await world.send(say())).status.state == COMPLETED
        assert len(seen) == 4


@pytest.mark.req("INTL-01", "SEND-14")
async def test_internal_fields_never_mix_with_events() -> None:
    """What is internal has its own call; an event on the wire cannot be declared internal, and none is dropped."""

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        event = status(pb.TASK_STATE_WORKING, "visible")
        event.status_update.metadata["kind"] = "internal:llm-call"
        outlet.emit(event)
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act)) as world:
        assert kinds(await world.stream(say())) == ["task", "WORKING", "WORKING", "COMPLETED"]
