"""Notices when something keeps the event loop from running, and shows what (spec: AGNT-05)."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from types import FrameType

import structlog

FRAMES = 8

log = structlog.get_logger(__name__)


class Watchdog:
    """A thread that asks the loop for a sign of life, since a blocked loop cannot report itself."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Watch the running loop; a patience of 0 watches nothing."""
        if self._patience > 0:
            arguments = (asyncio.get_running_loop(), threading.get_ident())
            self._thread = threading.Thread(target=self._watch, args=arguments, name="watchdog", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        while not self._stopped.wait(self._patience / 2):
            alive = threading.Event()
            asked = time.monotonic()
            try:
                loop.call_soon_threadsafe(alive.set)
            except RuntimeError:  # the loop is closed
                return
            if alive.wait(self._patience):
                continue
            log.warning("loop.blocked", seconds=self._patience, frames=_frames(sys._current_frames().get(thread)))  # noqa: SLF001 - the only way to see another thread's stack
            while not self._stopped.is_set() and not alive.wait(self._patience):
                pass
            log.warning("loop.free", seconds=round(time.monotonic() - asked, 3))


def _frames(frame: FrameType | None) -> list[str]:
    stack = traceback.extract_stack(frame, limit=None)[-FRAMES:] if frame else []
    return [f"{entry.filename}:{entry.lineno} {entry.name}" for entry in stack]
