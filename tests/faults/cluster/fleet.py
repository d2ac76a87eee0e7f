"""Several servers on one PostgreSQL, each a process that may be killed, stopped, or cut off from its database."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import grpc

from a2a_proto import a2a_pb2_grpc
from tests.e2e.processes import environment
from tests.faults.cluster.history import Away
from tests.support.postgres import free_port, make_tables

AGENT = Path(__file__).with_name("agent.py")
SESSION = 4.0
SETTINGS = {
    "A2A_POSTGRESQL__SESSION": str(SESSION),
    "A2A_POSTGRESQL__CONNECTIONS": "6",
    "A2A_POSTGRESQL__CONNECT_TIMEOUT": "2",
    "A2A_POSTGRESQL__COMMAND_TIMEOUT": "5",
    "A2A_REPLAY_EXTENSION": "true",
    "A2A_LIMITS__DRAIN_GRACE": "1",
    "A2A_PUSH__ALLOW_LOOPBACK": "true",
    "A2A_PUSH__TIMEOUT": "2",
    "A2A_PUSH__RETRY_FIRST": "0.1",
    "A2A_PUSH__RETRY_MOST": "0.5",
    "A2A_PUSH__GIVE_UP_AFTER": "1000000",
}
AUDIT = """
CREATE SCHEMA audit;
CREATE TABLE audit.writes (
    place bigserial PRIMARY KEY, at timestamptz, writer text, task text, number bigint, epoch bigint);
CREATE FUNCTION audit.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO audit.writes (at, writer, task, number, epoch)
    VALUES (clock_timestamp(), session_user, NEW.task, NEW.number, NEW.epoch);
    RETURN NULL;
END $$;
CREATE TRIGGER made AFTER INSERT ON a2ad.fences FOR EACH ROW EXECUTE FUNCTION audit.note();
CREATE TRIGGER moved AFTER UPDATE ON a2ad.fences FOR EACH ROW
    WHEN (OLD.number <> NEW.number OR OLD.epoch <> NEW.epoch) EXECUTE FUNCTION audit.note();
"""
"""Notes each change of a fence in its own transaction. Each process has a role of its own, so a row says who."""

_ROLE = "DO $$ BEGIN CREATE ROLE {0} SUPERUSER LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$"


async def sql(dsn: str, statement: str) -> list[asyncpg.Record]:
    """Run one statement and return its rows. A database that is just coming back is waited for."""
    async with asyncio.timeout(60):
        while True:
            try:
                connection = await asyncpg.connect(dsn, timeout=10)
                try:
                    return list(await connection.fetch(statement))
                finally:
                    connection.terminate()
            except (OSError, asyncpg.CannotConnectNowError, asyncpg.ConnectionDoesNotExistError):
                await asyncio.sleep(0.2)


async def watch(dsn: str) -> None:
    """Make the tables, and have every change of a fence noted."""
    await asyncio.to_thread(asyncio.run, make_tables(dsn))
    connection = await asyncpg.connect(dsn)
    await connection.execute(AUDIT)
    await connection.close()


@dataclass
class Member:
    """A server's place: a port, and the process that listens there now."""

    place: int
    port: int
    process: asyncio.subprocess.Process
    name: str
    """Of the process, and of its role in the database. Each start gets a new one."""
    channel: grpc.aio.Channel
    stub: Any
    up: bool = True

    async def close(self) -> None:
        await self.channel.close()
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


@dataclass
class Fleet:
    """All servers of a run, and what was done to them."""

    dsn: str
    folder: Path
    dsns: Sequence[str] = ()
    """What each server connects to, if that is not the database itself: a proxy, a pooler."""
    variables: Mapping[str, str] = field(default_factory=dict)
    each: Sequence[Mapping[str, str]] = ()
    """Further environment variables of single servers."""
    members: list[Member] = field(default_factory=list)
    away: list[Away] = field(default_factory=list)
    agent: Path = AGENT
    starts: int = 0

    async def open(self, count: int) -> None:
        self.members = list(await asyncio.gather(*(self._start(place, free_port()) for place in range(count))))

    async def close(self) -> None:
        await asyncio.gather(*(member.close() for member in self.members))

    @property
    def up(self) -> list[Member]:
        """Those that are not known to be away."""
        return [member for member in self.members if member.up]

    def named(self, process: str) -> Member | None:
        return next((member for member in self.up if member.name == process), None)

    async def _start(self, place: int, port: int) -> Member:
        self.starts += 1
        name = f"s{self.starts}"
        await sql(self.dsn, _ROLE.format(name))
        parts = urlsplit(self.dsns[place] if self.dsns else self.dsn)
        own = parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}").geturl()
        doors = "--grpc", f"127.0.0.1:{port}", "--http", "none"
        line = [sys.executable, "-m", "a2a_server", "serve", str(self.agent), *doors, "--store", own]
        extra = self.each[place] if self.each else {}
        with (self.folder / f"{name}.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *line,
                "--log-level",
                "warning",
                cwd=self.folder,
                env=environment(**SETTINGS, MEMBER=name, **self.variables, **extra),
                stdout=log,
                stderr=log,
            )
        channel = grpc.aio.insecure_channel(
            f"127.0.0.1:{port}",
            options=[("grpc.max_reconnect_backoff_ms", 500), ("grpc.use_local_subchannel_pool", 1)],
        )
        await self._answers(channel, process, name)
        return Member(place, port, process, name, channel, a2a_pb2_grpc.A2AServiceStub(channel))

    async def _answers(self, channel: grpc.aio.Channel, process: asyncio.subprocess.Process, name: str) -> None:
        ready = asyncio.ensure_future(channel.channel_ready())
        ended = asyncio.ensure_future(process.wait())
        await asyncio.wait([ready, ended], timeout=60, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not ready.done():
            ready.cancel()
            await channel.close()
            raise RuntimeError(f"{name} does not start:\n{(self.folder / f'{name}.log').read_text()}")

    # -- what may happen to a server

    async def kill(self, member: Member) -> None:
        """kill -9"""
        member.up = False
        member.process.kill()
        await member.process.wait()
        self.away.append(Away(member.name, time.monotonic()))

    async def stop(self, member: Member) -> None:
        """SIGTERM. The exit code depends on whether a busy machine lets it drain in time."""
        member.up = False
        member.process.terminate()
        await asyncio.wait_for(member.process.wait(), 60)

    async def start(self, member: Member) -> None:
        """Start another process in the place of one that is gone."""
        await member.close()
        self.members[member.place] = await self._start(member.place, member.port)

    @asynccontextmanager
    async def paused(self, member: Member) -> AsyncIterator[None]:
        """SIGSTOP, and SIGCONT in the end."""
        member.up = False
        member.process.send_signal(signal.SIGSTOP)
        since = time.monotonic()
        try:
            yield
        finally:
            self.away.append(Away(member.name, since, time.monotonic()))
            with suppress(ProcessLookupError):
                member.process.send_signal(signal.SIGCONT)
            member.up = True
