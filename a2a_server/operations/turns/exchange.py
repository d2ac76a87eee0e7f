"""A message on its way to the agent, and the answer that its sender waits for (spec: EXEC-01, SEND-13, BLK).

1. Each message becomes a `TurnInput`. It waits in `WaitingMessages` while an earlier turn of the task runs.
2. When its turn begins, the agent gets a `TurnRequest`. The store keeps the input until the turn ends, for recovery.
3. The sender waits on a `PendingSend`, which reads the task's log, or returns a direct message.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import reason_of, stops_turn
from a2a_server.domain.lifecycle import INTERRUPTED, STOPPING, TERMINAL
from a2a_server.domain.media_types import modes_of
from a2a_server.domain.reducer import apply_status, fold
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.operations.call import Call
from a2a_server.operations.log.readers import Reader
from a2a_server.operations.log.writer import TaskWriter
from a2a_server.ports.agent import ContextMemory, Plan, TurnRequest
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.push import PushConfig
from a2a_server.ports.records import STATUS, Entry, StoredTurn
from a2a_server.protocol.errors import A2AError, Reason

_WITHHELD = "withheld"
_INVALID = Reason.INVALID_AGENT_RESPONSE.name
_BROKEN = "The agent's answer broke the protocol; the task says how."


class TurnInput:
    """One message, with the facts about its turn."""

    # Not a dataclass, because mypyc does not compile the code that dataclasses generate.
    __slots__ = ("after", "call", "kept", "key", "new", "number", "plan", "references", "replaces", "request", "rerun")

    def __init__(self, call: Call, request: pb.SendMessageRequest) -> None:
        self.call = call
        self.request = request
        self.plan: Plan | None = None
        """The agent's plan for a message that starts a task."""
        self.references: Sequence[pb.Task] = ()
        """The tasks that the message refers to and that its caller may see."""
        self.number = 0
        """The log number of the message."""
        self.after: int | None = None
        """A stop with a greater number than this answers the message; None while it waits for its turn."""
        self.rerun = False
        """Whether a restart interrupted the turn and it runs again."""
        self.key = ""
        """The key of its receipt, by which a repeated send finds it while it waits."""
        self.replaces: PushConfig | None = None
        """The push config that the one in the message would replace."""
        self.new = False
        """Whether the context begins with this message, and is empty so far."""
        self.kept: pb.Message | None = None
        """The redacted message that is stored instead, if the message answers a sensitive request (XTRA-04)."""

    def packed(self) -> bytes:
        """Return all that another process needs to give the message its turn."""
        return json.dumps(self._header()).encode() + b"\n" + self.request.SerializeToString()

    def _header(self) -> list[object]:
        caller = self.call.caller._asdict()
        if (scopes := self.call.caller.scopes) is not None:
            caller["scopes"] = sorted(scopes)
        header: list[object] = [caller, self.call.version, sorted(self.call.extensions)]
        if self.call.trace is not None:
            header.append(self.call.trace._asdict())
        return header

    def stored(self) -> StoredTurn:
        """Return what a later process needs to run this turn again."""
        header, request = self._header(), self.request
        if request.HasField("configuration"):  # its push config is stored already, with encrypted secrets
            request = pb.SendMessageRequest()
            request.CopyFrom(self.request)
            request.configuration.ClearField("task_push_notification_config")
        if self.kept is not None:
            header.append(_WITHHELD)
            request = pb.SendMessageRequest(message=self.kept)
        return StoredTurn(self.number, json.dumps(header).encode() + b"\n" + request.SerializeToString())

    def begin(
        self, writer: TaskWriter, saved: bytes, waiting: Iterable[TurnInput], memory: ContextMemory | None
    ) -> TurnRequest:
        """Return the request for the agent, when the turn begins."""
        call, request, plan = self.call, self.request, self.plan
        self.plan = None
        configuration = request.configuration if request.HasField("configuration") else None
        accepted = () if configuration is None else configuration.accepted_output_modes
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
            memory,
            configuration,
        )


def recovered(scope: Scope, turn: StoredTurn) -> TurnInput:
    """Return the input of a turn that a dead process left behind. One with `kept` cannot run: its message is lost."""
    header, _, request = turn.request.partition(b"\n")
    caller, version, extensions, *marks = json.loads(header)
    if caller.get("scopes") is not None:
        caller["scopes"] = frozenset(caller["scopes"])
    trace = next((Trace(**mark) for mark in marks if isinstance(mark, dict)), None)
    call = Call(Caller(**caller), scope, version, frozenset(extensions), trace=trace)
    message = pb.SendMessageRequest.FromString(request)
    found = TurnInput(call, message)
    found.number = found.after = turn.number
    found.rerun = True
    found.kept = message.message if _WITHHELD in marks else None
    return found


def _with_last(view: Callable[[], pb.Task], current: TurnInput, waiting: Iterable[TurnInput]) -> pb.Task:
    """Return the task for the agent: the current message is the last of the history, without those that still wait.

    The agent sees the original of a message of which the history has a redacted copy (XTRA-04).
    """
    task, message = view(), current.request.message
    if task.status.state in INTERRUPTED:  # a message that may still be refused is not in the task yet (AGNT-12)
        apply_status(task, pb.TaskStatus(state=pb.TASK_STATE_WORKING, timestamp=task.status.timestamp))
    if task.history and task.history[-1] == message:
        return task
    for other in (*(one.kept or one.request.message for one in waiting), current.kept or message):
        places = (index for index in reversed(range(len(task.history))) if task.history[index] == other)
        if (place := next(places, None)) is not None:
            del task.history[place]
    task.history.append(message)
    return task


class WaitingMessages:
    """The messages of a task that wait for their own turn, or for the running turn to take them (SEND-13)."""

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
        """Wait until a message arrives or the turn ends."""
        if self._arrived is None:  # few turns ever listen
            self._arrived = asyncio.Event()
        self._arrived.clear()
        await self._arrived.wait()


class PendingSend:
    """A message that was sent, with its task. Closing it stops reading, and does not affect the task (GEN-07)."""

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
        """The writer of a new task that begins with our message. Its reader is opened only when needed."""
        self.snapshot = snapshot
        """The task at the reader's position; None if the reader begins with the task itself. After `stopped` it is the
        task as it stopped: the store may have the next turn by then."""
        self._reply = reply
        self.repeated = repeated
        """Whether an earlier send started the work."""

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def begin_at(self, writer: TaskWriter) -> None:
        """Read from here on."""
        self.reader.position = writer.number
        self.snapshot = writer.copy()

    @property
    def reader(self) -> Reader:
        if self._reader is None:
            assert self._writer is not None  # noqa: S101 - there is one or the other
            self._reader = self._writer.follow()
        return self._reader

    async def reply(self) -> pb.Message | None:
        """Return the direct message of the agent; None if there is a task (SEND-09)."""
        return None if self._reply is None else await asyncio.shield(self._reply)

    @property
    def answered(self) -> bool:
        """Whether a repeated send was answered before we began to read."""
        return self.repeated and self.snapshot is not None and self.snapshot.status.state in STOPPING

    def answered_by(self, entry: Entry) -> bool:
        """Whether this entry is the stop of our message's turn, or the end of the task."""
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
            await writer.settle()  # the turn takes its first step during this, which is often its only one
            if (stop := writer.stop) is not None:
                await writer.settle()
                return self._judge(stop)
        if self.snapshot is not None and self.answered:
            return self._judge(reason_of(self.snapshot.status))
        while True:
            entries = await self.reader.next()
            for number, entry in enumerate(entries, 1):
                if entry.kind == STATUS and self.answered_by(entry):
                    self._go_to(entries[:number])
                    return self._judge(reason_of(entry.event.status_update.status))
            self._go_to(entries)

    def _go_to(self, entries: Sequence[Entry]) -> None:
        if self.snapshot is not None:
            fold(self.snapshot, (entry.event for entry in entries))

    def _judge(self, reason: str) -> None:
        if reason == _INVALID:
            raise A2AError(Reason.INVALID_AGENT_RESPONSE, _BROKEN, metadata={"taskId": self.task_id})

    def wire(self, most_messages: int) -> bytes | None:
        """Return the task, serialised, if it is in memory and its history is no longer than this."""
        writer = self._writer
        if writer is None or writer.closed is not None or not writer.is_durable:
            return None
        if self._reader is not None and self._reader.position > writer.durable:
            return None  # another server has taken the task over, and this one has not noticed yet
        if len(writer.head.history) > most_messages:
            return None
        return writer.wire()
