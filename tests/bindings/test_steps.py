"""A step of one's own in the pipeline: it runs for every call, through every door, and may refuse (design 4)."""

from __future__ import annotations

import asyncio

import grpc

from a2a_proto import a2a_pb2 as pb
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from tests.bindings.actors import echo
from tests.support.house import A2AError, Admission, Reason
from tests.support.world import refused, say, serving


async def test_an_own_step_runs_for_unary_and_streaming_calls_and_sees_what_was_settled() -> None:
    seen: list[tuple[str, str, str]] = []

    def note(call: Admission) -> None:
        seen.append((call.rpc, call.version, call.scope.owner))

    async with serving(echo(), steps=[note]) as world:
        task = await world.send(say())
        await world.stream(say(message_id="m-2"))
        await world.get(task.id)
        await world.discovery.GetAgentCard(GetAgentCardRequest())
    rpcs = ("SendMessage", "SendStreamingMessage", "GetTask", "GetAgentCard")
    assert seen == [(rpc, "1.0", "anonymous") for rpc in rpcs]


async def test_a_step_that_waits_may_refuse_the_call() -> None:
    async def refuse_sends(call: Admission) -> None:
        await asyncio.sleep(0)
        if call.rpc.startswith("Send"):
            raise A2AError(Reason.PERMISSION_DENIED, "Not today.")

    async with serving(echo(), steps=[refuse_sends]) as world:
        refusal = await refused(world.stub.SendMessage(say()))
        assert (refusal.code, refusal.message) == (grpc.StatusCode.PERMISSION_DENIED, "Not today.")
        begun = world.stub.SendStreamingMessage(say())
        assert (await refused(begun.read())).code == grpc.StatusCode.PERMISSION_DENIED
        assert not (await world.stub.ListTasks(pb.ListTasksRequest())).tasks


async def test_what_a_step_adds_reaches_the_client_ahead_of_the_answer() -> None:
    def mark(call: Admission) -> None:
        call.metadata = (*call.metadata, ("x-served-by", "one"))

    async with serving(echo(), steps=[mark]) as world:
        call = world.stub.SendMessage(say())
        metadata = {name.lower().removeprefix("grpc-metadata-"): value for name, value in await call.initial_metadata()}
        assert metadata["x-served-by"] == "one"
