"""The answer of a turn that may do without a task: a message, or nothing as soon as there is one (spec: SEND-09)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from a2a_proto import a2a_pb2 as pb

Keep = Callable[[pb.Message], Awaitable[None]]
"""Stores an answer before it is told, for sends that may be repeated."""


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
