"""Interceptors see every gRPC call, whoever added them (spec: DOOR-13)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from structlog.testing import capture_logs

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.agents import Agent, Turn
from a2a_server.serve import running
from a2a_server.settings import Settings
from a2a_server.transport.grpc import accepting
from a2a_server.transport.grpc_options import GrpcOptions
from tests.unit.transport.doors import Door, open_door

ROUNDS = 40
V1, OLD = "/lf.a2a.v1.A2AService/", "/a2a.v1.A2AService/"
METHODS = {
    f"{V1}GetTask",
    f"{V1}SendStreamingMessage",
    f"{OLD}GetTask",
    f"{OLD}SendStreamingMessage",
    "/grpc.health.v1.Health/Check",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
}

Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Any]]


class Counting(grpc.aio.ServerInterceptor):
    """Notes the method of every call that it sees."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    async def intercept_service(self, continuation: Continuation, handler_call_details: Any) -> Any:
        self.seen[handler_call_details.method] += 1
        return await continuation(handler_call_details)


async def call_everything(door: Door) -> None:
    health: Any = health_pb2_grpc.HealthStub(door.channel)
    reflection = cast("Any", reflection_pb2_grpc).ServerReflectionStub(door.channel)
    listing = reflection_pb2.ServerReflectionRequest(list_services="")

    async def once() -> None:
        assert (await door.stub.GetTask(pb.GetTaskRequest(id="t"))).id == "t"
        assert len([item async for item in door.stub.SendStreamingMessage(pb.SendMessageRequest())]) == 2
        assert (await door.old.GetTask(v03.GetTaskRequest(name="tasks/t"))).id == "t"
        assert len([item async for item in door.old.SendStreamingMessage(v03.SendMessageRequest())]) == 2
        assert (await health.Check(health_pb2.HealthCheckRequest())).status == 1
        assert [answer async for answer in reflection.ServerReflectionInfo(iter([listing]))]

    await asyncio.gather(*[once() for _ in range(ROUNDS)])


@pytest.mark.req("DOOR-13")
@pytest.mark.parametrize("ahead", [0, 1, 16])
async def test_an_own_interceptor_sees_every_call(ahead: int) -> None:
    counting = Counting()
    async with open_door(options=GrpcOptions(accept_ahead=ahead), interceptors=[counting]) as door:
        await call_everything(door)
    assert counting.seen == dict.fromkeys(METHODS, ROUNDS)


@pytest.mark.req("DOOR-13")
async def test_one_that_is_injected_as_opentelemetry_does_it_sees_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    counting, original = Counting(), grpc.aio.server

    def server(*args: Any, **kwargs: Any) -> grpc.aio.Server:
        kwargs["interceptors"] = [counting, *(kwargs.get("interceptors") or ())]
        return original(*args, **kwargs)

    monkeypatch.setattr(grpc.aio, "server", server)
    with capture_logs() as logs:
        async with open_door() as door:
            await call_everything(door)
    assert counting.seen == dict.fromkeys(METHODS, ROUNDS)
    (entry,) = (entry for entry in logs if entry["event"] == "grpc.accepts_one_by_one")
    assert (entry["log_level"], entry["why"]) == ("info", "interceptors")


@pytest.mark.req("DOOR-13")
async def test_an_interceptor_may_answer_in_the_place_of_the_server() -> None:
    class Closed(grpc.aio.ServerInterceptor):
        async def intercept_service(self, continuation: Continuation, handler_call_details: Any) -> Any:
            async def refuse(_: bytes, context: Any) -> bytes:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "closed today")
                raise AssertionError

            return grpc.unary_unary_rpc_method_handler(cast("Any", refuse))

    async with open_door(interceptors=[Closed()]) as door:
        for _ in range(ROUNDS):
            with pytest.raises(grpc.aio.AioRpcError, match="closed today"):
                await door.stub.GetTask(pb.GetTaskRequest(id="t"))
        assert not door.seen.calls


def test_a_grpc_that_has_moved_its_server_counts_as_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    assert not accepting.is_wrapped()
    monkeypatch.setattr(accepting, "import_module", missing)
    assert accepting.is_wrapped()


@pytest.mark.req("DOOR-13")
async def test_whoever_embeds_a_server_gives_it_interceptors_and_steps() -> None:
    agent = Agent(name="Shout", description="Says it louder.", version="1.0.0")

    @agent.skill(id="shout", tags=["text"])
    async def shout(turn: Turn) -> str:
        return turn.text.upper()

    counting, rpcs = Counting(), []
    settings = Settings(grpc="127.0.0.1:0", http="none", store="memory:")
    async with (
        running(settings, agent, interceptors=[counting], steps=[lambda call: rpcs.append(call.rpc)]) as server,
        grpc.aio.insecure_channel(str(server.grpc)) as channel,
    ):
        send = cast("Any", channel.unary_unary(f"{V1}SendMessage"))
        message = pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text="hello")])
        await asyncio.gather(*[send(pb.SendMessageRequest(message=message).SerializeToString()) for _ in range(ROUNDS)])
    assert counting.seen == {f"{V1}SendMessage": ROUNDS}
    assert rpcs == ["SendMessage"] * ROUNDS
