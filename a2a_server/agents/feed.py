"""A turn's way out: keeps events in order and holds the newest chunk back for a moment (spec: ORDR-01, ARTF-03)."""

from __future__ import annotations

import asyncio

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.lifecycle import STOPPING, TERMINAL
from a2a_server.ports.agent import InvalidAgentResponse, Outlet

LINGER = 0.02
"""Seconds that a chunk may be held back.

A chunk has to say whether it is the last, but an author knows that only when the next one fails to come. So each chunk
waits for its successor. A slow source must not make clients wait for text that is already there, hence the limit:
shorter than anybody notices, longer than the gap between the last token and the end of most model streams. When the
limit passes the chunk goes out unmarked, and the end costs one more event with an empty text.
"""


class Feed:
    """Passes events to the outlet. At most one chunk is held, and it leaves before anything that was said after it."""

    # What most turns never come to need stands here: setting it for each would cost more than an event.
    _held: pb.StreamResponse | None = None
    _timer: asyncio.TimerHandle | None = None
    _due = 0.0
    _fault: InvalidAgentResponse | None = None
    _state = 0
    _answered = False
    used = False
    """Whether anything was sent, so that a task exists."""

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet
        self.room = outlet.room

    @property
    def stopped(self) -> bool:
        """Whether the turn has ended or interrupted its task; a status after an interruption takes it up again."""
        return self._answered or self._state in STOPPING

    def send(self, event: pb.StreamResponse) -> None:
        if self._held is not None or self._fault is not None:
            self.flush()
        self.used = True
        self.outlet.emit(event)
        if event.HasField("status_update"):
            if self._state not in TERMINAL:
                self._state = event.status_update.status.state
        elif event.HasField("message"):
            self._answered = True

    def hold(self, event: pb.StreamResponse) -> None:
        """Keep a chunk until the next event, the end of its artifact, or LINGER."""
        self.flush()
        self._held = event
        loop = asyncio.get_running_loop()
        self._due = loop.time() + LINGER
        if self._timer is None:  # one timer serves a whole burst of chunks
            self._timer = loop.call_at(self._due, self._tick, loop)

    def holds(self, event: pb.StreamResponse | None) -> bool:
        return event is not None and event is self._held

    def flush(self) -> None:
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        if self._held is not None:
            held, self._held = self._held, None
            self.used = True
            self.outlet.emit(held)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held is not None or self._fault is not None:
            self.flush()

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._held is None:
            return
        if loop.time() < self._due:
            self._timer = loop.call_at(self._due, self._tick, loop)
            return
        try:
            self.flush()
        except InvalidAgentResponse as fault:  # a timer has nobody to tell; the author's next call does
            self._fault = fault
