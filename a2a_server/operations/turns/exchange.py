"""A message and its answer: what the agent is told, and what the sender waits for (spec: EXEC-01, SEND-13, BLK).

1. Each message becomes a `TurnInput`. It waits in `WaitingMessages` while an earlier turn of the task runs.
2. When its turn begins the agent gets a `TurnRequest` made of it. The store keeps it for the time after a crash.
3. Its sender holds a `PendingSend`, which leads to the task's log, or to a direct message.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import reason_of, stops_turn
from a2a_server.domain.lifecycle import STOPPING, TERMINAL
from a2a_server.domain.media_types import modes_of
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.operations.call import Call
from a2a_server.operations.log.readers import Reader
from a2a_server.operations.log.writer import TaskWriter
from a2a_server.ports.agent import Plan, TurnRequest
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.push import PushConfig
from a2a_server.ports.records import STATUS, Entry, StoredTurn
from a2a_server.protocol.errors import A2AError, Reason

_WITHHELD = "withheld"
_INVALID = Reason.INVALID_AGENT_RESPONSE.name
_BROKEN = "The agent's answer broke the protocol; the task says how."


class TurnInput:
    """One message, and what is known about its turn."""

    # A class by hand: there is one per send, and what a dataclass writes would not be compiled.
    __slots__ = ("after", "call", "kept", "key", "number", "plan", "references", "replaces", "request", "rerun")

    def __init__(self, call: Call, request: pb.SendMessageRequest) -> None:
        self.call = call
        self.request = request
        self.plan: Plan | None = None
        """The agent's plan for a message that starts a task."""
        self.references: Sequence[pb.Task] = ()
        """The tasks that the message refers to, as far as its caller may see them."""
        self.number = 0
        """The log number of the message."""
        self.after: int | None = None
        """A stop with a greater number answers this message; None while it waits for its turn."""
        self.rerun = False
        """Whether a restart interrupted the turn and it runs again."""
        self.key = ""
        """The key of the receipt it left, by which a repeated send finds it while it waits."""
        self.replaces: PushConfig | None = None
        """The push config that the one in the message would replace."""
        self.kept: pb.Message | None = None
        """What is kept in place of a message that answers a sensitive request and is for the agent alone (XTRA-04)."""

    def stored(self) -> StoredTurn:
        """What a later process needs to run this turn again."""
        header: list[object] = [asdict(self.call.caller), self.call.version, sorted(self.call.extensions)]
        request = self.request
        if request.HasField("configuration"):  # a push config in it is registered by now, its secrets sealed
            request = pb.SendMessageRequest()
            request.CopyFrom(self.request)
            request.configuration.ClearField("task_push_notification_config")
        if self.call.trace is not None:
            header.append(self.call.trace._asdict())
        if self.kept is not None:
            header.append(_WITHHELD)
            request = pb.SendMessageRequest(message=self.kept)
        return StoredTurn(self.number, json.dumps(header).encode() + b"\n" + request.SerializeToString())

    def begin(self, writer: TaskWriter, saved: bytes, waiting: Iterable[TurnInput]) -> TurnRequest:
        """What the agent is told when the turn begins."""
        call, request, plan = self.call, self.request, self.plan
        self.plan = None
        accepted = request.configuration.accepted_output_modes if request.HasField("configuration") else ()
        return TurnRequest(
            writer.task_id,
            writer.context_id,
            self.number or 1,
            request.message,
            request.metadata,
            partial(_with_last, writer.view(), self, tuple(waiting)),
            call.caller,
            self.references,
            saved,
            self.rerun,
            call.scope.tenant,
            call.version,
            call.extensions,
            modes_of(accepted) if accepted else (),
            plan,
            call.trace,
        )


def recovered(scope: Scope, turn: StoredTurn) -> TurnInput:
    """The input of a turn that a dead process left behind. One with `kept` cannot run: its message is gone."""
    header, _, request = turn.request.partition(b"\n")
    caller, version, extensions, *marks = json.loads(header)
    trace = next((Trace(**mark) for mark in marks if isinstance(mark, dict)), None)
    call = Call(Caller(**caller), scope, version, frozenset(extensions), trace=trace)
    message = pb.SendMessageRequest.FromString(request)
    found = TurnInput(call, message)
    found.number = found.after = turn.number
    found.rerun = True
    found.kept = message.message if _WITHHELD in marks else None
    return found


def _with_last(view: Callable[[], pb.Task], current: TurnInput, waiting: Iterable[TurnInput]) -> pb.Task:
    """A message joins the history when it arrives. In its turn it comes last, and those that still wait come later.

    What the history withholds from everybody else the agent sees as it came (XTRA-04).
    """
    task, message = view(), current.request.message
    if task.history and task.history[-1] == message:
        return task
    for other in (*(one.kept or one.request.message for one in waiting), current.kept or message):
        places = (index for index in reversed(range(len(task.history))) if task.history[index] == other)
        if (place := next(places, None)) is not None:
            del task.history[place]
    task.history.append(message)
    return task


class WaitingMessages:
    """The messages of one task that wait for a turn of their own, or for the running one to take them (SEND-13)."""

    __slots__ = ("_arrived", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[TurnInput] = deque()
        self._arrived: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[TurnInput]:
        return iter(self._waiting)

    def put(self, message: TurnInput) -> None:
        self._waiting.append(message)
        self.wake()

    def take(self) -> TurnInput:
        return self._waiting.popleft()

    def wake(self) -> None:
        if self._arrived is not None:
            self._arrived.set()

    async def arrival(self) -> None:
        """Wait until there is a reason to look again."""
        if self._arrived is None:  # few turns ever listen
            self._arrived = asyncio.Event()
        self._arrived.clear()
        await self._arrived.wait()


class PendingSend:
    """A message that was sent, and its task. To close it stops following, and leaves the task alone (GEN-07)."""

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
        return self.repeated and self.snapshot is not None and self.snapshot.status.state in STOPPING

    def answered_by(self, entry: Entry) -> bool:
        """Whether this entry is a stop of the turn that our message got, or the end of the task."""
        if not stops_turn(entry.event):
            return False
        after = self.input.after
        return entry.event.status_update.status.state in TERMINAL or (after is not None and entry.number > after)

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
            await writer.settle()  # the turn takes its first step meanwhile, which is often the only one
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
