"""The agent of fault runs: it notes when its turns begin and end (`a2ad serve tests/faults/cluster/agent.py`)."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

from a2a_server.agents import Agent, Turn

CHUNKS = 12
BEAT = 0.05
JOURNAL = "journal"
"""In the folder that the servers share. Each line is appended in one piece."""
_GATE = Path("gate")
_NAME = os.environ.get("MEMBER", "")

agent = Agent(name="Witness", description="Notes when it works.", version="1.0.0")


def _note(what: str, turn: Turn) -> None:
    line = {"what": what, "at": time.monotonic(), "process": _NAME, "task": turn.task_id, "number": turn.number}
    file = os.open(JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, json.dumps({**line, "message": turn.message.message_id}).encode() + b"\n")
    os.close(file)


@contextmanager
def _noted(turn: Turn) -> Iterator[None]:
    _note("began", turn)
    try:
        yield
    finally:
        _note("ended", turn)


@agent.skill(id="chunks", tags=["test"])
async def chunks(turn: Turn) -> AsyncIterator[str]:
    """Writes numbered chunks."""
    with _noted(turn):
        for number in range(1, CHUNKS + 1):
            yield f"{number};"
            await asyncio.sleep(BEAT)


@agent.skill(id="laps", tags=["test"], restartable=True)
async def laps(turn: Turn) -> None:
    """Writes numbered artifacts, each with a checkpoint; goes on after a crash."""
    with _noted(turn):
        for lap in range(turn.state.get("lap", 0) + 1, CHUNKS + 1):
            await turn.add_artifact(f"{lap};", f"lap {lap}")
            await turn.checkpoint(lap=lap)
            await asyncio.sleep(BEAT)


@agent.skill(id="ask", tags=["test"], restartable=True)
async def ask(turn: Turn) -> str | None:
    """Asks, and repeats the answer together with what it was told before."""
    with _noted(turn):
        await asyncio.sleep(BEAT)
        if turn.number == 1:
            turn.state["first"] = turn.text
            await turn.ask("And then?")
            return None
        return f"{turn.state['first']} {turn.text}"


@agent.skill(id="drip", tags=["test"], restartable=True)
async def drip(turn: Turn) -> None:
    """Writes without an end if it is the first run; a later one waits for the gate, and ends."""
    with _noted(turn):
        while turn.rerun and not _GATE.exists():  # noqa: ASYNC110, ASYNC240 - a test makes it
            await asyncio.sleep(BEAT)
        lap = 0
        while not turn.rerun:
            lap += 1
            await turn.status(f"{_NAME} {lap}")
            await asyncio.sleep(BEAT)
