"""Which writes share a transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from a2a_server.adapters.sqlite import writer as module
from a2a_server.adapters.sqlite.writer import Writer


async def test_writes_that_come_in_the_pause_after_a_group_are_one_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        paused.set()
        go_on.wait(10)

    monkeypatch.setattr(module, "_await_a_pause", pause)
    connection = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
    begun: list[str] = []
    connection.set_trace_callback(lambda text: begun.append(text) if text.startswith("BEGIN") else None)
    writer = Writer(connection, asyncio.get_running_loop())
    try:
        async with asyncio.timeout(10):
            await asyncio.gather(*[writer.do(_nothing) for _ in range(2)])
            await asyncio.to_thread(paused.wait, 10)
            later = [asyncio.ensure_future(writer.do(_nothing)) for _ in range(3)]
            await asyncio.sleep(0)
            later += [asyncio.ensure_future(writer.do(_nothing)) for _ in range(3)]
            for _ in range(10):
                await asyncio.sleep(0)
            assert len(begun) == 1  # nothing begins before the pause is over
            go_on.set()
            await asyncio.gather(*later)
            assert len(begun) == 2
            await writer.drain()
    finally:
        go_on.set()
        await asyncio.to_thread(writer.stop)


async def test_a_writer_by_itself_waits_for_no_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[None] = []
    monkeypatch.setattr(module, "_await_a_pause", lambda: pauses.append(None))
    connection = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
    writer = Writer(connection, asyncio.get_running_loop())
    try:
        async with asyncio.timeout(10):
            for _ in range(5):
                await writer.do(_nothing)
            await writer.drain()
    finally:
        await asyncio.to_thread(writer.stop)
    assert not pauses


def _nothing(_: sqlite3.Connection) -> None:
    """A write is a write."""
