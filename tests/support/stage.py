"""An agent whose skills do what a test needs, and keep what they were given."""

from __future__ import annotations

import asyncio
from typing import Any

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Agent, Turn
from a2a_server.ports.clock import Clock


class Stage:
    """Plays the agent. `turns` are all turns that have begun; `hold` waits until `release` is set."""

    def __init__(self, **card: Any) -> None:
        self.turns: list[Turn] = []
        self.release = asyncio.Event()
        self.agent = agent = Agent(name="Stage", description="Plays any part.", version="1.2.3", **card)
        for skill in (self.echo, self.ask, self.hold, self.bare, self.fail):
            agent.skill(id=skill.__name__, description="A part to play.", tags=["test"])(skill)
        agent.skill(id="chat", description="Small talk.", tags=["test"], direct=True)(self.chat)
        agent.skill(id="maybe", description="Talks, or works.", tags=["test"], direct=True)(self.maybe)

    async def began(self, count: int = 1) -> None:
        """Wait until so many turns have begun; they run in the test's own loop."""
        async with asyncio.timeout(30):
            while len(self.turns) < count:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.001)

    async def echo(self, turn: Turn) -> str:
        self.turns.append(turn)
        return turn.text

    async def ask(self, turn: Turn) -> str | None:
        """A question in the first turn, an answer in the second."""
        self.turns.append(turn)
        if turn.number == 1:
            await turn.ask("What colour?")
            return None
        return f"{turn.text} it is"

    async def hold(self, turn: Turn) -> str:
        self.turns.append(turn)
        await turn.status("working on it")
        await self.release.wait()
        return turn.text

    async def bare(self, turn: Turn) -> None:
        """Completes without any artifact."""
        self.turns.append(turn)

    async def fail(self, turn: Turn) -> None:
        self.turns.append(turn)
        await turn.fail("no")

    async def chat(self, turn: Turn) -> None:
        self.turns.append(turn)
        await turn.reply(f"you said {turn.text}")

    async def maybe(self, turn: Turn) -> str | None:
        """A direct answer to small talk, a task for everything else; after `release`."""
        self.turns.append(turn)
        await self.release.wait()
        if turn.text == "small talk":
            await turn.reply("indeed")
            return None
        return turn.text


class HandClock(Clock):
    """A clock that moves when it is told to."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms

    def advance(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)


def texts(task: pb.Task) -> list[str]:
    """The texts of a task's artifacts."""
    return [part.text for artifact in task.artifacts for part in artifact.parts]
