"""Wake-ups: hints that a task's log has grown (design 6-7; spec: ORDR, SUBS-02).

1. Whoever has committed to a log says so with `tell`, and does not wait for anybody.
2. Whoever follows the log has asked with `listen` to be told.
3. A hint comes at most once, and may be lost or late. What is true stands in the store: a listener that is told only a
   number, or that finds a gap, reads what it lacks from there.
4. Whoever follows a log that other servers may write to says so with `ask_others`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from a2a_server.ports.records import Entry


class Listener(Protocol):
    """Somebody who follows one task's log."""

    def woken(self, number: int, entries: Sequence[Entry]) -> None:
        """The log reaches to `number`. `entries` are the last of it, if they are at hand; otherwise it is empty."""
        ...


class Wakeups(Protocol):
    """Carries hints from writers to listeners, in one process or between several."""

    @property
    def address(self) -> str:
        """Where the wake-ups of other servers reach this one. Empty if they need not, or find it by themselves."""
        ...

    def tell(self, task_id: str, number: int, entries: Sequence[Entry]) -> None:
        """Wake the listeners of a task: its log reaches to `number`, durably. Never waits, and never raises."""
        ...

    def listen(self, task_id: str, listener: Listener) -> None:
        """Wake this listener from now on."""
        ...

    def ask_others(self, task_id: str, listener: Listener) -> None:
        """Wake this listener, which listens already, also when others write to the log. Asking again does nothing."""
        ...

    def forget(self, task_id: str, listener: Listener) -> None:
        """Wake it no more."""
        ...
