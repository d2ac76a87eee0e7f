"""Entries of a log: bytes first, the event when somebody asks."""

from __future__ import annotations

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.records import ARTIFACT, MESSAGE, STATUS, TASK, Entry
from tests.support.house import artifact_event, status_event

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
