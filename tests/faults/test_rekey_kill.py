"""kill -9 in the middle of `a2ad db rekey`: nothing is lost, and the next run goes on (spec: SECR-03, DURA-01)."""

from __future__ import annotations

import asyncio
import base64
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.store import StoreRefused
from tests.conformance.authors import COMPLETED, Author, chunk
from tests.e2e.processes import command, environment
from tests.support.effort import effort
from tests.support.house import SealedContent, SqliteStore

ROUNDS = effort(4, everything=20)
TASKS, CHUNKS = 150, 40
SECRET = "cinnamon"


def key(number: int) -> bytes:
    return bytes([number]) * 32


def settings(*numbers: int) -> dict[str, str]:
    return {"A2A_STORE_KEYS": ",".join(base64.b64encode(key(number)).decode() for number in numbers)}


async def fill(path: Path) -> None:
    """Tasks in the clear."""
    store = SqliteStore(path)
    await store.open()

    async def one(number: int) -> None:
        author = await Author(store, f"task-{number}").create(remember={f"{number}": SECRET.encode()})
        await author.commit(author.write(*(chunk(author.number + 1 + n, f"{SECRET} {n};") for n in range(CHUNKS))))
        await author.become(COMPLETED, artifacts=pb.Task().SerializeToString())

    await asyncio.gather(*map(one, range(TASKS)))
    await store.close()


def kill_one(path: Path, dice: random.Random, *numbers: int) -> bool:
    """Begin to rekey, and kill that as soon as it has changed something, or a little later. True if it had ended."""
    line = [sys.executable, "-m", "a2a_server", "db", "rekey"]
    with subprocess.Popen(
        line, cwd=path.parent, env=environment(**settings(*numbers)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        log, end = Path(f"{path}-wal"), time.monotonic() + 60
        while process.poll() is None and not (log.exists() and log.stat().st_size) and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(dice.uniform(0, 0.15))
        process.kill()
        return process.wait() == 0


async def check(path: Path, *numbers: int) -> None:
    store = SqliteStore(path, SealedContent([key(number) for number in numbers]))
    await store.open()
    for number in range(TASKS):
        author = Author(store, f"task-{number}")
        assert (await author.load()).number == CHUNKS + 2
        entries = await store.entries(author.task_id, 1, CHUNKS)
        texts = [entry.event.artifact_update.artifact.parts[0].text for entry in entries]
        assert texts == [f"{SECRET} {n};" for n in range(CHUNKS)]
    await store.close()


@pytest.mark.req("SECR-03", "DURA-01")
def test_a_change_of_keys_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    path, dice = tmp_path / "a2a.db", random.Random(7)
    asyncio.run(fill(path))
    ended = []
    for turn in range(1, ROUNDS + 1):
        keys = range(turn, 0, -1)
        ended.append(kill_one(path, dice, *keys))
        asyncio.run(check(path, *keys))
    assert not all(ended)
    with pytest.raises(StoreRefused, match="sealed with the key"):
        asyncio.run(SqliteStore(path, SealedContent([key(99)])).open())
    done = command("db", "rekey", cwd=tmp_path, **settings(*range(ROUNDS, 0, -1)))
    assert done.returncode == 0, done.stderr
    assert "and rebuilt the file" in done.stdout
    asyncio.run(check(path, ROUNDS))
    assert not [file.name for file in tmp_path.iterdir() if SECRET.encode() in file.read_bytes()]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT count(*) FROM content_keys").fetchone() == (1,)
