"""Runs several workers that share the ports: starts, replaces, reloads and stops them (spec: OPER-07).

1. The ports are reserved. The supervisor accepts no connection, opens no database and runs no agent.
2. One worker starts alone. If it cannot, it has said why, and its exit status becomes the supervisor's.
3. The others start. From now on a worker that ends is replaced, after a pause that grows as long as it goes on to end.
4. At SIGHUP each worker is replaced in turn: the new one serves before the old one lets its clients go.
5. At SIGTERM or SIGINT all workers drain at the same time. A second signal kills them.

A worker is the same command in a new process, with an `Assignment` in its environment. `reloading.py` has a
supervisor for one worker whose code changes.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import click
import structlog

from a2a_server.cli.worker import BEGIN, LEAVE, LOAD, STOP, Assignment, Worker, leaving_seconds
from a2a_server.settings import Settings
from a2a_server.transport.address import Address, StartError

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
"""Seconds until a worker is replaced: at first, and at most."""
_STEADY = 30.0
"""After so many seconds of work the next pause is the first one again."""
_AT_ONCE = LOAD, BEGIN
"""What a worker is told when it starts, if it need not wait for another one."""

log = structlog.get_logger(__name__)


def supervise(settings: Settings, read: Callable[[], Settings], kind: type[Supervisor]) -> None:
    """Run workers until a signal comes. `read` reads the settings anew."""
    if sys.platform != "linux":
        raise click.ClickException(f"{kind.option}: only Linux shares ports among processes as this needs it")
    with ExitStack() as stack:
        try:
            at = {door: _reserved(door, text, stack) for door, text in _places(settings).items()}
        except StartError as error:
            raise click.ClickException(str(error)) from None
        try:
            status = asyncio.run(kind(settings, at, read).run())
        except OSError as error:
            raise click.ClickException(f"no worker can be started: {error.strerror}") from None
    if status:
        raise SystemExit(status)


def _places(settings: Settings) -> Mapping[str, str]:
    return {"grpc": settings.grpc, "http": settings.http}


def _reserved(door: str, text: str, stack: ExitStack) -> str:
    """Keep the port until the end, so that nobody else gets it while workers come and go."""
    if not text:
        return text
    at = Address.parse(text)
    return str(Address(at.host, stack.enter_context(at.reserve(door)).getsockname()[1]))


class Supervisor:
    """The workers of one machine."""

    option = "--workers"
    """What asks for it on the command line."""
    develops = False
    """Whether the agent's code may change at any moment."""

    def __init__(self, settings: Settings, at: Mapping[str, str], read: Callable[[], Settings]) -> None:
        self._settings = settings
        self._at = at
        self._read = read
        self._asked = _places(settings)
        self._workers: dict[int, Worker] = {}
        """Those that are to serve, by their numbers."""
        self._alive: set[Worker] = set()
        """All that run, also those that begin or leave."""
        self._watches: set[asyncio.Task[None]] = set()
        self._ends: Counter[int] = Counter()
        """How often each number has ended in a row."""
        self._serves = False
        """Whether a worker has been ready."""
        self._stop = asyncio.Event()
        self._hangup = asyncio.Event()
        self._has_terminal = _has_terminal()

    async def run(self) -> int:
        """Return the exit status."""
        loop = asyncio.get_running_loop()
        for end in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(end, self._on_stop, end)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        first = self._workers[1] = await self._start(1, *_AT_ONCE)
        greeting = await first.greeting
        if greeting is None:
            return 0 if self._stop.is_set() else max(await first.process.wait(), 1)
        for number in range(2, self._settings.workers + 1):
            self._workers[number] = await self._start(number, *_AT_ONCE)
        await asyncio.wait([worker.greeting for worker in self._workers.values()])
        if greeting and not self._stop.is_set():
            click.echo(greeting)
        reloading = asyncio.create_task(self._reload_on_hangup(), name="reloads")
        await self._stop.wait()
        reloading.cancel()
        await asyncio.wait([reloading])
        return await self._end()

    def _on_stop(self, number: int) -> None:
        if self._stop.is_set():
            for worker in self._alive:
                worker.kill()
            os._exit(128 + number)
        self._stop.set()
        for worker in self._alive:
            worker.tell(STOP)

    def _on_hangup(self) -> None:
        """Reload, unless the signal says that the terminal has been closed."""
        if self._has_terminal and not _has_terminal():
            self._on_stop(signal.SIGHUP)
        else:
            self._hangup.set()

    async def _end(self) -> int:
        """Wait for all workers. They got their grace at the same time, so all of it takes as long as one."""
        alive = tuple(self._alive)
        await asyncio.gather(*(worker.ends_within(worker.drain_seconds) for worker in alive))
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        return int(any(worker.process.returncode not in (0, -signal.SIGTERM) for worker in alive))

    async def _start(self, number: int, *words: str) -> Worker:
        """Start a worker, and tell it what it may do by itself."""
        ours, theirs = socket.socketpair()
        with theirs:
            reader, line = await asyncio.open_connection(sock=ours)
            given = Assignment(number=number, **self._at, descriptor=theirs.fileno(), develops=self.develops)
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *sys.orig_argv[1:],
                    stdin=asyncio.subprocess.DEVNULL,
                    env={**os.environ, **given.environment()},
                    pass_fds=[given.descriptor],
                    start_new_session=True,  # Ctrl-C is for the supervisor alone
                )
            except (OSError, asyncio.CancelledError):  # asyncio has ended the process
                line.close()
                raise
        worker = Worker(number, process, line, self._settings, asyncio.get_running_loop().time())
        self._alive.add(worker)
        for word in [STOP] if self._stop.is_set() else words:
            worker.tell(word)
        watch = asyncio.create_task(self._watch(worker, reader), name=f"worker {number}")
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)
        return worker

    async def _watch(self, worker: Worker, reader: asyncio.StreamReader) -> None:
        """Follow a worker to its end, and replace it then, unless that was asked for."""
        await worker.listen(reader)
        if worker.greeting.done():
            self._serves = True
            log.info("worker.started", worker=worker.number, pid=worker.process.pid)
        await worker.process.wait()
        self._alive.discard(worker)
        worker.has_ended()
        if self._serves and self._is_missed(worker):
            await self._replace(worker)

    async def _replace(self, ended: Worker) -> None:
        number, now = ended.number, asyncio.get_running_loop().time
        if now() - ended.began >= _STEADY:
            del self._ends[number]
        self._ends[number] += 1
        while self._is_missed(ended):
            pause = pause_after(self._ends[number])
            pid, seconds = ended.process.pid, round(pause, 1)
            log.error("worker.ended", worker=number, pid=pid, why=ended.end, again_in=seconds)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause)
            if not self._is_missed(ended):
                return
            try:
                new = await self._start(number, *_AT_ONCE)
            except OSError as error:
                log.error("worker.not_started", worker=number, why=error.strerror)  # noqa: TRY400 - the reason is enough
                self._ends[number] += 1
                continue
            if self._is_missed(ended):
                self._workers[number] = new
            else:
                new.tell(STOP)  # a reload was quicker

    def _is_missed(self, ended: Worker) -> bool:
        """Whether it should still be there."""
        return not self._stop.is_set() and self._workers.get(ended.number) is ended

    async def _reload_on_hangup(self) -> None:
        while True:
            await self._hangup.wait()
            self._hangup.clear()
            try:
                await self._reload()
            except click.ClickException as error:
                log.error("workers.not_reloaded", why=error.format_message())  # noqa: TRY400 - as above
            except OSError as error:
                log.error("workers.not_reloaded", why=error.strerror)  # noqa: TRY400 - as above

    def _reread(self) -> Settings:
        settings = self._read()
        if _places(settings) != self._asked:
            raise click.ClickException("grpc and http cannot change while workers share the ports; start again instead")
        log.info("workers.reloading", workers=settings.workers)
        return settings

    async def _reload(self) -> None:
        """Replace all workers in turn. What is wrong with new settings shows before any old worker leaves."""
        settings = self._reread()
        before, self._settings = self._settings, settings
        for number in range(1, settings.workers + 1):
            new = await self._start(number, *_AT_ONCE)
            if await new.greeting is None:
                if number == 1:
                    self._settings = before
                raise click.ClickException(f"new worker {number} did not start ({new.end}); the old ones go on")
            old = self._workers.get(number)
            self._workers[number] = new
            if old is not None:
                await self._leave(old)
        for number in sorted(self._workers):
            if number > settings.workers:
                await self._leave(self._workers.pop(number))
        log.info("workers.reloaded", workers=settings.workers)

    async def _leave(self, old: Worker) -> None:
        old.tell(LEAVE)
        await old.ends_within(leaving_seconds(old.settings) + old.drain_seconds)


def pause_after(ends: int) -> float:
    """Seconds until a worker is replaced that has ended so often in a row; never twice the same."""
    longest: float = min(_FIRST_PAUSE * 2 ** min(ends - 1, 16), _LONGEST_PAUSE)
    return longest * random.uniform(0.5, 1)  # noqa: S311 - no secret


def _has_terminal() -> bool:
    """Whether a terminal controls this process, and is open."""
    try:
        with Path("/dev/tty").open("rb", buffering=0):
            return True
    except OSError:
        return False
