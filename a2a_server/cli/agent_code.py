"""The Python files of an agent, and when they change (spec: AGNT-09)."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.machinery import PathFinder
from itertools import chain, islice
from pathlib import Path
from typing import TypeAlias

import click
import structlog

Stamp: TypeAlias = tuple[int, int, int]
"""When a file was written, its size, and which file it is: some editors write a new one and rename it."""

MOST = 10_000
"""How many files and folders are looked at."""
_PAUSE, _PATIENCE = 0.2, 10
"""Seconds between two looks; and how many times as long as the last look they are at least."""
_LEFT_OUT = ("__pycache__", "node_modules", "site-packages")

log = structlog.get_logger(__name__)


class AgentCode:
    """The folders of agents' files or packages with all folders below, without environments and hidden ones."""

    def __init__(self, *agents: str) -> None:
        self.folders = frozenset(map(_folder_of, agents))
        self._overflows = False
        self._seen = self.look()
        if self._overflows:
            more = f"has more than {MOST} files and folders; serve an agent that has a folder of its own"
            raise click.UsageError(f"--reload: {', '.join(map(str, self.folders))} {more}")

    async def watch(self, changed: asyncio.Event) -> None:
        """Set an event whenever a file is not as it was."""
        while True:
            began = time.monotonic()
            before, self._seen = self._seen, await asyncio.to_thread(self.look)
            if differing := before.items() ^ self._seen.items():
                log.info("code.changed", file=min(name for name, _ in differing))
                changed.set()
            await asyncio.sleep(max(_PAUSE, _PATIENCE * (time.monotonic() - began)))

    def look(self) -> Mapping[str, Stamp]:
        """What each file is like now."""
        entries = list(islice(self._entries(), MOST + 1))
        self._overflows = len(entries) > MOST
        return {name: stamp for name, stamp in entries if stamp is not None}

    def _entries(self) -> Iterator[tuple[str, Stamp | None]]:
        """Yield each file, and each folder without a stamp: an agent may make folders for its data."""
        for place, folders, names in chain.from_iterable(map(os.walk, self.folders)):
            if "pyvenv.cfg" in names:
                folders.clear()
                continue
            folders[:] = sorted(name for name in folders if name[0] != "." and name not in _LEFT_OUT)
            yield place, None
            for name in names:
                if name.endswith(".py"):
                    path = os.path.join(place, name)  # noqa: PTH118 - thousands of times, five times a second
                    with suppress(OSError):  # it has just been removed
                        found = os.stat(path)  # noqa: PTH116 - as above
                        yield path, (found.st_mtime_ns, found.st_size, found.st_ino)


def _folder_of(agent: str) -> Path:
    """Find the code of MODULE:AGENT without importing it; where there is none, watch the working directory."""
    place = agent.partition(":")[0]
    if place.endswith(".py"):
        return Path(place).resolve().parent
    package, spec = place.partition(".")[0], None
    with suppress(ImportError, ValueError):
        spec = PathFinder.find_spec(package, [str(Path.cwd())]) or importlib.util.find_spec(package)
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return Path(spec.origin).parent if spec is not None and spec.has_location and spec.origin else Path.cwd()
