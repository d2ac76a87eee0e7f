"""What a run works on, and what is said about it in the order of its log (spec: EXEC-02, SEND-09, STAT-04)."""

from __future__ import annotations

from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import millis, next_status_ms, set_time
from a2a_server.operations.log.log import Reader
from a2a_server.operations.services import Workshop
from a2a_server.operations.turns.direct import DirectReply
from a2a_server.operations.turns.job import Job
from a2a_server.operations.turns.moves import move
from a2a_server.operations.turns.writer import TaskWriter


class Subject:
    """What a run works on: a task, or a message for which none exists as long as none is needed."""

    __slots__ = ("_job", "cancel_metadata", "direct", "saved", "shop", "writer")

    def __init__(
        self, shop: Workshop, writer: TaskWriter, job: Job, saved: bytes = b"", direct: DirectReply | None = None
    ) -> None:
        self.shop = shop
        self.writer = writer
        self._job = job
        """What the task is created for, if it is new."""
        self.saved = saved
        """What the agent saved."""
        self.direct = direct
        """Set for a turn that may answer without making a task."""
        self.cancel_metadata: struct_pb2.Struct | None = None
        """What came with the wish to cancel the task; None as long as nobody has it."""

    @property
    def exists(self) -> bool:
        """Whether the task has been created, as far as the run is concerned."""
        return self.writer.number > 0

    @property
    def state(self) -> int:
        return self.writer.image.state

    def follow(self) -> Reader:
        """A reader of the whole log, whatever has become of it so far."""
        writer = self.writer
        return self.shop.log.reader(writer.task_id, 0, head=writer.durable, error=writer.closed)

    def open(self) -> None:
        """Create the task: its first event. A direct turn does so only when it needs to."""
        job = self._job
        self.writer.create(self.shop.lease(), job)
        job.after = job.number
        if self.saved:
            self.writer.save(self.saved)
        if self.direct is not None:
            self.direct.become_task()

    def answer(self, message: pb.Message) -> bool:
        """Answer a direct turn by a message; False when there is a task already."""
        return self.direct is not None and self.direct.answer(message)

    def record(self, event: pb.StreamResponse) -> None:
        """Put a checked event into the log, in front of it the task, which does not exist yet (EXEC-02)."""
        self._create_for(event.status_update.status.state)
        self._stamp_after(event)
        self.writer.append(event)

    def _create_for(self, state: int) -> None:
        self.open()
        if state != pb.TASK_STATE_WORKING:
            move(self.shop, self.writer, pb.TASK_STATE_WORKING)

    def _stamp_after(self, event: pb.StreamResponse) -> None:
        """The event was made before the WORKING that now goes in front of it (STAT-04)."""
        if event.HasField("status_update"):
            stamp = event.status_update.status.timestamp
            set_time(stamp, next_status_ms(self.writer.image.status_ms, millis(stamp)))

    def save(self, state: bytes) -> None:
        self.saved = state
        if self.exists:
            self.writer.save(state)

    def move(self, state: int, text: str = "", reason: str = "") -> None:
        """Move the task on the server's own account, if the lifecycle allows it."""
        if not self.exists:
            self._create_for(state)
        move(self.shop, self.writer, state, text, {"reason": reason} if text else None)

    def fail(self, text: str, reason: str) -> None:
        self.move(pb.TASK_STATE_FAILED, text, reason)

    def blame(self, text: str, reason: str) -> None:
        """Fail the task for what its agent did. One that was canceled is canceled, whatever its agent stops with."""
        if self.cancel_metadata is None:
            self.fail(text, reason)
