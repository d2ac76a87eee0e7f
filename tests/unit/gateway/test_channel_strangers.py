"""Servers that are not ours: without details, health or sense; and what the log hears of servers that go away."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2 as code
from google.rpc import error_details_pb2 as details
from google.rpc import status_pb2
from grpc.aio._call import StreamStreamCall
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from structlog.testing import capture_logs

from a2a_gateway.channel import ChannelUpstream, channel_upstream
from a2a_gateway.upstream import CallContext
from a2a_proto import a2a_pb2 as pb
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from a2a_server.protocol.errors import A2AError, Reason, StatusError
from tests.support.upstreams import CARD, PLAIN, SERVICE, channel_to, get, items, refused, rpc
from tests.support.world import say
from tests.unit.transport.doors import failing, failing_stream, open_door

Handler = Callable[[bytes, Any], Awaitable[bytes]]


@asynccontextmanager
async def strange(
    handlers: Mapping[str, Handler], *, told: Any = None, **options: Any
) -> AsyncIterator[ChannelUpstream]:
    """A server with hand-made answers; with `told`, it has a health service that says so."""
    server = grpc.aio.server()
    methods: Any = {name: grpc.unary_unary_rpc_method_handler(handle) for name, handle in handlers.items()}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE.full_name, methods)])
    if told is not None:
        servicer = health.aio.HealthServicer()
        await servicer.set("", told)
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with channel_to(port, **options) as to:
            yield to
    finally:
        await server.stop(None)


def aborts(status: grpc.StatusCode, text: str = "", *trailers: tuple[str, str | bytes]) -> Handler:
    async def handle(request: bytes, context: Any) -> bytes:
        await context.abort(status, text, trailers)
        raise AssertionError

    return handle


def answers(raw: bytes) -> Handler:
    async def handle(request: bytes, context: Any) -> bytes:
        return raw

    return handle


@pytest.mark.req("DOOR-01")
@pytest.mark.parametrize("status", [grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.DATA_LOSS])
async def test_an_error_without_details_keeps_code_and_text(status: grpc.StatusCode) -> None:
    async with strange({"GetTask": aborts(status, "Because.")}) as to:
        refusal = await refused(get(to))
    assert refusal == status_pb2.Status(code=status.value[0], message="Because.")


@pytest.mark.req("ERRS-07", "DOOR-01")
@pytest.mark.parametrize("how", ["raised", "UNKNOWN", "INTERNAL", "with details"])
async def test_what_a_server_says_of_itself_is_for_the_log(how: str) -> None:
    secret = "postgres://admin:hunter2@db"

    async def raises(request: bytes, context: Any) -> bytes:
        raise RuntimeError(secret)

    status = status_pb2.Status(code=code.INTERNAL, message=secret)
    status.details.add().Pack(details.DebugInfo(detail=secret))
    trailers = ("grpc-status-details-bin", status.SerializeToString())
    handler = {
        "raised": raises,
        "UNKNOWN": aborts(grpc.StatusCode.UNKNOWN, secret),
        "INTERNAL": aborts(grpc.StatusCode.INTERNAL, secret),
        "with details": aborts(grpc.StatusCode.INTERNAL, secret, trailers),
    }[how]
    async with strange({"GetTask": handler, "SendStreamingMessage": handler}) as to:
        for call in (get(to), _items(to)):
            with capture_logs() as logs:
                refusal = await refused(call)
            assert (refusal.code, refusal.message) == (code.INTERNAL, "Internal error.")
            (packed,) = refusal.details
            info = details.ErrorInfo.FromString(packed.value)
            assert info.reason == "INTERNAL"
            (entry,) = logs
            assert (entry["event"], entry["incident"]) == ("upstream.failed", info.metadata["incident"])
            assert secret in entry["text"]


@pytest.mark.req("ERRS-03")
async def test_an_internal_error_with_a_reason_is_meant_for_clients() -> None:
    status = status_pb2.Status(code=code.INTERNAL, message="Out of tea.")
    status.details.add().Pack(details.ErrorInfo(reason="NO_TEA", domain="tea.example"))
    trailers = ("grpc-status-details-bin", status.SerializeToString())
    async with strange({"GetTask": aborts(grpc.StatusCode.INTERNAL, "Out of tea.", trailers)}) as to:
        assert await refused(get(to)) == status


@pytest.mark.req("DOOR-10")
@pytest.mark.parametrize("what", [grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN])
async def test_metadata_comes_with_an_error(what: grpc.StatusCode) -> None:
    async def refuses(request: bytes, context: Any) -> bytes:
        await context.send_initial_metadata((("x-h", "1"), ("a2a-extensions", "urn:a2a-server:replay:v1, urn:x")))
        await context.abort(what, "No.", (("x-t", "2"),))
        raise AssertionError

    async with strange({"GetTask": refuses, "SendStreamingMessage": refuses}, attempts=1) as to:
        for call, extensions in ((get(to), "urn:a2a-server:replay:v1, urn:x"), (_items(to), "urn:x")):
            with pytest.raises(StatusError) as caught:
                await call
            assert list(caught.value.metadata) == [("x-h", "1"), ("a2a-extensions", extensions)]
            assert list(caught.value.trailers) == [("x-t", "2")]


async def test_details_that_are_none_are_left_out() -> None:
    wrong = ("grpc-status-details-bin", b"\xff\xff")
    async with strange({"GetTask": aborts(grpc.StatusCode.NOT_FOUND, "No.", wrong)}) as to:
        refusal = await refused(get(to))
    assert refusal == status_pb2.Status(code=code.NOT_FOUND, message="No.")


async def test_details_of_others_are_passed_on_as_they_are() -> None:
    status = status_pb2.Status(code=code.ABORTED, message="Once more.")
    status.details.add().Pack(details.DebugInfo(detail="theirs"))
    trailers = ("grpc-status-details-bin", status.SerializeToString())
    async with strange({"GetTask": aborts(grpc.StatusCode.ABORTED, "Once more.", trailers)}) as to:
        assert await refused(get(to)) == status


@pytest.mark.req("DOOR-04", "ERRS-07")
async def test_metadata_that_is_too_much_is_told_apart_and_nothing_else_is_told() -> None:
    much = CallContext({"x-much": ("x" * 20_000,)})
    fat = aborts(grpc.StatusCode.NOT_FOUND, "No.", ("x-much", "x" * 70_000))
    async with strange({"GetTask": fat}) as to:
        for method in ("GetTask", "SendStreamingMessage"):
            call = get(to, much) if method == "GetTask" else _items(to, much)
            refusal = await refused(call)
            assert (refusal.code, refusal.message) == (
                code.RESOURCE_EXHAUSTED,
                "The headers are larger than the agent's server accepts.",
            )
            info = details.ErrorInfo.FromString(refusal.details[0].value)
            assert info.reason == "HEADERS_TOO_LARGE"
        refusal = await refused(get(to))
        assert (refusal.code, refusal.message) == (
            code.INTERNAL,
            "The answer's metadata is larger than this gateway accepts.",
        )


@pytest.mark.req("DOOR-01")
async def test_a_server_that_lacks_a_service_says_so_itself() -> None:
    async with strange({}) as to:
        for call in (get(to), to.unary(CARD, GetAgentCardRequest(), PLAIN), _items(to)):
            assert (await refused(call)).code == code.UNIMPLEMENTED


async def test_garbage_is_not_passed_on() -> None:
    async with strange({"GetTask": answers(b"\xff\xff\xff")}) as to:
        refusal = await refused(get(to))
    assert refusal.code == code.INTERNAL
    assert refusal.message == "The agent's server did not answer with a well-formed lf.a2a.v1.Task."


@pytest.mark.req("DOOR-01", "DOOR-07")
@pytest.mark.parametrize(
    ("told", "ready"),
    [
        (None, True),
        (health_pb2.HealthCheckResponse.SERVING, True),
        (health_pb2.HealthCheckResponse.NOT_SERVING, False),
        (health_pb2.HealthCheckResponse.UNKNOWN, False),
    ],
)
async def test_ready_is_what_the_server_says_or_that_it_answers(told: Any, *, ready: bool) -> None:
    async with strange({}, told=told) as to:
        assert await to.ready() is ready


async def test_a_server_that_says_nothing_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_upstream, "HEALTH_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with channel_to(silent.getsockname()[1]) as to:
            assert not await to.ready()
            late = await refused(get(to, CallContext({}, 0.1)))
    assert late.code == code.DEADLINE_EXCEEDED


async def test_a_read_and_a_send_have_their_own_deadlines() -> None:
    async def sleeps(request: bytes, context: Any) -> bytes:
        await asyncio.sleep(60)
        raise AssertionError

    async with strange({"GetTask": sleeps, "SendMessage": sleeps}, read_timeout=0.1, call_timeout=0.2) as to:
        assert "within 0.1 seconds" in (await refused(get(to))).message
        assert "within 0.2 seconds" in (await refused(to.unary(rpc("SendMessage"), say(), PLAIN))).message


@pytest.mark.req("DOOR-01")
async def test_a_server_that_refuses_before_it_has_read_is_understood() -> None:
    """As proxies do that look at nothing but headers. gRPC then trips over the request, and forgets the reason."""

    async def refuses(requests: Any, context: Any) -> AsyncIterator[bytes]:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "Who?")
        yield b""

    server = grpc.aio.server()
    methods: Any = {"SendStreamingMessage": grpc.stream_stream_rpc_method_handler(refuses)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE.full_name, methods)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with channel_to(port) as to:
        refusals = [await refused(_items(to)) for _ in range(400)]
        assert {(refusal.code, refusal.message) for refusal in refusals} == {(code.UNAUTHENTICATED, "Who?")}
    await server.stop(None)


@pytest.mark.req("DOOR-01")
async def test_half_a_request_goes_again_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, in the one of a hundred cases in which the call ends right while the request is written."""
    write, failures = StreamStreamCall.write, 2

    async def trips(call: Any, request: bytes) -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            nothing = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, nothing, nothing, "Internal error from Core")
        await write(call, request)

    monkeypatch.setattr(StreamStreamCall, "write", trips)
    async with open_door() as door, channel_to(door.address.port) as to:
        assert len(await _items(to)) == 2
        assert len(door.seen.calls) == 1


async def _items(to: ChannelUpstream, context: CallContext = PLAIN) -> list[Any]:
    return await items(await to.stream(rpc("SendStreamingMessage"), say(), context))


# What the log hears of an upstream that goes away and comes back: each change, once.
TOLD_ONCE = pytest.mark.req("DOOR-01", "DOOR-07")

Logs = list[MutableMapping[str, Any]]


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Logs]:
    """What is logged of an upstream that is asked anew each time."""
    monkeypatch.setattr(channel_upstream, "HEALTH_REUSED_SECONDS", 0.0)
    with capture_logs() as found:
        yield found


def events(logs: Logs) -> list[str]:
    return [entry["event"] for entry in logs if entry["event"].startswith("upstream.")]


async def send(to: ChannelUpstream) -> None:
    await to.unary(rpc("SendMessage"), pb.SendMessageRequest(), PLAIN)


async def stream(to: ChannelUpstream) -> None:
    await items(await to.stream(rpc("SendStreamingMessage"), pb.SendMessageRequest(), PLAIN))


async def succeeds(to: ChannelUpstream) -> None:
    """Call until an answer comes."""
    async with asyncio.timeout(20):
        while True:
            try:
                await get(to)
            except A2AError:
                await asyncio.sleep(0.02)
            else:
                return


@TOLD_ONCE
async def test_many_calls_fail_and_many_succeed_and_each_change_is_told_once(logs: Logs) -> None:
    async with open_door() as door:
        port = door.address.port
    async with channel_to(port) as to:
        for _ in range(3):
            for call in (get, send, stream):
                await refused(call(to))
            assert not await to.ready()
        (entry,) = logs
        assert (entry["event"], entry["address"]) == ("upstream.unavailable", f"127.0.0.1:{port}")
        assert "refused" in entry["reason"]
        async with open_door(port=port):
            await succeeds(to)
            for call in (get, send, stream):
                await call(to)
            assert await to.ready()
            assert events(logs) == ["upstream.unavailable", "upstream.back"]
            assert logs[1]["address"] == entry["address"]
        await refused(get(to))
        assert events(logs) == ["upstream.unavailable", "upstream.back", "upstream.unavailable"]


@TOLD_ONCE
async def test_of_two_servers_the_one_that_went_is_named(logs: Logs) -> None:
    async with (
        open_door() as stays,
        open_door() as goes,
        channel_to(stays.address.port, goes.address.port) as to,
    ):
        assert await to.ready()
        await goes.server.stop(None)
        for _ in range(3):
            assert await to.ready()
            assert await get(to) == "t"
    assert [(entry["event"], entry["address"]) for entry in logs] == [("upstream.unavailable", str(goes.address))]


@TOLD_ONCE
async def test_a_stream_that_breaks_off_is_told(logs: Logs) -> None:
    begun = asyncio.Event()

    async def endless(call: object, request: object) -> Any:
        begun.set()
        await asyncio.Event().wait()
        yield ()

    async with open_door({"SendStreamingMessage": endless}) as door, channel_to(door.address.port) as to:
        reading = asyncio.ensure_future(refused(stream(to)))
        await begun.wait()
        door.pipeline.streams.end_all()
        await door.server.stop(None)
        await reading
        await refused(get(to))
    assert events(logs) == ["upstream.unavailable"]


@TOLD_ONCE
async def test_a_server_that_says_nothing_is_missed_by_whoever_asks_whether_it_is_there(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_upstream, "HEALTH_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with channel_to(silent.getsockname()[1]) as to:
            assert not await to.ready()
            assert not await to.ready()
    (entry,) = logs
    assert (entry["event"], entry["reason"]) == ("upstream.unavailable", "no sign of life within 0.2 seconds")


@TOLD_ONCE
async def test_a_server_that_refuses_is_there(logs: Logs) -> None:
    error = A2AError(Reason.UNAVAILABLE, "Not now.", retry_after=1)
    refusing = {"GetTask": failing(error), "SendStreamingMessage": failing_stream(error)}
    async with open_door(refusing) as door, channel_to(door.address.port) as to:
        assert (await refused(get(to))).message == "Not now."
        assert (await refused(stream(to))).message == "Not now."
    assert events(logs) == []
