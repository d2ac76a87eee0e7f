"""What the server does to a task that nobody works on (spec: CANX-02, DURA-02, TIMO-02, XTRA-04)."""

from __future__ import annotations

from collections.abc import Iterable

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.operations.services import Workshop
from a2a_server.operations.turns.moves import Details, move, move_with
from a2a_server.ports.records import StoredTurn
from a2a_server.ports.store import StoredTask


class Unattended:
    """A task without a live turn, as it was read. Every method raises `StaleWrite` when something else was faster."""

    def __init__(self, shop: Workshop, scope: Scope, record: StoredTask, trace: Trace | None = None) -> None:
        self._shop = shop
        self._writer = shop.writer(scope, record)
        self._writer.caused_by(trace)

    async def move(
        self, state: int, text: str = "", details: Details | None = None, *, ends: Iterable[StoredTurn] = ()
    ) -> None:
        """Give it another status, with which turns end."""
        move(self._shop, self._writer, state, text, details)
        await self.end(ends)

    async def ask_again(self, question: pb.Message, *, ends: Iterable[StoredTurn]) -> None:
        """Put a question anew to whoever answered it."""
        message = pb.Message()
        message.CopyFrom(question)
        message.message_id = self._shop.ids.new()
        move_with(self._shop, self._writer, pb.TASK_STATE_INPUT_REQUIRED, message)
        await self.end(ends)

    async def end(self, turns: Iterable[StoredTurn]) -> None:
        """Strike out turns that are over."""
        self._writer.end(turn.number for turn in turns)
        await self._writer.settle()
