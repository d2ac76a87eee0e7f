"""What a sender holds while its message is answered: the way to the task, or to a direct message (spec: BLK, SEND)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import reason_of, stops_turn
from a2a_server.domain.lifecycle import is_stopping, is_terminal
from a2a_server.operations.log.readers import Reader
from a2a_server.operations.log.writer import TaskWriter
from a2a_server.operations.turns.turn_input import TurnInput
from a2a_server.ports.records import STATUS, Entry
from a2a_server.protocol.errors import A2AError, Reason

_INVALID = Reason.INVALID_AGENT_RESPONSE.name
_BROKEN = "The agent's answer broke the protocol; the task says how."


class PendingSend:
    """A context manager: leaving it stops following, and leaves the task alone (GEN-07)."""

    __slots__ = ("_reader", "_reply", "_writer", "input", "repeated", "snapshot", "task_id")

    def __init__(  # noqa: PLR0913 - what a sender may hold
        self,
        task_id: str,
        message: TurnInput,
        reader: Reader | None = None,
        *,
        writer: TaskWriter | None = None,
        snapshot: pb.Task | None = None,
        reply: asyncio.Future[pb.Message | None] | None = None,
        repeated: bool = False,
    ) -> None:
        self.task_id = task_id
        self.input = message
        self._reader = reader
        self._writer = writer
        """The writer of a task that is new, with our message as its first; then a reader is opened only when needed."""
        self.snapshot = snapshot
        """The task at the reader's position, when the log there does not begin with the task itself."""
        self._reply = reply
        self.repeated = repeated
        """Whether an earlier send started the work."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    @property
    def reader(self) -> Reader:
        if self._reader is None:
            assert self._writer is not None  # noqa: S101 - there is one or the other
            self._reader = self._writer.follow()
        return self._reader

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
        after = self.input.after
        return is_terminal(entry.event.status_update.status.state) or (after is not None and entry.number > after)

    async def exists(self) -> None:
        """Wait until the task, with our message in it, is durable."""
        if self._writer is not None:
            return await self._writer.settle()
        while self.reader.position < self.input.number:
            await self.reader.next()
        return None

    async def stopped(self) -> None:
        """Wait until the task is terminal or interrupted, whichever comes first (BLK-02, BLK-06)."""
        if (writer := self._writer) is not None:
            await asyncio.sleep(0)  # the turn takes its first step meanwhile, which is often the only one
            if (stop := writer.stop) is not None:
                await writer.settle()
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

    def wire(self, most_messages: int) -> bytes | None:
        """The task as it stands, serialised, if that is known without asking the store and its history is so short."""
        writer = self._writer
        if writer is None or not writer.at_rest or len(writer.head.history) > most_messages:
            return None
        return writer.wire()


Keep = Callable[[pb.Message], Awaitable[None]]
"""Stores an answer before anybody is told, for sends that may be repeated."""


class DirectReply:
    """Made with the turn; whoever sent the message waits for it."""

    __slots__ = ("_keep", "_keeping", "message")

    def __init__(self, keep: Keep | None = None) -> None:
        self.message: asyncio.Future[pb.Message | None] = asyncio.get_running_loop().create_future()
        """The message that answered, or None for a task instead."""
        self._keep = keep
        self._keeping: asyncio.Task[None] | None = None

    @property
    def given(self) -> bool:
        return self.message.done()

    def answer(self, message: pb.Message) -> bool:
        """Answer by a message; False when there is an answer, or a task, already."""
        if self.given or self._keeping is not None:
            return False
        if self._keep is None:
            self.message.set_result(message)
        else:
            self._keeping = asyncio.get_running_loop().create_task(self._answer_kept(message, self._keep))
        return True

    async def _answer_kept(self, message: pb.Message, keep: Keep) -> None:
        """What a repeated send will find must be durable before anybody hears it."""
        try:
            await keep(message)
        except Exception as error:  # noqa: BLE001 - the sender is told instead
            self.fail(error)
        else:
            self.message.set_result(message)

    def become_task(self) -> None:
        if not self.given:
            self.message.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.given:
            self.message.set_exception(error)
            self.message.exception()  # the sender may be gone; an unread error is no news then

    async def settle(self) -> None:
        """Wait for an answer that is being kept."""
        if self._keeping is not None:
            await self._keeping
