"""The faults: what happens to servers, to their database and to the network between them, while clients work."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.faults.cluster.fleet import SESSION, sql
from tests.faults.cluster.history import Away
from tests.faults.cluster.proxy import Proxy
from tests.faults.cluster.scene import Outcome, Plan, Scene, playing
from tests.support.postgres import Cluster, pgbouncer

_BREATH = 1.0
"""Seconds between a fault and the next one."""

Fault = Callable[[Scene, int], Awaitable[None]]
"""Does a thing so many times."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """Where a run takes place."""

    cluster: Cluster
    """Its database, which a fault may stop."""
    folder: Path
    seed: int
    rounds: int
    clients: int = 1
    pause: tuple[float, float] = (1.0, 3.0)
    """Between two restarts of the database, in seconds."""
    standby: Cluster | None = None


Play = Callable[[Grounds], Coroutine[Any, Any, Outcome]]


async def under(fault: Fault, grounds: Grounds, plan: Plan | None = None, dsn: str = "") -> Outcome:
    """Play a run in which the fault happens."""
    plan = replace(plan or Plan(), clients=grounds.clients)
    dsn = dsn or grounds.cluster.fresh()
    async with playing(dsn, grounds.folder, grounds.seed, plan) as outcome:
        await asyncio.sleep(_BREATH)
        await fault(outcome.scene, grounds.rounds)
        await asyncio.sleep(_BREATH)
    return outcome


# -- servers


async def kills(grounds: Grounds) -> Outcome:
    """kill -9: a server that runs a turn, one that a reader is on, one that a send waits on; each is started again."""

    async def fault(scene: Scene, rounds: int) -> None:
        for number in range(rounds):
            match number % 3:
                case 0:
                    member = await scene.at_work()
                case 1:
                    member = await scene.waited_for("read", "stream")
                case _:
                    member = await scene.waited_for("send")
            await scene.kill(member)
            await asyncio.sleep(scene.dice.uniform(0, _BREATH))
            await scene.fleet.start(member)

    return await under(fault, grounds)


async def pauses(grounds: Grounds) -> Outcome:
    """SIGSTOP for longer than a session lasts, then SIGCONT."""

    async def fault(scene: Scene, rounds: int) -> None:
        for _ in range(rounds):
            async with scene.fleet.paused(await scene.at_work()):
                await asyncio.sleep(SESSION + scene.dice.uniform(0.5, 2))
            await asyncio.sleep(_BREATH)

    return await under(fault, grounds)


async def rolling(grounds: Grounds) -> Outcome:
    """SIGTERM, and another process in its place; one server after the other."""

    async def fault(scene: Scene, rounds: int) -> None:
        for _ in range(rounds):
            for member in tuple(scene.fleet.members):
                await scene.fleet.stop(member)
                await scene.fleet.start(member)

    return await under(fault, grounds)


async def clocks(grounds: Grounds) -> Outcome:
    """Clocks five minutes late, right, and five minutes early; one of the three is killed."""

    async def fault(scene: Scene, rounds: int) -> None:
        for number in range(rounds):
            await asyncio.sleep(2 * _BREATH)
            member = scene.fleet.members[(0, 2)[number % 2]]
            await scene.kill(member)
            await asyncio.sleep(_BREATH)
            await scene.fleet.start(member)

    each = [faked_clock(grounds.folder, shift) for shift in (-300, 0, 300)]
    return await under(fault, grounds, Plan(each=each))


FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
_SLEEP = "import select, time\ntime.sleep = lambda seconds: select.select([], [], [], seconds)\n"
"""libfaketime 0.9.10 now and then calls a sleep invalid."""


def faked_clock(folder: Path, seconds: int) -> Mapping[str, str]:
    """The environment of a process whose clock is so far from the right time."""
    (folder / "sitecustomize.py").write_text(_SLEEP)
    return {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME": f"{seconds:+}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
        "PYTHONPATH": f"{folder}:{Path(__file__).parents[3]}",
    }


# -- the database


async def restarts(grounds: Grounds) -> Outcome:
    """PostgreSQL is stopped, or crashes, and starts again."""

    async def fault(scene: Scene, rounds: int) -> None:
        for number in range(rounds):
            await asyncio.to_thread(grounds.cluster.stop, (signal.SIGINT, signal.SIGQUIT)[number % 2])
            await asyncio.sleep(scene.dice.uniform(0, _BREATH))
            await asyncio.to_thread(grounds.cluster.start)
            await asyncio.sleep(scene.dice.uniform(*grounds.pause))

    return await under(fault, grounds)


async def full_disk(grounds: Grounds) -> Outcome:
    """The database's disk is full for some seconds. PostgreSQL may stop because of it, and is started again."""
    stuffing = grounds.cluster.data / "stuffing"

    async def fault(scene: Scene, rounds: int) -> None:
        for _ in range(rounds):
            await asyncio.to_thread(_stuff, stuffing)
            await asyncio.sleep(3 * _BREATH)
            stuffing.unlink()
            if not grounds.cluster.runs:
                await asyncio.to_thread(grounds.cluster.start)
            await asyncio.sleep(2 * _BREATH)

    return await under(fault, grounds)


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """A disk of its own for a database. Raises `NoDiskError` for whoever may not mount one."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if os.geteuid() or mount is None or unmount is None:
        raise NoDiskError("only root can mount a small disk")
    with TemporaryDirectory(prefix="a2ad-disk-") as place:
        command = [mount, "-t", "tmpfs", "-o", f"size={megabytes}m,mode=711", "tmpfs", place]
        if subprocess.run(command, check=False).returncode:
            raise NoDiskError("a small disk cannot be mounted here")
        try:
            yield Path(place)
        finally:
            subprocess.run([unmount, "--lazy", place], check=True)


_PIECE = bytes(4096)


class NoDiskError(Exception):
    """There is no disk that may be filled."""


def _stuff(path: Path) -> None:
    """Leave no room on a disk."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(_PIECE)


async def failover(grounds: Grounds) -> Outcome:
    """The primary crashes for good, and a synchronous standby is promoted. Servers know both."""
    primary, standby = grounds.cluster, grounds.standby
    assert standby is not None

    async def fault(scene: Scene, rounds: int) -> None:
        await asyncio.to_thread(primary.stop, signal.SIGQUIT)
        await asyncio.sleep(_BREATH)
        await sql(standby.dsn("postgres"), "SELECT pg_promote()")
        await asyncio.sleep(_BREATH * rounds)

    dsn = primary.fresh()
    both = dsn.replace(f":{primary.port}/", f":{primary.port},127.0.0.1:{standby.port}/")
    dsn = f"{both}?target_session_attrs=read-write"
    return await under(fault, grounds, Plan(), dsn)


async def conflicts(grounds: Grounds) -> Outcome:
    """SERIALIZABLE, in which PostgreSQL refuses transactions that meet; and one in ten writes is refused as well."""
    dsn = grounds.cluster.fresh()
    name = dsn.rpartition("/")[2]
    await sql(dsn, f"ALTER DATABASE {name} SET default_transaction_isolation TO serializable")

    async def fault(scene: Scene, rounds: int) -> None:
        await sql(
            dsn,
            "CREATE FUNCTION audit.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF random() < 0.1 THEN "
            "RAISE EXCEPTION USING ERRCODE = '40001'; END IF; RETURN NULL; END $$",
        )
        await sql(
            dsn, "CREATE TRIGGER refused AFTER UPDATE ON a2ad.fences FOR EACH ROW EXECUTE FUNCTION audit.refuse()"
        )
        await asyncio.sleep(_BREATH * rounds)
        await sql(dsn, "DROP TRIGGER refused ON a2ad.fences")

    return await under(fault, grounds, Plan(), dsn)


# -- the network


async def network(grounds: Grounds) -> Outcome:
    """Between one server and the database, connections are cut, then slow, then swallow everything."""

    def proxied(proxies: Sequence[Proxy]) -> Fault:
        async def fault(scene: Scene, rounds: int) -> None:
            for number in range(rounds):
                place = scene.dice.randrange(len(proxies))
                await (_cut, _slow_down, _swallow)[number % 3](scene, proxies[place], place)

        return fault

    dsn = grounds.cluster.fresh()
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(_open(Proxy(dsn))) for _ in range(Plan().servers)]
        return await under(proxied(proxies), grounds, Plan(dsns=[proxy.dsn for proxy in proxies]), dsn)


@asynccontextmanager
async def _open(proxy: Proxy) -> AsyncIterator[Proxy]:
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()


async def _cut(scene: Scene, proxy: Proxy, place: int) -> None:
    for _ in range(10):
        proxy.cut()
        await asyncio.sleep(scene.dice.uniform(0.05, 0.3))


async def _slow_down(scene: Scene, proxy: Proxy, place: int) -> None:
    proxy.delay = 0.05
    await asyncio.sleep(3 * _BREATH)
    proxy.heal()


async def _swallow(scene: Scene, proxy: Proxy, place: int) -> None:
    """What the server's turns still do is judged by what it writes: nothing."""
    name, since = scene.fleet.members[place].name, asyncio.get_running_loop().time()
    proxy.swallow()
    await asyncio.sleep(SESSION + 2 * _BREATH)
    scene.fleet.away.append(Away(name, since, asyncio.get_running_loop().time()))
    proxy.heal()
    await asyncio.sleep(_BREATH)


async def pooler(grounds: Grounds) -> Outcome:
    """Everything goes through PgBouncer in transaction mode, and a server is killed."""

    async def fault(scene: Scene, rounds: int) -> None:
        for _ in range(rounds):
            member = await scene.at_work()
            await scene.kill(member)
            await scene.fleet.start(member)

    dsn = grounds.cluster.fresh()
    with pgbouncer(grounds.cluster, shared=False) as port:
        through = dsn.replace(f":{grounds.cluster.port}/", f":{port}/")
        alone = {"A2A_POSTGRESQL__PREPARED_STATEMENTS": "false"}  # for PgBouncer before 1.21, too
        return await under(fault, grounds, Plan(dsns=[through] * Plan().servers, variables=alone), dsn)
