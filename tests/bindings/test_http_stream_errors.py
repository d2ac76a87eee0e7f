"""Every error behind a stream's first event: its last frame, in every form, in process and networked (spec: ERRS)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import orjson
import pytest
from google.protobuf.message import Message
from google.rpc import code_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.records import Entry
from tests.support import world
from tests.support.door_upstream import event
from tests.support.doors import Door, http_door, upstream_for
from tests.support.errors_table import CODES, NAMES, ROWS, STANDARD, Codes, Row
from tests.support.house import A2AError, Call, Reason
from tests.support.http import get, once, post
from tests.support.stage import Stage
from tests.support.yielding import Batches, yielding

LINES = "Accept: application/x-ndjson"
RPC = b'{"jsonrpc":"2.0","id":"s","method":"SubscribeToTask","params":{"id":"t"}}'
FIRST = pb.StreamResponse.FromString(event(7).wire)
TOLD = b'{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"text":"7"}]}}}'


@asynccontextmanager
async def failing(error: A2AError) -> AsyncIterator[world.World]:
    """A server whose subscriptions have one event, and fail."""

    @yielding
    async def subscribe(call: Call, request: Message) -> Batches:
        yield [Entry.of(7, FIRST)]
        raise error

    async with world.serving(Stage().agent, through="grpc") as server:
        cast("dict[str, Any]", server.core.operations)["SubscribeToTask"] = subscribe
        yield server


def frames(row: Row, codes: Codes) -> dict[bytes, tuple[bytes, dict[str, Any]]]:
    """For each form of request: the prefix of the last frame, and the JSON behind it."""
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": row.reason,
        "domain": row.domain,
        "metadata": {"taskId": "t"},
    }
    status = row.status_of(codes)
    rest = {"code": row.http_of(codes), "status": status, "message": "Said so.", "details": [info]}
    line = {"code": code_pb2.Code.Value(status), "message": "Said so.", "details": [info]}
    text = f"{STANDARD[row.jsonrpc]}: Said so." if row.jsonrpc in STANDARD else "Said so."
    rpc = {"jsonrpc": "2.0", "id": "s", "error": {"code": row.jsonrpc, "message": text, "data": [info]}}
    return {
        get("/tasks/t:subscribe"): (b"event: error\ndata: ", {"error": rest}),
        get("/tasks/t:subscribe", LINES): (b"", {"error": line}),
        post("/", RPC): (b"event: error\ndata: ", rpc),
        post("/", RPC, LINES): (b"", rpc),
    }


def first(request: bytes) -> bytes:
    """The frame of the event."""
    told = b'{"jsonrpc":"2.0","id":"s","result":%b}' % TOLD if request.startswith(b"POST") else TOLD
    if LINES.encode() in request:
        return told + b"\n" if request.startswith(b"POST") else b'{"result":%b}\n' % told
    return b"id: 7\ndata: %b\n\n" % told


@pytest.mark.req("ERRS-01", "ERRS-02", "ERRS-03", "ERRS-04", "JRPC-07", "JRPC-08", "STRM-07", "DOOR-02", "DOOR-11")
@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
async def test_an_error_behind_the_first_event_is_the_last_frame(row: Row, codes: Codes) -> None:
    error = A2AError(Reason[row.reason], "Said so.", metadata={"taskId": "t"})
    doors: tuple[Door, ...] = ("rest", "rest-far")
    async with failing(error) as server:
        for way in doors:
            async with (
                upstream_for(way, server.pipeline, server.core.services.store, server.port) as upstream,
                http_door(upstream, codes=codes) as door,
            ):
                for request, (prefix, told) in frames(row, codes).items():
                    answer = await once(door.port, request)
                    last = prefix + orjson.dumps(told) + (b"\n\n" if prefix else b"\n")
                    assert (answer.status, answer.body) == (200, first(request) + last)
