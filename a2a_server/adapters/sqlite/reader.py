"""Reading: short reads where they are asked for, scans in a thread of their own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from a2a_server.adapters.sqlite.schema import connect_reader
from a2a_server.adapters.sqlite.threads import work_in_the_background
from a2a_server.adapters.sqlite.writer import unavailable

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


class Reader:
    """Two connections that cannot write."""

    def __init__(self, path: Path) -> None:
        self._near = connect_reader(path, timeout=0)  # the event loop's; it must never wait
        self._far = connect_reader(path, timeout=5)
        self._thread = ThreadPoolExecutor(1, "sqlite-reader", initializer=work_in_the_background)

    def read(self, work: Work[T]) -> T:
        """Read in the calling thread, the event loop's."""
        return _serving(work, self._near)

    async def scan(self, work: Work[T]) -> T:
        """Read in the reader's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, _serving, work, self._far)

    def stop(self) -> None:
        """Let reads that have begun finish. Blocks; not for the event loop's thread."""
        self._thread.shutdown()
        self._near.close()
        self._far.close()


def _serving(work: Work[T], connection: sqlite3.Connection) -> T:
    try:
        return work(connection)
    except sqlite3.Error as error:
        raise unavailable(error) from error
