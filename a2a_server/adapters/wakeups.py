"""Wake-ups within one process: listeners are called right away, and given the entries that were committed."""

from __future__ import annotations

from collections.abc import Sequence

from a2a_server.ports.records import Entry
from a2a_server.ports.wakeups import Listener


class LocalWakeups:
    """Knows the listeners of each task that is being followed."""

    def __init__(self) -> None:
        self._listeners: dict[str, tuple[Listener, ...]] = {}

    def tell(self, task_id: str, number: int, entries: Sequence[Entry]) -> None:
        for listener in self._listeners.get(task_id, ()):
            listener.woken(number, entries)

    def listen(self, task_id: str, listener: Listener) -> None:
        self._listeners[task_id] = (*self._listeners.get(task_id, ()), listener)

    def forget(self, task_id: str, listener: Listener) -> None:
        left = tuple(other for other in self._listeners.get(task_id, ()) if other is not listener)
        if left:
            self._listeners[task_id] = left
        else:
            self._listeners.pop(task_id, None)
