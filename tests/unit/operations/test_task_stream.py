"""Which batch of a stream is its last: whoever writes `final` must know (spec: LRPC-05, CONF-11)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.operations.call import Entries, FinalEntries
from a2a_server.operations.log.task_stream import TaskStreams
from a2a_server.ports.agent import Outlet, TurnRequest
from a2a_server.ports.authenticator import Credentials
from a2a_server.ports.records import ARTIFACT, MESSAGE, STATUS, TASK, Entry
from a2a_server.protocol.names import REPLAY_URI
from tests.bindings.actors import (
    AUTH,
    COMPLETED,
    FAILED,
    INPUT,
    WORKING,
    Actor,
    Gate,
    asking,
    begun,
    chunk,
    echo,
    status,
    until,
    waiting,
)
from tests.support.house import Ids, Scope, artifact_event, place_of, slot_in, slots_in, slots_text, status_event
from tests.support.world import World, say, serving

Batches = Sequence[Entries]


async def batches(world: World, rpc: str, request: Message, **metadata: str) -> Batches:
    """A whole stream, as the doors get it."""
    envelope = Credentials({name.replace("_", "-"): (value,) for name, value in metadata.items()})
    stream = await world.pipeline.stream(rpc, request, envelope, shows_numbers=True)
    return [batch async for batch in stream.items]


def states(batch: Entries) -> list[int]:
    return [entry.event.status_update.status.state for entry in batch]


def ends(seen: Batches) -> list[bool]:
    """Read as doors do."""
    return [getattr(batch, "ends", False) for batch in seen]


async def sent(world: World, **kwargs: Any) -> Batches:
    return await batches(world, "SendStreamingMessage", say(**kwargs))


@pytest.mark.req("LRPC-05")
async def test_the_batch_with_the_closing_status_ends_the_stream_and_no_other_does() -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for text in ("a", "b"):
            outlet.emit(chunk(text, append=text != "a"))
            outlet.emit(status(WORKING, text))
            await outlet.durable()
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act)) as world:
        seen = await sent(world)
    assert ends(seen) == [False] * (len(seen) - 1) + [True]
    assert len(seen) >= 3
    assert states(seen[-1])[-1] == COMPLETED


@pytest.mark.req("LRPC-05")
async def test_a_question_ends_the_stream_unless_streams_stay_open_for_it() -> None:
    async with serving(asking()) as world:
        seen = await sent(world)
        assert (ends(seen)[-1], states(seen[-1])[-1]) == (True, INPUT)
    async with serving(asking(), keep_open_on_input=True) as world:
        stream = await world.pipeline.stream("SendStreamingMessage", say(), Credentials({}))
        seen = []
        async for batch in stream.items:
            seen.append(batch)
            if INPUT in states(batch):
                task_id = batch[-1].event.status_update.task_id
                await world.send(say("Me", task_id=task_id))
    assert ends(seen) == [False] * (len(seen) - 1) + [True]
    assert states(seen[-1])[-1] == COMPLETED


async def test_waiting_for_credentials_elsewhere_is_no_end() -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(AUTH))
        await gate.wait()
        outlet.emit(status(FAILED))

    async with serving(Actor(act)) as world:
        stream = await world.pipeline.stream("SendStreamingMessage", say(), Credentials({}))
        seen = []
        async for batch in stream.items:
            seen.append(batch)
            if AUTH in states(batch):
                gate.open()
    assert [state for batch in seen for state in states(batch)][-2:] == [AUTH, FAILED]
    assert ends(seen) == [False] * (len(seen) - 1) + [True]


async def test_a_direct_answer_and_the_task_that_a_stream_begins_with_end_nothing() -> None:
    async with serving(echo()) as world:
        seen = await sent(world)
        assert (seen[0][0].event.WhichOneof("payload"), ends(seen)[0]) == ("task", False)


@pytest.mark.parametrize("metadata", [{}, {"a2a_extensions": REPLAY_URI}])
async def test_a_replay_ends_where_the_log_does(metadata: dict[str, str]) -> None:
    async with serving(echo()) as world:
        task = await world.send(say())
        request = pb.SubscribeToTaskRequest(id=task.id)
        seen = await batches(world, "SubscribeToTask", request, last_event_id="0", **metadata)
        assert ends(seen) == [True]
        assert seen[0][0].event.HasField("task")
        assert states(seen[0])[-1] == COMPLETED


async def test_all_readers_end_with_the_very_same_batch() -> None:
    gate, seen = Gate(), [list[Entries]() for _ in range(4)]

    async def follow(rpc: str, request: Message, into: list[Entries]) -> None:
        stream = await world.pipeline.stream(rpc, request, Credentials({}))
        async for batch in stream.items:
            into.append(batch)  # noqa: PERF401 - others look while it grows

    async with serving(waiting(gate)) as world, asyncio.TaskGroup() as group:
        group.create_task(follow("SendStreamingMessage", say(), seen[0]))
        await until(lambda: any(WORKING in states(batch) for batch in seen[0]))
        request = pb.SubscribeToTaskRequest(id=await begun(world))
        for into in seen[1:]:
            group.create_task(follow("SubscribeToTask", request, into))
        await until(lambda: all(seen))
        gate.open()
    assert all(isinstance(batches[-1], FinalEntries) for batches in seen)
    assert all(batches[-1] is seen[0][-1] for batches in seen)


def test_what_ends_is_made_once_for_one_batch() -> None:
    streams = TaskStreams(history_cap=1)
    batch = [Entry.of(1, pb.StreamResponse()), Entry.of(2, pb.StreamResponse())]
    made = streams.ending(batch)
    assert made.ends
    assert [*made] == batch
    assert streams.ending(batch) is made
    assert streams.ending([*batch]) is not made


EVENTS = {
    TASK: pb.StreamResponse(task=pb.Task(id="t")),
    MESSAGE: pb.StreamResponse(message=pb.Message(message_id="m")),
    STATUS: status_event("t", "c", pb.TASK_STATE_WORKING, 1),
    ARTIFACT: artifact_event("t", "c", pb.Artifact(artifact_id="a")),
}


@pytest.mark.parametrize("kind", EVENTS)
def test_an_entry_says_what_it_holds_without_reading_it(kind: int) -> None:
    event = EVENTS[kind]
    assert Entry(1, event.SerializeToString()).kind == Entry.of(1, event).kind == kind
    assert Entry.of(1, pb.StreamResponse()).kind == 0


def test_an_event_is_read_once_and_only_if_it_is_not_there() -> None:
    event = EVENTS[STATUS]
    assert Entry.of(1, event).event is event
    read = Entry(1, event.SerializeToString())
    assert read.event == event
    assert read.event is read.event


def test_entries_are_equal_by_number_and_bytes() -> None:
    wire = EVENTS[TASK].SerializeToString()
    assert Entry(1, wire) == Entry.of(1, EVENTS[TASK])
    assert len({Entry(1, wire), Entry(1, wire), Entry(2, wire), Entry(1, b"")}) == 3
    assert Entry(1, wire) != (1, wire)
    assert repr(Entry(1, wire)) == f"Entry(1, {EVENTS[TASK]!r})"


@pytest.mark.req("CTX-07")
def test_ids_are_sound_uuids_and_all_different() -> None:
    ids = Ids()
    made = [ids.new() for _ in range(2_000)]  # several blocks of entropy
    assert len(set(made)) == len(made)
    for text in made:
        parsed = uuid.UUID(text)
        assert str(parsed) == text
        assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)


@pytest.mark.req("CTX-07", "SCAL-05")
def test_ids_of_tasks_carry_the_slot_of_their_scope() -> None:
    ids = Ids()
    made = {ids.new_task(scope): scope for number in range(500) for scope in (Scope("acme", f"o{number}"),) * 3}
    assert len(made) == 1_500
    for text, scope in made.items():
        parsed = uuid.UUID(text)
        assert str(parsed) == text
        assert (parsed.version, parsed.variant) == (8, uuid.RFC_4122)
        assert slot_in(text) == place_of(scope).slot == int(text[15:18], 16)
    assert {text[19] for text in made} == {*"89ab"}
    assert slot_in(ids.new()) is None  # as all ids were before
    assert slot_in("task-1") is None


@pytest.mark.req("SCAL-05")
def test_a_slot_is_for_ever() -> None:
    """Ids and rows that exist have it. A tenant's name cannot run into an owner's."""
    assert [place_of(Scope(*names)).slot for names in (("", ""), ("acme", "ann"), ("acmea", "nn"))] == [
        4045,
        402,
        3918,
    ]
    assert len({place_of(Scope("", f"o{number}")).slot for number in range(40_000)}) > 4_090


@pytest.mark.req("SCAL-05")
@pytest.mark.parametrize(
    ("text", "slots"),
    [("", set()), ("7", {7}), ("0-2, 9,4095", {0, 1, 2, 9, 4095}), ("3-3", {3}), ("0-4095", set(range(4096)))],
)
def test_lists_of_slots_are_read_and_written(text: str, slots: set[int]) -> None:
    assert slots_in(text) == slots
    assert slots_in(slots_text(slots)) == slots


@pytest.mark.parametrize("part", ["4096", "3-2", "-1", "1-", "a", "0-5000", "1 2"])
def test_lists_of_slots_that_cannot_be_read(part: str) -> None:
    with pytest.raises(ValueError, match=rf"^'{part}' must be slots from 0 to 4095, such as 0-2047,3000$"):
        slots_in(f"1,{part}")


def test_neighbours_in_time_are_neighbours_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(1_000_000_000_000, 1_000_000_000_100))
    monkeypatch.setattr("a2a_server.operations.services.time.time_ns", lambda: next(times) * 1_000_000)
    ids = Ids()
    made = [ids.new() for _ in range(100)]
    assert made == sorted(made)
