"""A channel's streams: the numbers of events, and which item is the last (spec: RPLY, STRM-07, CONF-06, CONF-11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import grpc
import pytest

from a2a_gateway.channel import channel_stream, endings
from a2a_gateway.channel.endings import IN_BAND_KEY, BatchReader, FinalBatch, is_end
from a2a_gateway.channel.event_numbers import EventNumbers, NumberedItem
from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2
from a2a_server.domain import events
from a2a_server.domain.lifecycle import TERMINAL
from a2a_server.ports.records import Entry
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import REPLAY_URI
from a2a_server.transport.numbering import numbered
from tests.support.door_events import event_of
from tests.support.doors import OpenGateway, http_door
from tests.support.http import get, once, post
from tests.support.upstreams import SERVICE, channel_to, rpc

ACTIVE = [("a2a-extensions", REPLAY_URI)]
WORKS = pb.TaskStatus(state=pb.TASK_STATE_WORKING)


def numbers(*asked: tuple[str, str]) -> EventNumbers:
    made = EventNumbers(rpc("SubscribeToTask"), asked)
    made.answered(ACTIVE)
    return made


def events_of(text: str, **metadata: Any) -> list[pb.StreamResponse]:
    """One of each kind."""
    parts = [pb.Part(text=text)]
    made = [
        pb.StreamResponse(task=pb.Task(id=text, status=WORKS)),
        pb.StreamResponse(message=pb.Message(message_id="m", parts=parts, extensions=["after the metadata"])),
        pb.StreamResponse(status_update=pb.TaskStatusUpdateEvent(task_id=text, status=WORKS)),
        pb.StreamResponse(artifact_update=pb.TaskArtifactUpdateEvent(artifact=pb.Artifact(parts=parts))),
    ]
    for event in made:
        if metadata:
            getattr(event, event.WhichOneof("payload") or "").metadata.update(metadata)
    return made


def told(wire: bytes) -> float:
    """The number as any client of the extension reads it."""
    event = pb.StreamResponse.FromString(wire)
    return float(getattr(event, event.WhichOneof("payload") or "").metadata[REPLAY_URI])


@pytest.mark.req("RPLY-05")
@pytest.mark.parametrize("size", [0, 1, 40, 60, 80, 100, 120, 127, 128, 16_300, 16_384, 2_100_000])
@pytest.mark.parametrize("metadata", [{}, {"mood": "fine"}, {"deep": {"er": [1, None]}}], ids=["none", "flat", "deep"])
def test_what_is_put_in_is_taken_out_again(size: int, metadata: dict[str, Any]) -> None:
    for number, event in enumerate(events_of("x" * size, **metadata), 2**40):
        entry = Entry.of(number, event)
        (copy,) = numbered((entry,))
        wire = copy.wire
        assert (copy.number, told(wire)) == (number, number)
        assert (entry.wire, entry.event) == (event.SerializeToString(), event)
        read = numbers().read(wire)
        assert (read.number, pb.StreamResponse.FromString(read.wire)) == (number, event)
        if not metadata:
            assert read.wire == entry.wire
        assert numbers(("a2a-extensions", f"https://example.com/x, {REPLAY_URI}")).read(wire) == (number, wire)


def test_numbers_of_other_servers_are_read_wherever_they_stand() -> None:
    for event in events_of("x"):
        plain = event.SerializeToString()
        getattr(event, event.WhichOneof("payload") or "").metadata[REPLAY_URI] = 7
        assert numbers().read(event.SerializeToString()) == (7, plain)


@pytest.mark.parametrize("wrong", ["7", True, None, [7], -1, 0, 1.5, 2.0**60, float("inf"), float("nan")])
def test_what_is_no_number_is_taken_out_all_the_same(wrong: Any) -> None:
    for event in events_of("x"):
        plain = event.SerializeToString()
        getattr(event, event.WhichOneof("payload") or "").metadata.update({REPLAY_URI: wrong})
        assert numbers().read(event.SerializeToString()) == (0, plain)


def test_an_event_without_a_number_is_left_alone() -> None:
    for event in (*events_of("x"), *events_of("x", mood="fine"), pb.StreamResponse()):
        wire = event.SerializeToString()
        assert numbers().read(wire) == (0, wire)


def test_two_events_in_one_are_read_as_protobuf_reads_them() -> None:
    first, second = (event.SerializeToString() for event in events_of("x")[2:])
    (copy,) = numbered((Entry.of(7, events_of("x")[3]),))
    assert numbers().read(first + copy.wire) == (7, second)


@pytest.mark.parametrize("wire", [b"\x1a", b"\x1a\xff", b"\xff" * 40])
def test_what_is_no_event_is_an_error_of_the_upstream(wire: bytes) -> None:
    with pytest.raises(A2AError) as caught:
        numbers().read(wire)
    assert caught.value.reason is Reason.INTERNAL


@pytest.mark.req("DOOR-01", "EXTN-02")
def test_servers_that_do_not_agree_are_not_read_at_all() -> None:
    strange = EventNumbers(rpc("SubscribeToTask"), ())
    assert strange.answered([("a2a-extensions", "https://example.com/x"), ("x", "y")]) == [
        ("a2a-extensions", "https://example.com/x"),
        ("x", "y"),
    ]
    assert not strange.active
    assert strange.read(b"\xff") == (0, b"\xff")


@pytest.mark.req("EXTN-02", "EXTN-03")
@pytest.mark.parametrize(
    ("asked", "answer", "shown"),
    [
        ((), REPLAY_URI, []),
        ((), f"https://example.com/x, {REPLAY_URI}", [("a2a-extensions", "https://example.com/x")]),
        ((REPLAY_URI,), REPLAY_URI, [("a2a-extensions", REPLAY_URI)]),
        ((f"https://example.com/x,{REPLAY_URI}",), REPLAY_URI, [("a2a-extensions", REPLAY_URI)]),
    ],
)
def test_clients_are_told_of_what_they_asked_for(asked: tuple[str, ...], answer: str, shown: list[Any]) -> None:
    metadata = [("a2a-extensions", value) for value in asked]
    made = EventNumbers(rpc("SendStreamingMessage"), metadata)
    assert [value for _, value in made.with_extension(metadata)].count(REPLAY_URI) == (
        0 if f"https://example.com/x,{REPLAY_URI}" in asked else 1
    )
    assert made.answered([("a2a-extensions", answer)]) == shown
    assert made.active


def test_only_streams_of_events_are_asked_for_numbers() -> None:
    other = discovery_pb2.DESCRIPTOR.services_by_name["Discovery"].methods_by_name["GetAgentCard"]
    assert EventNumbers(other, ()).with_extension([("x", "y")]) == [("x", "y")]


@pytest.mark.req("RPLY-02")
@pytest.mark.parametrize(
    ("cursors", "reason"),
    [
        ((), None),
        (("",), None),
        (("3",), Reason.UNSUPPORTED_OPERATION),
        (("", "0"), Reason.UNSUPPORTED_OPERATION),
        (("3", "3"), Reason.UNSUPPORTED_OPERATION),
        (("3", "4"), Reason.INVALID_PARAMS),
        (("-1",), Reason.INVALID_PARAMS),
        (("3 ",), Reason.INVALID_PARAMS),
        (("\u0663",), Reason.INVALID_PARAMS),
        (("1" * 19,), Reason.INVALID_PARAMS),
    ],
)
def test_a_cursor_is_for_upstreams_that_know_what_it_is(cursors: tuple[str, ...], reason: Reason | None) -> None:
    asked = [("last-event-id", cursor) for cursor in cursors]
    numbers(*asked).check()  # has agreed, and judges for itself
    EventNumbers(rpc("SendStreamingMessage"), asked).check()  # for which it means nothing
    strange = EventNumbers(rpc("SubscribeToTask"), asked)
    strange.answered([])
    if reason is None:
        strange.check()
    else:
        with pytest.raises(A2AError) as caught:
            strange.check()
        assert caught.value.reason is reason


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
    async with behind(refuses(2 * channel_stream.REFUSAL_SECONDS, told=told)) as door:
        answer = await once(door.port, request)
        assert (answer.status, answer.json["error"]["message"]) == (404, "Not there.")


@pytest.mark.req("STRM-07", "RPLY-02")
async def test_who_resumes_is_soon_told_that_the_stream_stands() -> None:
    """Nothing may happen for long; an upstream that refuses after all should do so at once."""
    async with behind(refuses(0)) as door:
        answer = await once(door.port, get("/tasks/t:subscribe", "Last-Event-ID: 3"))
        assert (answer.status, answer.json["error"]["message"]) == (404, "Not there.")
    async with behind(refuses(4 * channel_stream.REFUSAL_SECONDS)) as door:
        answer = await once(door.port, get("/tasks/t:subscribe", "Last-Event-ID: 3"))
        assert answer.status == 200
        (frame,) = answer.body.decode().removesuffix("\n\n").split("\n\n")
        event = event_of(frame)
        assert (event.name, event.data["error"]["message"]) == ("error", "Not there.")


def status(state: pb.TaskState, **metadata: Any) -> NumberedItem:
    update = pb.TaskStatusUpdateEvent(task_id="t", status=pb.TaskStatus(state=state))
    update.metadata.update(metadata)
    return NumberedItem(7, pb.StreamResponse(status_update=update).SerializeToString())


@pytest.mark.req("LRPC-05", "LOLD-04")
@pytest.mark.parametrize("keep_open", [False, True])
@pytest.mark.parametrize("state", pb.TaskState.values())
@pytest.mark.parametrize("metadata", [{}, {"inBand": True}, {"inBand": False}, {"inBand": "yes"}])
def test_an_event_tells_the_end_or_leaves_it_open_or_rules_it_out(
    state: pb.TaskState,
    metadata: dict[str, Any],
    keep_open: bool,  # noqa: FBT001 - a parameter
) -> None:
    item = status(state, **metadata)
    tells = is_end(item, keep_open_on_input=keep_open)
    closes = events.closes_stream(pb.StreamResponse.FromString(item.wire), keep_open_on_input=keep_open)
    if state == pb.TASK_STATE_UNSPECIFIED:
        assert tells is None  # nobody knows what it means; the end of the stream does tell
    elif closes and state not in TERMINAL:
        assert tells is None  # unless more messages wait
    else:
        assert tells is closes


def test_it_knows_the_servers_mark() -> None:
    assert IN_BAND_KEY == events.IN_BAND_KEY


@pytest.mark.parametrize(
    "item",
    [
        pb.StreamResponse(task=pb.Task(id="t", status=pb.TaskStatus(state=pb.TASK_STATE_COMPLETED))),
        pb.StreamResponse(message=pb.Message(message_id="m")),
        pb.StreamResponse(artifact_update=pb.TaskArtifactUpdateEvent(task_id="t", last_chunk=True)),
        pb.StreamResponse(),
    ],
)
def test_what_has_no_place_for_it_is_not_looked_at(item: pb.StreamResponse) -> None:
    assert is_end(NumberedItem(1, item.SerializeToString()), keep_open_on_input=False) is False


def test_what_is_no_event_is_the_upstreams_fault() -> None:
    with pytest.raises(A2AError) as caught:
        is_end(NumberedItem(0, status(pb.TASK_STATE_COMPLETED).wire[:-1]), keep_open_on_input=False)
    assert "well-formed lf.a2a.v1.StreamResponse" in caught.value.message


class Call:
    """A call whose messages come when the test says so; at their end nothing, or an error."""

    def __init__(self, *wires: Any) -> None:
        self.coming: asyncio.Queue[Any] = asyncio.Queue()
        for wire in wires:
            self.coming.put_nowait(wire)

    async def read(self) -> Any:
        found = await self.coming.get()
        if isinstance(found, Exception):
            raise found
        return found

    def batches(self) -> BatchReader:
        return BatchReader(self, lambda wire: NumberedItem(0, wire), partial(is_end, keep_open_on_input=False))


async def following(batches: BatchReader) -> Sequence[NumberedItem]:
    """The next batch, which there is."""
    batch = await batches.next()
    assert batch is not None
    return batch


def ends(batch: Sequence[NumberedItem]) -> bool:
    return isinstance(batch, FinalBatch)


WORKING, ASKING, DONE, UNKNOWN = (
    status(state).wire
    for state in (
        pb.TASK_STATE_WORKING,
        pb.TASK_STATE_INPUT_REQUIRED,
        pb.TASK_STATE_COMPLETED,
        pb.TASK_STATE_UNSPECIFIED,
    )
)


@pytest.mark.req("LRPC-05", "LOLD-04")
@pytest.mark.parametrize(
    ("wires", "expected"),
    [
        ([WORKING, ASKING], [False, True]),
        ([WORKING, ASKING, WORKING, DONE], [False, False, False, True]),
        ([ASKING, ASKING, ASKING], [False, False, True]),
        ([WORKING, UNKNOWN], [False, True]),
        ([UNKNOWN, WORKING], [False, False]),
        ([], []),
    ],
)
async def test_the_last_of_a_stream_is_known_as_such(wires: list[bytes], expected: list[bool]) -> None:
    batches = Call(*wires, grpc.aio.EOF).batches()
    found = [await following(batches) for _ in wires]
    assert await batches.next() is None
    assert [item.wire for batch in found for item in batch] == wires
    assert [ends(batch) for batch in found] == expected


@pytest.mark.req("LRPC-05")
async def test_nobody_waits_long_for_an_end_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "END_SECONDS", 0.01)
    call = Call(ASKING)
    batches = call.batches()
    assert not ends(await following(batches))
    call.coming.put_nowait(DONE)
    assert ends(await following(batches))
    batches.close()


async def test_a_stream_that_breaks_off_behind_a_question_has_not_ended_with_it() -> None:
    batches = Call(ASKING, ConnectionError("gone")).batches()
    assert not ends(await following(batches))
    with pytest.raises(ConnectionError):
        await following(batches)


async def test_what_was_read_ahead_is_given_up_with_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "END_SECONDS", 0.01)
    before = asyncio.all_tasks()
    batches = Call(ASKING).batches()
    await following(batches)
    assert len(asyncio.all_tasks() - before) == 1
    batches.close()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
