"""Which items of a channel's stream are taken for its last one (spec: CONF-06, CONF-11)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import pytest

from a2a_gateway.channel import endings
from a2a_gateway.channel.endings import IN_BAND_KEY, BatchReader, EndCheck, FinalBatch
from a2a_gateway.channel.event_numbers import NumberedItem
from a2a_proto import a2a_pb2 as pb
from a2a_server.domain import events
from a2a_server.domain.lifecycle import TERMINAL
from a2a_server.protocol.errors import A2AError


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
    tells = EndCheck(keep_open_on_input=keep_open).of(item)
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
    assert EndCheck(keep_open_on_input=False).of(NumberedItem(1, item.SerializeToString())) is False


def test_what_is_no_event_is_the_upstreams_fault() -> None:
    with pytest.raises(A2AError) as caught:
        EndCheck(keep_open_on_input=False).of(NumberedItem(0, status(pb.TASK_STATE_COMPLETED).wire[:-1]))
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
        return BatchReader(self, lambda wire: NumberedItem(0, wire), EndCheck(keep_open_on_input=False))


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
    monkeypatch.setattr(endings, "SUSPENSE", 0.01)
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
    monkeypatch.setattr(endings, "SUSPENSE", 0.01)
    before = asyncio.all_tasks()
    batches = Call(ASKING).batches()
    await following(batches)
    assert len(asyncio.all_tasks() - before) == 1
    batches.close()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
