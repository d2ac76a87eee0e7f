"""Cancels a task, wherever it stands, exactly once (spec: CANC, CANX)."""

from __future__ import annotations

from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.lifecycle import is_terminal
from a2a_server.operations.call import Call
from a2a_server.operations.turns.runs import RACES, Runs, changing_too_fast
from a2a_server.operations.turns.unattended import Unattended
from a2a_server.ports.store import StaleWrite, StoredTask
from a2a_server.protocol.errors import A2AError, Reason


class Cancels:
    """Signals a running agent, or ends a task that waits."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    async def cancel(self, call: Call, task_id: str, metadata: struct_pb2.Struct) -> StoredTask:
        """The task as it stands after the attempt; whichever terminal state was recorded first stands (CANX-02)."""
        scope, signalled = call.scope, False
        for _ in range(RACES):
            record = await self._runs.find(scope, task_id)
            state = record.task.status.state
            if signalled and state == pb.TASK_STATE_CANCELED:
                return record
            if is_terminal(state):
                raise _not_cancelable(task_id, f"The task is {pb.TaskState.Name(state)}; nothing is left to cancel.")
            run = self._runs.live.get(task_id)
            if run is not None and not run.over:
                signalled = True
                if not await run.cancel(metadata):
                    grace = self._runs.shop.limits.cancel_grace
                    raise _not_cancelable(task_id, f"The agent did not stop within {grace:g} seconds and works on.")
                continue
            try:
                await Unattended(self._runs.shop, scope, record, call.trace).move(pb.TASK_STATE_CANCELED)
            except StaleWrite:
                continue
            return await self._runs.find(scope, task_id)
        raise changing_too_fast()


def _not_cancelable(task_id: str, text: str) -> A2AError:
    return A2AError(Reason.TASK_NOT_CANCELABLE, text, metadata={"taskId": task_id})
