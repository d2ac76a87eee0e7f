"""The pipeline called without a socket: deadlines, slow readers, drain, readiness."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from google.protobuf.message import Message

from a2a_gateway.upstream import CallContext
from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.defaults import Anonymous
from a2a_server.adapters.memory import MemoryStore
from a2a_server.operations.call import Call, Operation
from a2a_server.ports.store import StoreUnavailable
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.transport.local import LocalStream, LocalUpstream
from a2a_server.transport.open_streams import OpenStreams
from a2a_server.transport.pipeline import Pipeline
from a2a_server.transport.steps import CallRules, standard
from tests.support.yielding import Batches, Yielded, yielding
from tests.unit.transport.doors import Seen, failing, item

SERVICE = pb.DESCRIPTOR.services_by_name["A2AService"]
GET, SEND, STREAM = (SERVICE.methods_by_name[name] for name in ("GetTask", "SendMessage", "SendStreamingMessage"))

PLAIN = CallContext({})


class Shaky(MemoryStore):
    """Counts who asks whether it is there."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.away = False
        self.hangs = False

    async def ping(self) -> None:
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.away:
            raise StoreUnavailable("gone")


class Rig(NamedTuple):
    upstream: LocalUpstream
    pipeline: Pipeline
    store: Shaky


@asynccontextmanager
async def rig(operations: Mapping[str, Operation] | None = None, **bounds: float) -> AsyncIterator[Rig]:
    streams = OpenStreams(**bounds)  # type: ignore[arg-type]
    streams.start()
    pipeline, store = Pipeline(operations or {}, standard(Anonymous(), CallRules()), streams), Shaky()
    try:
        yield Rig(LocalUpstream(pipeline, store), pipeline, store)
    finally:
        await streams.close()


@dataclass(slots=True)
class Source:
    """A stream of numbered items that waits before the last one, and notes when it was let go of."""

    count: int
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    more: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, call: Call, request: Message) -> Yielded:
        return Yielded(self._batches())

    async def _batches(self) -> Batches:
        try:
            for number in range(1, self.count):
                yield (item(number, "x"),)
            await self.more.wait()
            yield (item(self.count, "x"),)
        finally:
            self.closed.set()


async def numbers(stream: LocalStream) -> list[int]:
    return [entry.number async for entries in stream.items for entry in entries]


async def refused(call: Callable[[], Any]) -> A2AError:
    with pytest.raises(A2AError) as caught:
        await call()
    return caught.value


@pytest.mark.req("DOOR-02")
async def test_an_answer_is_the_operations_own_message() -> None:
    seen, task = Seen(), pb.Task(id="t")
    async with rig({"GetTask": seen.answering(task)}) as local:
        request = pb.GetTaskRequest(id="t", tenant="acme")
        answer = await local.upstream.unary(GET, request, CallContext({"a2a-version": ["1.0"]}))
    assert answer.message is task
    assert seen.requests[0] is request
    assert (seen.calls[0].scope.tenant, seen.calls[0].version) == ("acme", "1.0")


async def test_calls_that_come_together_go_through_each_stage_together() -> None:
    steps: list[str] = []

    async def operation(call: Call, request: Message) -> Message:
        steps.append("called")
        return pb.Task()

    async def door(upstream: LocalUpstream) -> None:
        steps.append("read")
        await upstream.unary(GET, pb.GetTaskRequest(), PLAIN)
        steps.append("written")

    async with rig({"GetTask": operation}) as local:
        await asyncio.gather(*(door(local.upstream) for _ in range(3)))
    assert steps == [*["read"] * 3, *["called"] * 3, *["written"] * 3]


async def test_calls_that_come_while_others_are_under_way_go_on_together() -> None:
    began: list[tuple[str, int]] = []
    turn = 0

    async def note(call: Call, request: pb.GetTaskRequest) -> pb.Task:
        began.append((request.id, turn))
        return pb.Task()

    async with rig({"GetTask": note}) as local:
        calls = []
        for task_id in ("first", "second", "third"):
            calls.append(asyncio.create_task(local.upstream.unary(GET, pb.GetTaskRequest(id=task_id), PLAIN)))
            for _ in range(2):
                turn += 1
                await asyncio.sleep(0)
        while not all(call.done() for call in calls):
            turn += 1
            await asyncio.sleep(0)
    (_, first), (_, second), (_, third) = began
    assert [task_id for task_id, _ in began] == ["first", "second", "third"]
    assert first < second == third


@pytest.mark.req("DOOR-02")
async def test_stream_items_are_the_logs_entries_in_its_batches() -> None:
    entries = (item(1, "a"), item(2, "b"))

    @yielding
    async def operation(call: Call, request: Message) -> Batches:
        yield entries

    async with rig({"SendStreamingMessage": operation}) as local:
        stream = await local.upstream.stream(STREAM, pb.SendMessageRequest(), PLAIN)
        batches = [batch async for batch in stream.items]
    assert batches == [entries]
    assert batches[0] is entries


async def test_a_refusal_comes_as_it_was_raised() -> None:
    error = A2AError(Reason.TASK_NOT_FOUND, "Task not found.")
    async with rig({"GetTask": failing(error)}) as local:
        assert await refused(lambda: local.upstream.unary(GET, pb.GetTaskRequest(), PLAIN)) is error
        wrong = CallContext({"a2a-version": ["9.9"]})
        refusal = await refused(lambda: local.upstream.stream(STREAM, pb.SendMessageRequest(), wrong))
    assert refusal.reason is Reason.VERSION_NOT_SUPPORTED


@pytest.mark.req("GEN-07")
async def test_a_unary_call_ends_with_its_deadline() -> None:
    ended = asyncio.Event()

    async def slow(call: Call, request: Message) -> Message:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with rig({"SendMessage": slow}) as local:
        call = local.upstream.unary(SEND, pb.SendMessageRequest(), CallContext({}, 0.5))
        refusal = await refused(lambda: call)
    assert refusal.reason is Reason.DEADLINE_EXCEEDED
    assert "0.5 seconds" in refusal.message
    assert ended.is_set()


async def test_a_stream_ends_with_its_deadline() -> None:
    source = Source(3)
    async with rig({"SendStreamingMessage": source}) as local:
        stream = await local.upstream.stream(STREAM, pb.SendMessageRequest(), CallContext({}, 0.2))
        assert [(await anext(stream.items))[0].number for _ in range(2)] == [1, 2]
        assert (await refused(lambda: anext(stream.items))).reason is Reason.DEADLINE_EXCEEDED
        assert source.closed.is_set()
        assert not local.pipeline.streams.count


async def test_a_deadline_that_is_met_changes_nothing() -> None:
    source = Source(3)
    source.more.set()
    async with rig({"SendStreamingMessage": source, "GetTask": Seen().answering(pb.Task(id="t"))}) as local:
        stream = await local.upstream.stream(STREAM, pb.SendMessageRequest(), CallContext({}, 60))
        assert await numbers(stream) == [1, 2, 3]
        assert (await local.upstream.unary(GET, pb.GetTaskRequest(), CallContext({}, 60))).message == pb.Task(id="t")


@pytest.mark.parametrize("seconds", [None, 60.0])
async def test_whoever_stops_reading_releases_everything(seconds: float | None) -> None:
    source = Source(3)
    async with rig({"SendStreamingMessage": source}) as local:
        items = (await local.upstream.stream(STREAM, pb.SendMessageRequest(), CallContext({}, seconds))).items
        await anext(items)
        await items.aclose()  # type: ignore[attr-defined]
        assert source.closed.is_set()
        assert not local.pipeline.streams.count


@pytest.mark.req("RPLY-06")
async def test_a_reader_that_is_busy_for_too_long_is_cut() -> None:
    source, told = Source(3), asyncio.Queue[A2AError]()
    async with rig({"SendStreamingMessage": source}, write_timeout=0.1) as local:
        stream = await local.upstream.stream(STREAM, pb.SendMessageRequest(), PLAIN)
        stream.on_cut(told.put)
        await anext(stream.items)
        assert (await told.get()).reason is Reason.SLOW_READER


async def test_a_reader_that_waits_is_not_slow() -> None:
    source, told = Source(2), asyncio.Queue[A2AError]()
    async with rig({"SendStreamingMessage": source}, write_timeout=0.05) as local:
        stream = await local.upstream.stream(STREAM, pb.SendMessageRequest(), PLAIN)
        stream.on_cut(told.put)
        await anext(stream.items)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(ahead := asyncio.ensure_future(anext(stream.items))), 0.3)
        assert told.empty()
        source.more.set()
        assert (await ahead)[0].number == 2


@pytest.mark.req("DURA-08")
async def test_streams_that_are_left_at_the_end_are_sent_elsewhere() -> None:
    source, told = Source(2), asyncio.Queue[A2AError]()
    async with rig({"SendStreamingMessage": source}) as local:
        stream = await local.upstream.stream(STREAM, pb.SendMessageRequest(), PLAIN)
        stream.on_cut(told.put)
        await anext(stream.items)
        local.pipeline.streams.end_all()
        farewell = await told.get()
    assert (farewell.reason, farewell.retry_after) == (Reason.UNAVAILABLE, 1)


@pytest.mark.req("DOOR-07", "DURA-08")
async def test_a_server_that_stops_is_not_ready() -> None:
    async with rig() as local:
        assert await local.upstream.ready()
        local.pipeline.leaving = True
        assert not await local.upstream.ready()


@pytest.mark.req("DOOR-07", "DURA-07")
async def test_a_server_whose_store_is_away_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2a_server.transport.local.PATIENCE", 0.05)
    monkeypatch.setattr("a2a_server.transport.local.FRESH", 0.0)
    async with rig() as local:
        assert await local.upstream.ready()
        local.store.away = True
        assert not await local.upstream.ready()
        local.store.away, local.store.hangs = False, True
        assert not await local.upstream.ready()
        local.store.hangs = False
        assert await local.upstream.ready()


async def test_the_store_is_not_asked_every_time() -> None:
    async with rig() as local:
        for _ in range(100):
            assert await local.upstream.ready()
        assert local.store.asked == 1
        local.store.away = True
        async with asyncio.timeout(5):
            while await local.upstream.ready():  # noqa: ASYNC110 - nobody announces that time has passed
                await asyncio.sleep(0.01)
        assert local.store.asked == 2
