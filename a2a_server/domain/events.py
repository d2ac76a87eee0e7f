"""Makes events, and answers questions about them (spec: STAT-04, CONF-06, BLK-02, GEN-08).

Messages are filled in place, because nested constructors cost twice as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from google.protobuf import struct_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.lifecycle import AUTH, INPUT, STOPPING, TERMINAL

_WANTED: Final = "Send the credential as the next message."

REASON_KEY = "reason"
"""The key in a status message's metadata that says why the server, and not the agent, ended the task."""

IN_BAND_KEY = "inBand"
"""The key that says the credential comes in a message: in the metadata of an AUTH_REQUIRED update, for which streams
close, and of its message, which stays with the task: what answers it is for the agent alone (SECR-04)."""


def status_update(
    task_id: str, context_id: str, state: int, at_ms: int, message: pb.Message | None = None
) -> tuple[pb.StreamResponse, pb.TaskStatus]:
    event = pb.StreamResponse()
    update = event.status_update
    update.task_id = task_id
    update.context_id = context_id
    status = update.status
    status.state = state  # type: ignore[assignment]  # enums travel as plain ints in here
    set_time(status.timestamp, at_ms)
    if message is not None:
        status.message.CopyFrom(message)
        if has_in_band(message.metadata):  # the question is asked again
            update.metadata.fields[IN_BAND_KEY].bool_value = True
    return event, status


def set_time(stamp: Timestamp, at_ms: int) -> None:
    seconds, rest = divmod(at_ms, 1000)
    stamp.seconds = seconds
    stamp.nanos = rest * 1_000_000


def millis(stamp: Timestamp) -> int:
    """Whole milliseconds since the epoch, rounded towards the past."""
    return stamp.seconds * 1000 + stamp.nanos // 1_000_000


def next_status_ms(previous_ms: int, now_ms: int) -> int:
    """The time of a task's next status: now, but never earlier than the one before (STAT-04)."""
    return max(previous_ms, now_ms)


def state_of(event: pb.StreamResponse) -> int:
    """The state an event announces; 0 when it announces none."""
    match event.WhichOneof("payload"):
        case "status_update":
            return event.status_update.status.state
        case "task":
            return event.task.status.state
        case _:
            return 0


def stops_turn(event: pb.StreamResponse) -> bool:
    """Whether waiting calls return with this event: terminal or interrupted (BLK-02, CONF-09)."""
    return state_of(event) in STOPPING


def closes_stream(event: pb.StreamResponse, *, keep_open_on_input: bool = False) -> bool:
    """Whether streams end after this event (STRM-04, STRM-05, INTR-06, CONF-06)."""
    state = state_of(event)
    if state == INPUT:
        return not keep_open_on_input
    if state == AUTH:
        return has_in_band(event.status_update.metadata)
    return state in TERMINAL


def has_in_band(metadata: struct_pb2.Struct) -> bool:
    # Test first: reading a missing key of a protobuf map inserts it.
    fields = metadata.fields
    return bool(IN_BAND_KEY in fields and fields[IN_BAND_KEY].bool_value)


def mark_in_band(question: pb.Message) -> None:
    """Have the question say that a credential is to come, for as long as the task waits for it."""
    question.metadata.fields[IN_BAND_KEY].bool_value = True
    if not question.parts:
        question.parts.add(text=_WANTED)


def reason_of(status: pb.TaskStatus) -> str:
    """Why the server itself ended the task; "" if the agent set the status."""
    if not status.HasField("message"):  # most have none, and are spared the way to its metadata
        return ""
    fields = status.message.metadata.fields
    return fields[REASON_KEY].string_value if REASON_KEY in fields else ""


def last_messages(tasks: Iterable[pb.Task], most: int, room: int) -> Sequence[pb.Message]:
    """Return the last messages of several tasks, at most so many and with at most `room` bytes."""
    said: list[pb.Message] = []
    for task in tasks:
        said += task.history
        if task.status.state in STOPPING and task.status.HasField("message"):  # progress joins no history (GEN-09)
            said.append(task.status.message)
    said = said[-most:]
    for index in reversed(range(len(said))):
        room -= said[index].ByteSize()
        if room < 0:
            return said[index + 1 :]
    return said


_LENGTH_DELIMITED: Final = 2
_SEVEN_BITS: Final = 0x7F
_MORE: Final = 0x80
_TWICE_SEVEN_BITS: Final = 0x4000
_BYTES: Final = tuple(bytes((number,)) for number in range(256))


def wrap(field: int, content: bytes) -> bytes:
    """A message whose only field is a submessage, serialised already; `field` is below 16."""
    tag, rest = field << 3 | _LENGTH_DELIMITED, len(content)
    if rest <= _SEVEN_BITS:
        return _BYTES[tag] + _BYTES[rest] + content
    if rest < _TWICE_SEVEN_BITS:  # as nearly all others
        return _BYTES[tag] + _BYTES[rest & _SEVEN_BITS | _MORE] + _BYTES[rest >> 7] + content
    head = [tag]
    while rest > _SEVEN_BITS:
        head.append(rest & _SEVEN_BITS | _MORE)
        rest >>= 7
    head.append(rest)
    return bytes(head) + content


def unwrap(message: bytes) -> tuple[int, bytes]:
    """The field number and the content of a message that `wrap` made."""
    start = 1
    while message[start] & _MORE:
        start += 1
    return message[0] >> 3, message[start + 1 :]
