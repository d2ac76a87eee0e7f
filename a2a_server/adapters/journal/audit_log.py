"""The audit: events as lines, repeated denials summed up, unusual numbers told (spec: SECR-01, GATE-04)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import structlog

from a2a_server.adapters.journal.lines import LineFile, line_of
from a2a_server.ports.journal import AuditEvent, AuditKind

_PAUSE = 0.2
"""Seconds between two writes."""
_ONE_DENIAL = 1.0
"""Seconds in which the same denial makes one line."""
_MOST_DENIALS = 16
"""Different denials that are told apart within that time. All further ones are summed up in one line."""
_MOST_WAITING = 10_000
_MOST_OWNERS = 10_000
_MINUTE = 60.0
_WARNINGS = frozenset({AuditKind.CALL_DENIED, AuditKind.TASK_FLOOD, AuditKind.MASS_CANCEL})
"""What goes into the ordinary log where nothing else is chosen."""
_OTHERS = "others", "", "", "VARIOUS"

log = structlog.get_logger(__name__)


class AuditLog:
    """Keeps events in a file, or in the ordinary log.

    `file` takes all events. Without it the ordinary log does: all of them if `everything`, else denials and unusual
    numbers. `tasks` and `cancels` are how many of them per owner and minute are usual; 0 = any number.
    """

    def __init__(
        self, file: LineFile | None = None, *, everything: bool = True, tasks: int = 0, cancels: int = 0
    ) -> None:
        self._file = file
        self._everything = everything or file is not None
        self._usual = {
            AuditKind.TASK_CREATED: (tasks, AuditKind.TASK_FLOOD),
            AuditKind.TASK_CANCELED: (cancels, AuditKind.MASS_CANCEL),
        }
        self._waiting: list[tuple[float, AuditEvent]] = []
        self._dropped = 0
        self._denials: dict[tuple[str, str, str, str], Denials] = {}
        """By peer, tenant, owner and reason."""
        self._counts: Counter[tuple[AuditKind, str, str]] = Counter()
        self._minute = 0.0

    @property
    def wants_creations(self) -> bool:
        return self._everything or self._usual[AuditKind.TASK_CREATED][0] > 0

    def tell(self, event: AuditEvent) -> None:
        if event.kind is AuditKind.CALL_DENIED:
            self._deny(event)
            return
        if event.kind in self._usual:
            self._count(event, *self._usual[event.kind])
        if self._everything:
            self._put(event)

    async def run(self, stop: asyncio.Event) -> None:
        """Write what has come, until told to stop."""
        while not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _PAUSE)
            if due := self._due():
                await asyncio.to_thread(self._write, due)

    def close(self) -> None:
        """Write what is left."""
        self._write(self._due(all_denials=True))
        if self._file is not None:
            self._file.close()

    def _put(self, event: AuditEvent) -> None:
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append((time.time(), event))
        else:
            self._dropped += 1

    def _deny(self, event: AuditEvent) -> None:
        who = event.peer, event.tenant, event.owner, event.reason
        if who not in self._denials and len(self._denials) >= _MOST_DENIALS:
            who, event = _OTHERS, AuditEvent(AuditKind.CALL_DENIED, peer=_OTHERS[0], reason=_OTHERS[-1])
        denials = self._denials.setdefault(who, Denials())
        denials.last = event
        denials.times += 1

    def _count(self, event: AuditEvent, usual: int, pattern: AuditKind) -> None:
        """Tell when an owner has gone beyond what is usual, and again at each multiple of it."""
        now = time.monotonic()
        if now - self._minute >= _MINUTE:
            self._counts.clear()
            self._minute = now
        whose = event.kind, event.tenant, event.owner
        if not usual or (whose not in self._counts and len(self._counts) >= _MOST_OWNERS):
            return
        self._counts[whose] += 1
        if (count := self._counts[whose]) > usual and count % usual == 1 % usual:
            self._put(AuditEvent(pattern, event.owner, event.tenant, event.peer, event.door, times=count))

    def _due(self, *, all_denials: bool = False) -> Sequence[tuple[float, AuditEvent]]:
        now = time.monotonic()
        for who, denials in list(self._denials.items()):
            if not all_denials and now - denials.told < _ONE_DENIAL:
                continue
            if denials.times:
                self._waiting.append((time.time(), denials.last._replace(times=denials.times)))
                denials.times, denials.told = 0, now
            else:
                del self._denials[who]
        if self._dropped:
            log.error("audit.dropped", events=self._dropped)
            self._dropped = 0
        due, self._waiting = self._waiting, []
        return due

    def _write(self, events: Sequence[tuple[float, AuditEvent]]) -> None:
        if self._file is not None:
            self._file.write([line_of(_told(event), seconds) for seconds, event in events])
            return
        for _, event in events:
            fields = _told(event)
            name = fields.pop("event")
            (log.warning if event.kind in _WARNINGS else log.info)(str(name), **fields)


class Denials:
    """The last one of its kind, and how many there were since that was told."""

    __slots__ = ("last", "times", "told")

    def __init__(self) -> None:
        self.last = AuditEvent(AuditKind.CALL_DENIED)
        self.times = 0
        self.told = float("-inf")


def _told(event: AuditEvent) -> dict[str, object]:
    """The fields that say anything."""
    fields: dict[str, object] = {"event": event.kind.value}
    fields.update((name, value) for name, value in event._asdict().items() if name != "kind" and value != "")
    if event.times == 1:
        del fields["times"]
    return fields
