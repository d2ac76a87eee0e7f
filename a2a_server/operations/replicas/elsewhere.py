"""Turns of other sessions: messages and cancels are sent there, and the task is followed from here (spec: DURA-03).

1. `send` asks the session that has the task's turns to let a message join. The answer is the message's number.
2. Its sender follows the log in the store, as all readers do. At each stop it asks there whether that is the answer.
3. If that session ends meanwhile, others take its turns over. Then the send starts over, unless the message is in the
   log already.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from typing import Any

import structlog
from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.reducer import fold
from a2a_server.domain.scope import Scope
from a2a_server.operations.log.readers import EventLog
from a2a_server.operations.replicas.letters import Letters
from a2a_server.operations.replicas.session import Session
from a2a_server.operations.turns.exchange import PendingSend, TurnInput, recovered
from a2a_server.operations.turns.live_task import LiveTask
from a2a_server.operations.turns.registry import LiveTurns
from a2a_server.ports.records import MESSAGE, Entry, Receipt, StoredTurn
from a2a_server.ports.replicas import Replicas
from a2a_server.ports.store import Repeated, StaleWrite, StoredTask, StoreUnavailable
from a2a_server.protocol.errors import A2AError, Reason, Violation

logger = structlog.get_logger()

_LOOK = 1.0
"""Seconds between two looks whether the other session still has the turns."""
_PATIENCE = 15.0
"""Seconds after which a session that lives and does not answer is given up on, beside what agents may take."""
_REMEMBERED = 10_000
_FEW = 64
"""Log entries that are looked through at once."""

Join = Callable[[LiveTask, TurnInput, Receipt | None], Awaitable[PendingSend]]
"""Lets a message join a live task of this process."""


class TurnsElsewhere:
    """The turns of other sessions, as far as this one has business with them; and this one's, for the others."""

    def __init__(  # noqa: PLR0913, PLR0917 - what both sides need
        self,
        replicas: Replicas,
        session: Session,
        log: EventLog,
        live_turns: LiveTurns,
        join: Join,
        grace: float,
    ) -> None:
        """`grace` is how long an agent may take to stop when it is canceled."""
        self._store = log.store
        self._log = log
        self._letters = Letters(replicas, log.wakeups, session, self.answer)
        self._live_turns = live_turns
        self._join = join
        self._patience = _PATIENCE + grace
        self._joined: dict[tuple[str, int], TurnInput] = {}
        """Messages that have joined tasks here, by task and number; those who sent them may ask for them later."""

    def start(self) -> None:
        """Answer letters from now on."""
        self._letters.start()

    async def stop(self) -> None:
        await self._letters.stop()

    # -- asking

    async def send(self, scope: Scope, record: StoredTask, message: TurnInput, once: Receipt | None) -> PendingSend:
        """Have the message join the task where its turns are. Raises `StaleWrite` if they are not there any more."""
        call, task, session = message.call, record.task, record.session
        details = {"peer": call.peer, "door": call.door, "schemes": [*call.schemes], "once": _receipt_json(once)}
        question = self._question("send", task.id, scope, **details) + message.packed()
        reader = self._log.reader(task.id, record.number)
        self._log.ask_others(task.id)
        reader.ask_at_stops(partial(self._judge, session, task.id, message))
        try:
            answer = await self._ask(session, question, self._patience, (scope, task.id))
            message.number = answer["number"] if answer else await self._find(record, message)
            joined = await self._store.entries(task.id, record.number, message.number - record.number)
        except BaseException:
            reader.close()
            raise
        fold(task, (entry.event for entry in joined))
        reader.position = message.number
        return PendingSend(task.id, message, reader, snapshot=task)

    async def cancel(self, scope: Scope, record: StoredTask, metadata: struct_pb2.Struct) -> bool:
        """Have the turns canceled where they are; False if the agent does not stop."""
        question = self._question("cancel", record.task.id, scope) + metadata.SerializeToString()
        answer = await self._ask(record.session, question, self._patience, (scope, record.task.id))
        return bool(answer["stopped"]) if answer else True  # taken over by others: look again

    async def after(self, session: str, task_id: str, message: TurnInput) -> int | None:
        """The number after which a stop answers the message. None if its turn has not begun."""
        scope, number = message.call.scope, message.number
        while session:
            question = self._question("after", task_id, scope, number=number)
            answer = await self._ask(session, question, _LOOK)
            if answer is not None and "after" in answer:
                after: int | None = answer["after"]
                return after
            record = await self._store.load(scope, task_id)
            if record is None or record.session == session:
                break
            session = record.session  # it was taken over
        return number

    async def _judge(self, session: str, task_id: str, message: TurnInput, stop: Entry) -> None:
        """Find out whether a stop answers the message."""
        del stop
        if message.after is None:
            message.after = await self.after(session, task_id, message)

    @staticmethod
    def _question(what: str, task_id: str, scope: Scope, **details: object) -> bytes:
        return json.dumps({"ask": what, "task": task_id, "scope": [*scope], **details}).encode() + b"\n"

    async def _ask(
        self, session: str, text: bytes, patience: float, task: tuple[Scope, str] | None = None
    ) -> Mapping[str, Any] | None:
        """The answer of a session; None if it has lost the turns of `task`, or if there is no `task` and it is late."""
        question = await self._letters.ask(session, text)
        waited = 0.0
        try:
            while (letter := await question.answer(min(_LOOK, patience))) is None:
                waited += _LOOK
                if task is None:
                    return None
                record = await self._store.load(*task)
                if record is None or record.session != session:
                    return None
                if waited >= patience:
                    words = "The server that works on the task does not answer. Try again."
                    raise A2AError(Reason.UNAVAILABLE, words, metadata={"taskId": task[1]}, retry_after=1)
        finally:
            question.close()
        return _read(letter)

    async def _find(self, record: StoredTask, message: TurnInput) -> int:
        """The number of a message that may have joined before its session ended."""
        said, after = pb.Message(), record.number
        said.CopyFrom(message.request.message)
        said.task_id, said.context_id = record.task.id, record.task.context_id
        while entries := await self._store.entries(record.task.id, after, _FEW):
            for entry in entries:
                if entry.kind == MESSAGE and entry.event.message == said:
                    return entry.number
            after = entries[-1].number
        raise StaleWrite(record.task.id)

    # -- answering

    async def answer(self, question: bytes) -> bytes:
        """Answer the question of another session."""
        head, _, content = question.partition(b"\n")
        header = json.loads(head)
        answer: Mapping[str, object]
        try:
            answer = await self._answer(header, content)
        except A2AError as error:
            answer = {"error": _error_json(error)}
        except Repeated as repeated:
            answer = {"repeated": _receipt_json(repeated.receipt)}
        except (StaleWrite, StoreUnavailable):
            answer = {"stale": True}
        except Exception:
            logger.exception("letters.answer_failed", task_id=header["task"])
            answer = {"error": _error_json(A2AError(Reason.INTERNAL, "Internal error."))}
        return json.dumps(answer).encode()

    async def _answer(self, header: Mapping[str, Any], content: bytes) -> Mapping[str, object]:
        live, what = self._live_turns.find(header["task"]), header["ask"]
        if live is not None and live.writer.scope != Scope(*header["scope"]):
            live = None
        if what == "after":
            message = self._joined.get((header["task"], header["number"]))
            if message is None and live is not None:
                message = live.with_number(header["number"])
            return {} if message is None else {"after": message.after}
        if live is None:
            return {"stale": True}
        if what == "cancel":
            return {"stopped": await live.cancel(struct_pb2.Struct.FromString(content))}
        return {"number": await self._let_join(live, header, content)}

    async def _let_join(self, live: LiveTask, header: Mapping[str, Any], content: bytes) -> int:
        message = recovered(live.writer.scope, StoredTurn(0, content))
        message.rerun, message.after = False, None
        details = {"peer": header["peer"], "door": header["door"], "schemes": tuple(header["schemes"])}
        message.call = message.call._replace(**details)
        once = None if header["once"] is None else _receipt(header["once"])
        if once is not None:
            message.key = once.key
        pending = await self._join(live, message, once)
        pending.close()
        self._joined[live.task_id, message.number] = message
        if len(self._joined) > _REMEMBERED:
            del self._joined[next(iter(self._joined))]
        return message.number


# -- what letters say


def _read(letter: bytes) -> Mapping[str, Any]:
    answer: Mapping[str, Any] = json.loads(letter)
    if "error" in answer:
        raise _error(answer["error"])
    if "repeated" in answer:
        raise Repeated(_receipt(answer["repeated"]))
    if "stale" in answer:
        raise StaleWrite(letter)
    return answer


def _error_json(error: A2AError) -> Mapping[str, object]:
    return {
        "reason": error.reason.name,
        "message": error.message,
        "metadata": error.metadata,
        "violations": [[violation.field, violation.description] for violation in error.violations],
        "retry_after": error.retry_after,
        "told": [list(pair) for pair in error.told],
    }


def _error(told: Mapping[str, Any]) -> A2AError:
    return A2AError(
        Reason[told["reason"]],
        told["message"],
        metadata=told["metadata"],
        violations=[Violation(*violation) for violation in told["violations"]],
        retry_after=told["retry_after"],
        told=[(name, value) for name, value in told["told"]],
    )


def _receipt_json(receipt: Receipt | None) -> Sequence[object] | None:
    if receipt is None:
        return None
    key, fingerprint, task_id, expires_ms, reply, session = astuple(receipt)
    return [key, fingerprint.hex(), task_id, expires_ms, reply.hex(), session]


def _receipt(told: Sequence[Any]) -> Receipt:
    key, fingerprint, task_id, expires_ms, reply, session = told
    return Receipt(key, bytes.fromhex(fingerprint), task_id, expires_ms, bytes.fromhex(reply), session)
