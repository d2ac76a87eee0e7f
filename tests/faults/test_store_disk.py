"""A disk that is full or fails: writes are refused, reads go on, and the SQLite store recovers by itself.

Run as a program, this file writes until it is told to stop, with a limit on file sizes that others set and lift.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from a2a_server.ports.store import StoreUnavailable, TaskQuery
from tests.conformance.authors import ANN, Author
from tests.support.house import SqliteStore, TaskFilter, schema

ROOT = Path(__file__).parents[2]
BIG = "x" * 20_000


async def chunk(author: Author) -> str:
    try:
        await author.chunk(BIG)
    except StoreUnavailable as error:
        return str(error)
    return "ok"


async def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[sqlite3.Connection] = []

    def remember(path: Path, held: ExitStack, *, upgrade: bool) -> sqlite3.Connection:
        opened.append(connect(path, held, upgrade=upgrade))
        return opened[0]

    connect = schema.connect_writer
    monkeypatch.setattr(schema, "connect_writer", remember)
    store = SqliteStore(tmp_path / "a2a.db")
    await store.open()
    authors = [await Author(store).create() for _ in range(8)]

    (pages,) = opened[0].execute("PRAGMA page_count").fetchone()
    opened[0].execute(f"PRAGMA max_page_count = {pages + 20}")
    full = "the store cannot do it now (SQLITE_FULL)"
    results = await asyncio.gather(*map(chunk, authors))
    assert set(results) == {"ok", full}  # a few had room: each counts for itself
    kept = [(await author.load()).number for author in authors]
    assert kept == [2 if result == "ok" else 1 for result in results]
    assert (await store.page(TaskQuery(ANN, TaskFilter(), None, 10, include_artifacts=True))).total == 8
    assert await chunk(authors[results.index(full)]) == full

    opened[0].execute("PRAGMA max_page_count = 1000000")
    assert await asyncio.gather(*map(chunk, authors)) == ["ok"] * 8
    assert [(await author.load()).number for author in authors] == [number + 1 for number in kept]
    await store.close()


# -- a program that writes, and somebody who takes its disk away


async def write(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    author = await Author(store, "t").create()
    while True:
        os.write(1, f"{await chunk(author)} {(await author.load()).number}\n".encode())
        await asyncio.sleep(0.001)


def until(process: subprocess.Popen[bytes], wanted: str) -> int:
    """Read on to a result that is wanted; returns how long the log was then."""
    assert process.stdout is not None
    for line in process.stdout:
        result, number = line.decode().rsplit(" ", 1)
        if wanted in result:
            return int(number)
    raise AssertionError(f"the writer died before {wanted!r}")


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux sets another process's limits")
def test_a_disk_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "a2a.db"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, __file__, str(path)], stdout=subprocess.PIPE, cwd=ROOT, env=env) as process:
        try:
            for _ in range(3):
                number = until(process, "ok")
                log = path.with_name("a2a.db-wal")
                _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (log.stat().st_size + 100_000, most))
                failed = until(process, "the store cannot do it now (SQLITE_")
                assert failed >= number
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, most))
                assert until(process, "ok") == failed + 1
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1])))
