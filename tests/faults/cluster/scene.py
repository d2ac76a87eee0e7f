"""One fault run: servers, clients and receivers at work, and in the end the history of it all and its figures."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from aiohttp import web

from a2a_proto import a2a_pb2 as pb
from tests.faults.cluster.agent import JOURNAL
from tests.faults.cluster.checker import check
from tests.faults.cluster.fleet import Fleet, Member, sql, watch
from tests.faults.cluster.history import Entry, History, Resting, Turn, Written, entry, hooked, short
from tests.faults.cluster.load import Load
from tests.support.receivers import Received, receiver
from tests.support.stage import texts

_LATEST = 200
"""Notes of agents, among which are those about turns that run."""
_SETTLED = 90.0
"""Seconds within which everything comes to rest when the faults are over."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run amounted to."""

    tasks: int
    events: int
    heard: int
    acknowledged: int
    retries: int
    webhooks: int
    starts: int
    takeovers: Sequence[float]
    """Seconds from the death of a server until another has taken over a task of it."""


@dataclass
class Scene:
    """A run. `killed` says when each server process died, by the clock of the wall."""

    dsn: str
    folder: Path
    fleet: Fleet
    history: History
    load: Load
    dice: random.Random
    killed: dict[str, float] = field(default_factory=dict)

    # -- whom a fault hits

    async def at_work(self) -> Member:
        """The server that runs the turn of some task."""

        def find() -> Member | None:
            running = [turn for turn in turns(self.folder, latest=_LATEST) if turn.ended is None]
            self.dice.shuffle(running)
            return next(filter(None, (self.fleet.named(turn.process) for turn in running)), None)

        return await self._found(find)

    async def waited_for(self, *kinds: str) -> Member:
        """A server that some client waits for, reading or sending."""

        def find() -> Member | None:
            waiting = [member for kind, member, _ in self.load.waiting.values() if kind in kinds and member.up]
            return self.dice.choice(waiting) if waiting else None

        return await self._found(find)

    async def _found(self, find: Any) -> Member:
        async with asyncio.timeout(60):
            while (member := find()) is None:  # noqa: ASYNC110 - as an onlooker
                await asyncio.sleep(0.02)
        assert isinstance(member, Member)
        return member

    async def kill(self, member: Member) -> None:
        await self.fleet.kill(member)
        self.killed[member.name] = time.time()

    # -- how it ends

    async def finish(self, working: asyncio.Task[None]) -> Figures:
        """Let everybody end what is begun, and complete the history."""
        self.load.finish()
        await asyncio.wait([working], timeout=_SETTLED)
        if not working.done():
            working.cancel()
            await asyncio.wait([working])
            self.history.surprises.append(f"clients wait in vain: {sorted(self.load.waiting)}")
        else:
            working.result()
        await self._rest()
        await self.collect()
        return await self._figures()

    async def _rest(self) -> None:
        end = time.monotonic() + _SETTLED
        open_work = "SELECT (SELECT count(*) FROM a2ad.turns) + (SELECT count(*) FROM a2ad.debts)"
        while time.monotonic() < end:
            if not (await sql(self.dsn, open_work))[0][0]:
                return
            await asyncio.sleep(0.2)

    async def collect(self) -> None:
        history = self.history
        history.turns = turns(self.folder)
        history.away = self.fleet.away
        rows = await sql(self.dsn, "SELECT writer, task, number, epoch FROM audit.writes ORDER BY place")
        history.written = [Written(*row) for row in rows]
        logs: dict[str, list[Entry]] = defaultdict(list)
        for task, number, wire in await sql(
            self.dsn, "SELECT task, number, wire FROM a2ad.events ORDER BY task, number"
        ):
            logs[task].append(entry(number, wire))
        for task_id, log in logs.items():
            seen = await asyncio.gather(*(self._view(member, task_id) for member in self.fleet.up))
            history.views += [
                (member.name, task_id, short(task)) for member, task in zip(self.fleet.up, seen, strict=True)
            ]
            messages, text = tuple(message.message_id for message in seen[0].history), "".join(texts(seen[0]))
            history.resting[task_id] = Resting(task_id, seen[0].status.state, messages, text, tuple(log))

    async def _view(self, member: Member, task_id: str) -> pb.Task:
        async with asyncio.timeout(_SETTLED):
            while True:
                try:
                    task: pb.Task = await member.stub.GetTask(pb.GetTaskRequest(id=task_id), timeout=_SETTLED)
                except grpc.aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.UNAVAILABLE:
                        raise
                    await asyncio.sleep(0.2)
                else:
                    return task

    async def _figures(self) -> Figures:
        history = self.history
        return Figures(
            tasks=len(history.resting),
            events=sum(len(task.log) for task in history.resting.values()),
            heard=len(history.heard),
            acknowledged=len(history.acknowledged),
            retries=self.load.retries,
            webhooks=len(history.hooks),
            starts=self.fleet.starts,
            takeovers=await self._takeovers(),
        )

    async def _takeovers(self) -> list[float]:
        left = {(turn.process, turn.task) for turn in self.history.turns if turn.ended is None}
        rows = await sql(
            self.dsn,
            "SELECT task, owner, extract(epoch FROM at)::float8 FROM (SELECT *, lag(writer) OVER w AS owner, "
            "lag(epoch) OVER w AS before FROM audit.writes WINDOW w AS (PARTITION BY task ORDER BY place)) AS steps "
            "WHERE owner <> writer AND epoch > before",
        )
        return [at - self.killed[owner] for task, owner, at in rows if (owner, task) in left and owner in self.killed]


def turns(folder: Path, latest: int = 0) -> list[Turn]:
    """What the agents have noted so far, or in their latest notes."""
    path, began, ended = folder / JOURNAL, dict[tuple[Any, ...], dict[str, Any]](), list[Turn]()
    for line in path.read_text().splitlines()[-latest:] if path.exists() else ():
        note = json.loads(line)
        key = note["process"], note["task"], note["number"], note["message"]
        if note["what"] == "began":
            began[key] = note
        elif (start := began.pop(key, None)) is not None:
            ended.append(Turn(note["task"], note["message"], note["process"], start["at"], note["at"]))
    return [*ended, *(Turn(one["task"], one["message"], one["process"], one["at"]) for one in began.values())]


class Recorder:
    """A receiver that is slow now and then, refuses now and then, and notes everything."""

    def __init__(self, history: History, dice: random.Random) -> None:
        self._history = history
        self._dice = dice

    async def __call__(self, one: Received) -> web.StreamResponse:
        task, number = one.headers["A2A-Task-Id"], int(one.headers["A2A-Event-Number"])
        accepted = self._dice.random() > 0.05
        config = one.target.rpartition("/")[2]
        self._history.hooks.append(hooked(config, task, number, one.body, accepted=accepted))
        if self._dice.random() < 0.05:
            await asyncio.sleep(0.05)
        return web.Response(status=204 if accepted else 500)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is made of."""

    servers: int = 3
    clients: int = 1
    """Of each kind."""
    dsns: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    each: Sequence[Mapping[str, str]] = ()


@asynccontextmanager
async def playing(dsn: str, folder: Path, seed: int, plan: Plan | None = None) -> AsyncIterator[Outcome]:
    """Servers under load. When the body ends, so does the load, and the outcome is complete."""
    plan, dice, history = plan or Plan(), random.Random(seed), History()
    await watch(dsn)
    fleet = Fleet(dsn, folder, plan.dsns, plan.variables, plan.each)
    async with receiver(Recorder(history, dice)) as hooks, AsyncExitStack() as stack:
        stack.push_async_callback(fleet.close)  # first of all, because the receiver waits for its connections
        await fleet.open(plan.servers)
        load = Load(fleet, history, dice, hooks.url)
        outcome = Outcome(Scene(dsn, folder, fleet, history, load, dice))
        working = asyncio.create_task(load.run(plan.clients))
        try:
            yield outcome
            outcome.figures = await outcome.scene.finish(working)
        finally:
            working.cancel()
            await asyncio.wait([working])
    outcome.findings = check(history)


@dataclass
class Outcome:
    """A run, and how it ended."""

    scene: Scene
    figures: Figures | None = None
    findings: list[str] = field(default_factory=list)
