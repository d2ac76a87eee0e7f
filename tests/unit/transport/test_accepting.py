"""Calls that are taken many at once: nothing about them differs but the time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import grpc
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from structlog.testing import capture_logs

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.agents import Agent, Turn
from a2a_server.operations.call import Call
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.serve import running
from a2a_server.settings import Settings
from a2a_server.transport.grpc import accepting
from a2a_server.transport.grpc_options import GrpcOptions
from tests.unit.transport.doors import Door, open_door, refused

REQUEST = pb.GetTaskRequest(id="t")
ONE_BY_ONE = GrpcOptions(accept_ahead=0)


class Crowd:
    """An operation in which calls wait for each other."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.inside = 0
        self.full = asyncio.Event()

    async def __call__(self, call: Call, request: Message) -> Message:
        self.inside += 1
        if self.inside == self.size:
            self.full.set()
        await self.full.wait()
        return pb.Task(id="t")


async def test_this_grpc_is_built_as_it_has_to_be() -> None:
    server = grpc.aio.server()
    assert accepting.core_of(server) is not None


@pytest.mark.parametrize("ahead", [0, 1, 2, 16])
async def test_more_calls_than_were_asked_for_are_all_answered(ahead: int) -> None:
    crowd = Crowd(100)
    async with open_door({"GetTask": crowd}, options=GrpcOptions(accept_ahead=ahead)) as door:
        async with asyncio.timeout(20):
            answers = await asyncio.gather(*[door.stub.GetTask(REQUEST) for _ in range(100)])
        assert [answer.id for answer in answers] == ["t"] * 100


@pytest.mark.req("LIMT-01")
@pytest.mark.parametrize("ahead", [0, 1, 16])
@pytest.mark.parametrize("most", [1, 5])
async def test_the_bound_is_kept_whoever_takes_the_call(ahead: int, most: int) -> None:
    inside, gate = 0, asyncio.Event()

    async def hold(call: Call, request: Message) -> Message:
        nonlocal inside
        inside += 1
        await gate.wait()
        return pb.Task(id="t")

    options = GrpcOptions(max_concurrent_calls=most, accept_ahead=ahead)
    async with open_door({"GetTask": hold}, options=options) as door:
        held = [asyncio.ensure_future(door.stub.GetTask(REQUEST)) for _ in range(most)]
        async with asyncio.timeout(30):
            while inside < most:  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0.01)
        for _ in range(20):  # whoever's turn it is
            async with asyncio.timeout(30):
                refusal = await refused(lambda: door.stub.GetTask(REQUEST))
            assert refusal.code == grpc.StatusCode.RESOURCE_EXHAUSTED
        gate.set()
        assert len(await asyncio.gather(*held)) == most
        for _ in range(20):  # and there is room again, whoever's turn it is
            await _when_there_is_room(lambda: door.stub.GetTask(REQUEST))


async def test_calls_that_end_badly_make_room_too() -> None:
    async with open_door(options=GrpcOptions(max_concurrent_calls=1, accept_ahead=3)) as door:
        for _ in range(20):
            await _when_there_is_room(lambda: door.stub.CancelTask(pb.CancelTaskRequest(id="t")))  # fails: no operation
            await _when_there_is_room(lambda: _begun_and_canceled(door.stub))
            await _when_there_is_room(lambda: door.stub.GetTask(REQUEST))


async def _begun_and_canceled(stub: Any) -> None:
    stream = stub.SendStreamingMessage(pb.SendMessageRequest())
    await stream.read()
    stream.cancel()


async def _when_there_is_room(call: Callable[[], Awaitable[object]]) -> None:
    """A call is over a moment after its answer, and a canceled one when the server hears of it."""
    async with asyncio.timeout(30):
        while True:
            try:
                await call()
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                    return
                await asyncio.sleep(0.01)
            else:
                return


async def test_an_unknown_method_is_still_unknown() -> None:
    async with open_door() as door:
        refusal = await refused(lambda: cast("Any", door.channel.unary_unary("/lf.a2a.v1.A2AService/Guess"))(b""))
        assert refusal.code == grpc.StatusCode.UNIMPLEMENTED


async def test_nothing_is_left_running_when_the_server_stops() -> None:
    before = asyncio.all_tasks()
    async with open_door() as door:
        await door.stub.GetTask(REQUEST)
    async with asyncio.timeout(30):
        while asyncio.all_tasks() - before:  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(0.01)


@pytest.mark.req("DOOR-13")
@pytest.mark.parametrize("missing", ["_handle_rpc", "_schedule_rpc_coro", "_MethodResolver", "_RequestCallError"])
async def test_another_grpc_takes_calls_as_it_always_did(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "_grpc", _Without(accepting._grpc, missing))  # noqa: SLF001 - as if it were another
    with capture_logs() as logs:
        async with open_door() as door:
            assert (await door.stub.GetTask(REQUEST)).id == "t"
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("grpc.accepts_one_by_one", "warning")]


async def test_functions_with_other_parameters_are_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "_FUNCTIONS", {"_handle_rpc": ("method", "state")})
    assert accepting.core_of(grpc.aio.server()) is None


async def test_whoever_wants_calls_one_by_one_is_not_warned() -> None:
    with capture_logs() as logs:
        async with open_door(options=ONE_BY_ONE) as door:
            assert (await door.stub.GetTask(REQUEST)).id == "t"
    assert not logs


class _Without:
    """gRPC's module, but for one name."""

    def __init__(self, module: Any, missing: str) -> None:
        self._module = module
        self._missing = missing

    def __getattr__(self, name: str) -> Any:
        if name == self._missing:
            raise AttributeError(name)
        return getattr(self._module, name)


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


class Deaf:
    """A call whose message has come, and whose client does not read the refusal."""

    def __init__(self) -> None:
        self.refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def peer(self) -> str:
        return "ipv4:192.0.2.1:5"

    def done(self) -> bool:
        return False

    async def read(self) -> bytes:
        return b""

    async def abort(self, _: object, text: str, __: object) -> None:
        self.refused.set_result(text)
        await asyncio.Event().wait()


async def _unary(_: bytes, __: object) -> bytes:
    raise A2AError(Reason.INVALID_PARAMS, "Not this one.")


async def _stream(raw: bytes, context: object) -> AsyncIterator[bytes]:
    yield await _unary(raw, context)


@pytest.mark.req("LIMT-01")
@pytest.mark.parametrize("streams", [False, True])
async def test_a_refused_call_has_no_place_while_its_refusal_is_unread(streams: bool) -> None:  # noqa: FBT001
    handler: Any = (grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler)(
        cast("Any", _stream if streams else _unary)
    )
    bounded: Any = accepting.Places(GrpcOptions(max_concurrent_calls=2)).bounded(handler)
    calls = []
    for _ in range(5):
        deaf = Deaf()
        answer = bounded.stream_stream(None, deaf).__anext__() if streams else bounded.stream_unary(None, deaf)
        calls.append(asyncio.ensure_future(answer))
        assert await asyncio.wait_for(deaf.refused, 10) == "Not this one."
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
