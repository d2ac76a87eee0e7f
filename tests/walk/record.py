"""Which functions of the project run while a call is under way, in all threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).parents[2]
ROOMS = tuple(f"{ROOT / room}/" for room in ("a2a_server", "gateway/a2a_gateway"))
TICKER = "WaitingCalls.keep"


@dataclass(frozen=True, slots=True)
class Walk:
    """The functions of one kind of call in the order in which they first run, and the threads they run in."""

    steps: dict[CodeType, str]

    @property
    def files(self) -> dict[str, list[CodeType]]:
        """Each file, in the order in which they are first entered, with its functions."""
        found: dict[str, list[CodeType]] = {}
        for code in self.steps:
            found.setdefault(str(Path(code.co_filename).relative_to(ROOT)), []).append(code)
        return found

    def lines(self) -> Iterator[str]:
        """The walk as it is printed."""
        main = threading.main_thread().name
        for path, codes in self.files.items():
            yield path
            for code in codes:
                thread = self.steps[code]
                yield f"    {code.co_qualname}" + (f"  [{thread}]" if thread != main else "")

    def totals(self) -> str:
        return f"{len(self.files)} files, {len(self.steps)} functions"


class Recorder:
    """Writes down what runs between `begin` and `end`. Must be there before the threads it is to see."""

    def __init__(self) -> None:
        self._on = False
        self._calls: list[dict[CodeType, str]] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        threading.setprofile(self._notice)
        sys.setprofile(self._notice)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Record for as long as the block lasts."""
        self._calls.append({})
        self._on = True
        try:
            yield
        finally:
            self._on = False

    def walk(self) -> Walk:
        """What every recorded call ran through: what only some did are timers that happened to be due."""
        *others, last = self._calls
        return Walk({code: thread for code, thread in last.items() if _in_all(code, others)})

    def _notice(self, frame: FrameType, event: str, _: object) -> None:
        if self._on and event == "call" and frame.f_code.co_filename.startswith(ROOMS) and not _ticks(frame):
            self._calls[-1].setdefault(frame.f_code, threading.current_thread().name)


def _ticks(frame: FrameType) -> bool:
    """Whether it belongs to a task that looks around ten times a second: during every call, where these are slow."""
    above: FrameType | None = frame
    while above is not None and above.f_code.co_qualname != TICKER:
        above = above.f_back
    return above is not None


def _in_all(code: CodeType, calls: Sequence[dict[CodeType, str]]) -> bool:
    return all(code in call for call in calls)
