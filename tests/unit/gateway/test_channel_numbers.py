"""EventNumbers of events: put in by the server, read and taken out by the gateway, whatever the event looks like."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_gateway.channel.event_numbers import EventNumbers
from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2
from a2a_server.ports.records import Entry
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import REPLAY_URI
from a2a_server.transport.flowing import numbered
from tests.unit.gateway.upstreams import rpc

ACTIVE = [("a2a-extensions", REPLAY_URI)]
WORKING = pb.TaskStatus(state=pb.TASK_STATE_WORKING)


def numbers(*asked: tuple[str, str]) -> EventNumbers:
    made = EventNumbers(rpc("SubscribeToTask"), asked)
    made.answered(ACTIVE)
    return made


def events(text: str, **metadata: Any) -> list[pb.StreamResponse]:
    """One of each kind."""
    parts = [pb.Part(text=text)]
    made = [
        pb.StreamResponse(task=pb.Task(id=text, status=WORKING)),
        pb.StreamResponse(message=pb.Message(message_id="m", parts=parts, extensions=["after the metadata"])),
        pb.StreamResponse(status_update=pb.TaskStatusUpdateEvent(task_id=text, status=WORKING)),
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
    for number, event in enumerate(events("x" * size, **metadata), 2**40):
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
    for event in events("x"):
        plain = event.SerializeToString()
        getattr(event, event.WhichOneof("payload") or "").metadata[REPLAY_URI] = 7
        assert numbers().read(event.SerializeToString()) == (7, plain)


@pytest.mark.parametrize("wrong", ["7", True, None, [7], -1, 0, 1.5, 2.0**60, float("inf"), float("nan")])
def test_what_is_no_number_is_taken_out_all_the_same(wrong: Any) -> None:
    for event in events("x"):
        plain = event.SerializeToString()
        getattr(event, event.WhichOneof("payload") or "").metadata.update({REPLAY_URI: wrong})
        assert numbers().read(event.SerializeToString()) == (0, plain)


def test_an_event_without_a_number_is_left_alone() -> None:
    for event in (*events("x"), *events("x", mood="fine"), pb.StreamResponse()):
        wire = event.SerializeToString()
        assert numbers().read(wire) == (0, wire)


def test_two_events_in_one_are_read_as_protobuf_reads_them() -> None:
    first, second = (event.SerializeToString() for event in events("x")[2:])
    (copy,) = numbered((Entry.of(7, events("x")[3]),))
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
    assert [value for _, value in made.ask(metadata)].count(REPLAY_URI) == (
        0 if f"https://example.com/x,{REPLAY_URI}" in asked else 1
    )
    assert made.answered([("a2a-extensions", answer)]) == shown
    assert made.active


def test_only_streams_of_events_are_asked_for_numbers() -> None:
    other = discovery_pb2.DESCRIPTOR.services_by_name["Discovery"].methods_by_name["GetAgentCard"]
    assert EventNumbers(other, ()).ask([("x", "y")]) == [("x", "y")]


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
