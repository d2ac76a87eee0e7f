"""kill -9 in the middle of a sweep: what is not old is all there, and the next sweep ends it (spec: KEPT-01).

Run as a program, this file is the victim: it removes long and short tasks, and says how many are gone.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from a2a_server.ports.retention import Deadlines
from tests.conformance.authors import ANN, COMPLETED, Author, chunk, config
from tests.support.effort import effort
from tests.support.house import SqliteStore

ROUNDS = effort(4, everything=15)
THEN = 5_000
ROOT = Path(__file__).parents[2]


async def victim(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    os.write(1, b"open\n")
    while True:
        await store.sweep(Deadlines(tasks=THEN))


async def fill(path: Path, run: int) -> None:
    """Old tasks, some of which take several steps to remove, and new ones."""
    store = SqliteStore(path)
    await store.open()
    for number in range(40):
        for name, at_ms in (("old", 1_000), ("new", 9_000)):
            author = await Author(store, f"{name}-{run}-{number}").start(configs=[config("t")])
            chunks = [chunk(author.number + 1 + n, f"{n};") for n in range(2_000 if number % 8 == 0 else 3)]
            await author.commit(author.write(*chunks))
            await author.become(COMPLETED, at_ms, end=[1])
    await store.close()


def kill_one(path: Path, dice: random.Random) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, __file__, str(path)], stdout=subprocess.PIPE, cwd=ROOT, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        end = threading.Timer(dice.uniform(0.001, 0.05), process.kill)
        end.start()
        process.wait()
        end.join()


async def check(path: Path, run: int) -> None:
    store = SqliteStore(path)
    await store.open()
    for number in range(40):
        chunks = 2_000 if number % 8 == 0 else 3
        new = Author(store, f"new-{run}-{number}")
        assert (await new.load()).number == chunks + 2
        assert await new.texts() == {"a": "".join(f"{n};" for n in range(chunks))}
        if (record := await store.load(ANN, f"old-{run}-{number}")) is not None:  # whole, or gone
            assert record.number == chunks + 2
            assert len(await store.entries(f"old-{run}-{number}", 0, 10_000)) == chunks + 2
    while await store.sweep(Deadlines(tasks=THEN)) is not None:
        pass
    while await store.sweep(Deadlines(tasks=THEN)) is not None:  # the first round may have begun in the middle
        pass
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT count(*) FROM tasks WHERE id NOT LIKE 'new-%'").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM tasks").fetchone() == (40 * (run + 1),)
        assert connection.execute("SELECT sum(tasks) FROM totals").fetchone() == (40 * (run + 1),)
        for table in ("events", "configs", "artifacts"):
            rest = connection.execute(f"SELECT count(*) FROM {table} WHERE task NOT IN (SELECT key FROM tasks)")  # noqa: S608
            assert rest.fetchone() == (0,)


@pytest.mark.req("KEPT-01", "DURA-01")
def test_a_sweep_that_is_killed_loses_nothing_else(tmp_path: Path) -> None:
    path, dice = tmp_path / "a2a.db", random.Random(7)
    for run in range(ROUNDS):
        asyncio.run(fill(path, run))
        kill_one(path, dice)
        asyncio.run(check(path, run))


if __name__ == "__main__":
    asyncio.run(victim(Path(sys.argv[1])))
