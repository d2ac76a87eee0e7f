"""Cursors and early ends of streams over a channel, as HTTP clients see them (spec: RPLY-02, STRM-07)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from a2a_gateway.channel import channel_stream
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.names import REPLAY_URI
from tests.support.door_events import event_of
from tests.support.doors import OpenGateway, http_door
from tests.support.http import get, once, post
from tests.unit.gateway.upstreams import SERVICE, channel_to

ITEM = pb.StreamResponse(task=pb.Task(id="t")).SerializeToString()
AGREED = (("a2a-extensions", REPLAY_URI),)
RPC = b'{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"t"}}'

Handler = Callable[[bytes, Any], AsyncIterator[bytes]]


@asynccontextmanager
async def behind(handler: Handler) -> AsyncIterator[OpenGateway]:
    """A gateway before a server whose streams are made by hand."""
    server = grpc.aio.server()
    methods: Any = {
        name: grpc.unary_stream_rpc_method_handler(handler) for name in ("SubscribeToTask", "SendStreamingMessage")
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE.full_name, methods)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with channel_to(port) as to, http_door(to) as door:
            yield door
    finally:
        await server.stop(None)


async def begins(request: bytes, context: Any) -> AsyncIterator[bytes]:
    """Knows nothing of cursors."""
    yield ITEM


def refuses(after: float, *, told: Any = AGREED) -> Handler:
    async def handle(request: bytes, context: Any) -> AsyncIterator[bytes]:
        if told is not None:
            await context.send_initial_metadata(told)
        await asyncio.sleep(after)
        await context.abort(grpc.StatusCode.NOT_FOUND, "Not there.")
        yield b""

    return handle


# -- cursors


@pytest.mark.req("RPLY-02", "DOOR-01")
@pytest.mark.parametrize("cursor", ["Last-Event-ID: 3", "?lastEventId=3"])
async def test_nobody_resumes_where_a_stream_would_only_begin_anew(cursor: str) -> None:
    query, fields = (cursor, []) if cursor.startswith("?") else ("", [cursor])
    async with behind(begins) as door:
        answer = await once(door.port, get(f"/tasks/t:subscribe{query}", *fields))
        assert (answer.status, answer.reason) == (400, "UNSUPPORTED_OPERATION")
        assert answer.json["error"]["message"] == (
            "Last-Event-ID: the agent's server does not replay events; a2ad does with replay_extension = true."
        )
        rpc = await once(door.port, post(f"/{query}", RPC, *fields))
        assert (rpc.status, rpc.json["error"]["code"]) == (200, -32004)
        for path in ("/tasks/t:subscribe", "/tasks/t:subscribe?lastEventId="):  # as who has seen nothing
            assert (await once(door.port, get(path))).status == 200


@pytest.mark.req("RPLY-02", "ERRS-05")
async def test_what_is_no_cursor_is_told_as_in_one_process() -> None:
    async with behind(begins) as door:
        for wrong in ("abc", "-1", "1.5", "9" * 19):
            answer = await once(door.port, get("/tasks/t:subscribe", f"Last-Event-ID: {wrong}"))
            assert (answer.status, answer.reason) == (400, "INVALID_PARAMS")
            (fault,) = answer.json["error"]["details"][0]["fieldViolations"]
            assert fault == {
                "field": "last-event-id",
                "description": "must be the number of an event that a stream has shown, such as 17, or 0",
            }


async def test_a_send_has_no_cursor() -> None:
    async with behind(begins) as door:
        assert (await once(door.port, post("/message:stream", b"{}", "Last-Event-ID: 3"))).status == 200


@pytest.mark.req("STRM-07")
async def test_what_the_upstream_has_to_say_comes_first() -> None:
    async with behind(refuses(0, told=None)) as door:
        answer = await once(door.port, get("/tasks/t:subscribe", "Last-Event-ID: abc"))
        assert (answer.status, answer.json["error"]["message"]) == (404, "Not there.")


# -- ends before the first event


@pytest.mark.req("STRM-07")
@pytest.mark.parametrize("path", ["/tasks/t:subscribe", "/message:stream"])
@pytest.mark.parametrize("told", [AGREED, (), None], ids=["agreed", "other metadata", "nothing told"])
async def test_a_stream_that_fails_before_its_first_event_is_an_ordinary_error(path: str, told: Any) -> None:
    request = get(path) if "subscribe" in path else post(path, b"{}")
    async with behind(refuses(2 * channel_stream.HEADSTART, told=told)) as door:
        answer = await once(door.port, request)
        assert (answer.status, answer.json["error"]["message"]) == (404, "Not there.")


@pytest.mark.req("STRM-07", "RPLY-02")
async def test_who_resumes_is_soon_told_that_the_stream_stands() -> None:
    """Nothing may happen for long; an upstream that refuses after all should do so at once."""
    async with behind(refuses(0)) as door:
        answer = await once(door.port, get("/tasks/t:subscribe", "Last-Event-ID: 3"))
        assert (answer.status, answer.json["error"]["message"]) == (404, "Not there.")
    async with behind(refuses(4 * channel_stream.HEADSTART)) as door:
        answer = await once(door.port, get("/tasks/t:subscribe", "Last-Event-ID: 3"))
        assert answer.status == 200
        (frame,) = answer.body.decode().removesuffix("\n\n").split("\n\n")
        event = event_of(frame)
        assert (event.name, event.data["error"]["message"]) == ("error", "Not there.")
