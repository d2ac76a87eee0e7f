"""What wake-ups promise, of the adapter that works within one process (spec: SUBS-02)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.records import Entry
from tests.support.house import LocalWakeups

ENTRIES = [Entry.of(1, pb.StreamResponse()), Entry.of(2, pb.StreamResponse())]


class Ear:
    def __init__(self) -> None:
        self.heard: list[tuple[int, Sequence[Entry]]] = []

    def woken(self, number: int, entries: Sequence[Entry]) -> None:
        self.heard.append((number, entries))


@pytest.mark.req("SUBS-02")
def test_all_who_listen_to_a_task_are_woken_and_nobody_else() -> None:
    wakeups, one, two, other, gone = LocalWakeups(), Ear(), Ear(), Ear(), Ear()
    for task_id, ear in (("t", one), ("t", gone), ("t", two), ("other", other)):
        wakeups.listen(task_id, ear)
    wakeups.forget("t", gone)
    wakeups.tell("t", 2, ENTRIES)
    wakeups.tell("nobody listens", 1, ())
    assert one.heard == two.heard == [(2, ENTRIES)]
    assert other.heard == gone.heard == []


def test_who_leaves_is_forgotten() -> None:
    wakeups, ear = LocalWakeups(), Ear()
    wakeups.listen("t", ear)
    for _ in range(2):
        wakeups.forget("t", ear)
    wakeups.tell("t", 2, ENTRIES)
    assert not ear.heard
