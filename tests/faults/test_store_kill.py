"""kill -9 at any moment: what the SQLite store has acknowledged is there afterwards (spec: DURA-01).

Run as a program, this file is the victim: it writes under load and says which writes were acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import threading
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from a2a_server.ports.store import TaskQuery
from tests.conformance.authors import ANN, COMPLETED, Author, config
from tests.support.effort import effort
from tests.support.house import SqliteStore, TaskFilter
from tests.support.sqlite_file import recount

ROUNDS = effort(5, everything=20)
WRITERS = 16

ROOT = Path(__file__).parents[2]


# -- the victim


async def victim(path: Path, run: str) -> None:
    store = SqliteStore(path)
    await store.open()
    await asyncio.gather(*(write_for_ever(store, f"{run}-{writer}") for writer in range(WRITERS)))


async def write_for_ever(store: SqliteStore, name: str) -> None:
    """Task after task, each with everything a write can hold. Chunks say which entry they are."""
    task = 0
    while True:
        task += 1
        author = Author(store, f"{name}-{task}")
        await author.start("victim", configs=[config(author.task_id)], notify=True)
        acknowledge(author)
        for _ in range(10):
            await author.chunk(f"{author.number + 1};", notify=True, state=b"%d" % author.number)
            acknowledge(author)
        await author.become(COMPLETED, end=[1])
        acknowledge(author)


def acknowledge(author: Author) -> None:
    os.write(1, f"{author.task_id} {author.number}\n".encode())


# -- the murderer


def kill_one(path: Path, run: int, dice: random.Random) -> dict[str, int]:
    """Let a victim write for a while and kill it; returns the last acknowledged number of each task."""
    with subprocess.Popen(
        [sys.executable, __file__, str(path), str(run)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline()]
        end = threading.Timer(dice.uniform(0, 0.25), process.kill)
        end.start()
        said += process.stdout.readlines()
        end.join()
    acknowledged: dict[str, int] = {}
    for line in said:
        if line.endswith(b"\n"):
            task_id, number = line.decode().split()
            acknowledged[task_id] = int(number)
    return acknowledged


async def check(path: Path, acknowledged: dict[str, int]) -> None:
    store = SqliteStore(path)
    await store.open()
    try:
        turning = {one.task_id for one in await store.claim(uuid.uuid4().hex, 1_000_000)}  # each time somebody else
        for task_id, number in acknowledged.items():
            await check_task(store, task_id, number, turns=task_id in turning)
        total = (await store.page(TaskQuery(ANN, TaskFilter(), None, 1, include_artifacts=False))).total
        assert total >= len(acknowledged)
    finally:
        await store.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT count(*) FROM tasks").fetchone() == (total,)
    counted, there = recount(path)
    assert counted == there


async def check_task(store: SqliteStore, task_id: str, number: int, *, turns: bool) -> None:
    author = Author(store, task_id)
    record = await author.load()
    assert record.number >= number
    entries = await store.entries(task_id, 0, 100)
    assert [entry.number for entry in entries] == list(range(1, record.number + 1))
    chunks = range(2, min(record.number, 11) + 1)
    assert (await author.texts()).get("a", "") == "".join(f"{n};" for n in chunks)
    assert record.state == (b"%d" % (chunks[-1] - 1) if chunks else b"")
    assert turns == (record.number < 12)
    assert (record.task.status.state == COMPLETED) == (record.number == 12)


@pytest.mark.req("DURA-01", "LIMT-02")
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    """One file through many deaths, so that each recovers what the one before it left."""
    path, dice = tmp_path / "a2a.db", random.Random(1879)
    acknowledged: dict[str, int] = {}
    for run in range(ROUNDS):
        killed = kill_one(path, run, dice)
        assert killed
        asyncio.run(check(path, killed))
        acknowledged |= killed
    asyncio.run(check(path, acknowledged))


if __name__ == "__main__":
    asyncio.run(victim(Path(sys.argv[1]), sys.argv[2]))
