"""What a sender holds while its message is being answered: the way to the task's log, or to a direct message."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Self

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import reason_of, stops_turn
from a2a_server.domain.lifecycle import FAILED, is_stopping, is_terminal
from a2a_server.operations.log.log import Reader
from a2a_server.operations.turns.job import Job
from a2a_server.ports.records import STATUS, Entry
from a2a_server.protocol.errors import A2AError, Reason

if TYPE_CHECKING:
    from a2a_server.operations.turns.image import TaskImage
    from a2a_server.operations.turns.subject import Subject

_INVALID = Reason.INVALID_AGENT_RESPONSE.name
_BROKEN = "The agent's answer broke the protocol; the task says how."


class Ticket:
    """A context manager: leaving it stops following, and leaves the task alone (GEN-07)."""

    __slots__ = ("_reader", "_reply", "_subject", "job", "repeated", "snapshot", "task_id")

    def __init__(  # noqa: PLR0913 - what a sender may hold
        self,
        task_id: str,
        job: Job,
        reader: Reader | None,
        subject: Subject | None = None,
        *,
        snapshot: pb.Task | None = None,
        reply: asyncio.Future[pb.Message | None] | None = None,
        repeated: bool = False,
    ) -> None:
        self.task_id = task_id
        self.job = job
        self._reader = reader
        self._subject = subject
        """A task that is new, with our message as its first; then a reader is opened only when needed."""
        self.snapshot = snapshot
        """The task at the reader's position, when the log there does not begin with the task itself."""
        self.repeated = repeated
        """Whether an earlier send started the work."""
        self._reply = reply

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reader is not None:
            self._reader.close()

    @property
    def reader(self) -> Reader:
        """To be asked for before anything is awaited, or what happens meanwhile may be missed."""
        if self._reader is None:
            assert self._subject is not None  # noqa: S101 - a ticket has one or the other
            self._reader = self._subject.follow()
        return self._reader

    @property
    def image(self) -> TaskImage | None:
        """The task as it stands, if we know it without asking the store."""
        writer = None if self._subject is None else self._subject.writer
        return writer.image if writer is not None and writer.at_rest else None

    async def reply(self) -> pb.Message | None:
        """The direct message that answered; None when there is a task instead (SEND-09)."""
        return None if self._reply is None else await asyncio.shield(self._reply)

    @property
    def answered(self) -> bool:
        """Whether the work of a repeated send had come to a stop before we began to follow."""
        return self.repeated and self.snapshot is not None and is_stopping(self.snapshot.status.state)

    def answered_by(self, entry: Entry) -> bool:
        """Whether this entry is a stop of the turn that our message got, or the end of the task."""
        if not stops_turn(entry.event):
            return False
        after = self.job.after
        return is_terminal(entry.event.status_update.status.state) or (after is not None and entry.number > after)

    async def exists(self) -> None:
        """Wait until the task, with our message in it, is durable."""
        if self._subject is not None:
            return await self._subject.writer.settle()
        while self.reader.position < self.job.number:
            await self.reader.next()
        return None

    @property
    def stopped_already(self) -> bool:
        """Whether our turn has stopped before anybody could begin to follow, and the disk has nothing more to do."""
        if self._subject is None:
            return False
        writer = self._subject.writer
        image = writer.image
        if image.stop is None or not writer.at_rest:
            return False
        if image.state == FAILED:
            self._judge(image.stop)
        return True

    async def stopped(self) -> None:
        """Wait until the task is terminal or interrupted, whichever comes first (BLK-02, BLK-06)."""
        if self._subject is not None and (stop := self._subject.writer.image.stop) is not None:
            await self._subject.writer.settle()
            return self._judge(stop)
        if self.snapshot is not None and self.answered:
            return self._judge(reason_of(self.snapshot.status))
        while True:
            for entry in await self.reader.next():
                if entry.kind == STATUS and self.answered_by(entry):
                    return self._judge(reason_of(entry.event.status_update.status))

    def _judge(self, reason: str) -> None:
        if reason == _INVALID:
            raise A2AError(Reason.INVALID_AGENT_RESPONSE, _BROKEN, metadata={"taskId": self.task_id})
