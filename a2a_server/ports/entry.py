"""One event of a task's log (design 6)."""

from __future__ import annotations

from typing import Final

from a2a_proto import a2a_pb2 as pb

TASK: Final = int(pb.StreamResponse.TASK_FIELD_NUMBER)
MESSAGE: Final = int(pb.StreamResponse.MESSAGE_FIELD_NUMBER)
STATUS: Final = int(pb.StreamResponse.STATUS_UPDATE_FIELD_NUMBER)
ARTIFACT: Final = int(pb.StreamResponse.ARTIFACT_UPDATE_FIELD_NUMBER)


class Entry:
    """An event serialised, made once and shared by the store and all readers; most are never looked at otherwise.

    Kinds: `TASK` (number 1, the task as created), `STATUS`, `ARTIFACT`, and `MESSAGE`: a message that joined the
    history. Readers on the wire are never shown the last kind (STRM-03).
    """

    __slots__ = ("_event", "number", "wire")

    def __init__(self, number: int, wire: bytes, event: pb.StreamResponse | None = None) -> None:
        self.number = number
        self.wire = wire
        self._event = event

    @classmethod
    def of(cls, number: int, event: pb.StreamResponse) -> Entry:
        return Entry(number, event.SerializeToString(), event)

    @property
    def kind(self) -> int:
        """Which of the payloads the event holds: the first thing that stands in its wire form."""
        return self.wire[0] >> 3 if self.wire else 0

    @property
    def event(self) -> pb.StreamResponse:
        event = self._event
        if event is None:
            event = self._event = pb.StreamResponse.FromString(self.wire)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and (self.number, self.wire) == (other.number, other.wire)

    def __hash__(self) -> int:
        return hash((self.number, self.wire))

    def __repr__(self) -> str:
        return f"Entry({self.number}, {self.event!r})"
