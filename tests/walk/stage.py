"""A real server in this process, called from another one, with what it does written down."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from a2a_server.agents import Agent, Turn
from a2a_server.cli.loading import load_agent
from a2a_server.cli.log_output import configure
from a2a_server.serve import relaying, running
from a2a_server.settings import Settings
from tests.walk.record import ROOT, Recorder, Walk

KINDS = ("rest-send", "grpc-send", "grpc-stream", "0.3-send", "event", "gateway-send")
WARM = 12
RECORDED = 8
PAUSE = 0.2
"""How long a call's last work may take, such as what becomes of a receiver's answer to a webhook."""


class Speaker:
    """An agent that streams one chunk whenever it is told to."""

    def __init__(self) -> None:
        self.agent = Agent(name="Speaker", description="Says something when asked.", version="1.0.0")
        self.agent.skill(id="speak", description="Speaks.", tags=["walk"])(self.speak)
        self.cues: asyncio.Queue[str] = asyncio.Queue()

    async def speak(self, turn: Turn) -> None:
        async with turn.artifact("speech") as out:
            while True:
                await out.write(await self.cues.get())


def record(kind: str) -> Walk:
    """Make warm calls of one kind, and say what they ran through."""
    recorder = Recorder()
    with (
        TemporaryDirectory() as place,
        recorder.watching(),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_record(kind, Path(place), recorder))
    return recorder.walk()


async def _record(kind: str, place: Path, recorder: Recorder) -> None:
    speaker = Speaker()
    async with _client(kind) as client, _serving(kind, place, speaker) as port:
        _tell(client, str(port))
        for number in range(WARM):
            await _call(client, speaker, number)
        for number in range(RECORDED):
            await asyncio.sleep(PAUSE)
            with recorder.call():
                await _call(client, speaker, WARM + number)


@asynccontextmanager
async def _serving(kind: str, place: Path, speaker: Speaker) -> AsyncIterator[int]:
    """Serve; yields the port to call."""
    settings = _settings(place, http="none" if kind == "gateway-send" else "127.0.0.1:0")
    configure(settings.log)
    async with AsyncExitStack() as stack:
        agent = speaker.agent if kind == "event" else load_agent(settings.agent)
        server = await stack.enter_async_context(running(settings, agent))
        if kind == "gateway-send":
            beyond = _settings(place, http="127.0.0.1:0", upstream={"addresses": (str(server.grpc),)})
            yield (await stack.enter_async_context(relaying(beyond))).port
        else:
            at = server.grpc if kind.startswith("grpc") else server.http
            assert at is not None
            yield at.port


def _settings(place: Path, **chosen: object) -> Settings:
    return Settings.model_validate(
        {
            "grpc": "127.0.0.1:0",
            "store": f"sqlite:///{place / 'tasks.db'}",
            "push": {"allow_loopback": True, "https_only": False},
            "log": {"level": "error"},
            "limits": {"drain_grace": 0.1},
            **chosen,
        }
    )


@asynccontextmanager
async def _client(kind: str) -> AsyncIterator[Process]:
    """The process that calls. It is started first: gRPC does not like processes to fork when it is at work."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.walk.client", kind, cwd=ROOT, stdin=PIPE, stdout=PIPE
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def _call(client: Process, speaker: Speaker, number: int) -> None:
    assert client.stdout is not None
    _tell(client, "call")
    speaker.cues.put_nowait(f"chunk {number} ")
    if await client.stdout.readline() != b"done\n":
        raise RuntimeError("the client of the walk has failed; what it says about it is above")


def _tell(client: Process, line: str) -> None:
    assert client.stdin is not None
    client.stdin.write(f"{line}\n".encode())
