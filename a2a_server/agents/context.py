"""The conversation that a turn is part of: what was said before, and what its tasks remember (spec: AGNT-06)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.parts import check_json
from a2a_server.ports.agent import Outlet, TurnRequest


class Context:
    """Other tasks of the same caller with the same context id. Nothing is read before you look at it."""

    __slots__ = ("_history", "_outlet", "_request", "_saved", "_state", "_wrote")

    def __init__(self, request: TurnRequest, outlet: Outlet) -> None:
        self._request = request
        self._outlet = outlet
        self._history: Sequence[pb.Message] | None = None
        self._state: dict[str, Any] | None = None
        self._saved: Mapping[str, bytes] = {}
        self._wrote = False

    @property
    def id(self) -> str:
        return self._request.context_id

    @property
    def history(self) -> Sequence[pb.Message]:
        """What was said in earlier tasks of the context, newest last. This task's own messages are `turn.history`."""
        if self._history is None:
            memory = self._request.memory
            self._history = () if memory is None else memory.history()
        return self._history

    async def tasks(self) -> Sequence[pb.Task]:
        """The earlier tasks themselves, with their artifacts, newest last."""
        memory = self._request.memory
        return () if memory is None else await memory.tasks()

    @property
    def state(self) -> dict[str, Any]:
        """JSON values that all tasks of the context share. Saved by `checkpoint` and when the turn ends."""
        if self._state is None:
            memory = self._request.memory
            self._saved = {} if memory is None else memory.state()
            self._state = {name: json.loads(value) for name, value in self._saved.items()}
        return self._state

    @property
    def changed(self) -> bool:
        """Whether this turn has changed the state, so that there has to be a task."""
        return self._wrote or (self._state is not None and self._dump() != self._saved)

    def save(self) -> None:
        """Save what has changed with the next event. The ends of a turn and `checkpoint` call this."""
        if self._state is None or (values := self._dump()) == self._saved:
            return
        changes: dict[str, bytes | None] = dict.fromkeys(self._saved.keys() - values.keys())
        changes.update((name, value) for name, value in values.items() if self._saved.get(name) != value)
        self._outlet.remember(changes, sum(len(name.encode()) + len(value) for name, value in values.items()))
        self._saved, self._wrote = values, True

    def _dump(self) -> Mapping[str, bytes]:
        check_json(self._state, "context.state")
        return {name: _json(value) for name, value in (self._state or {}).items()}


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
