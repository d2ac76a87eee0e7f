"""The life of one process: log, start, announce, wait for signals, drain."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import json
import os
import resource
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TypeVar
from urllib.parse import quote

import click
import structlog
import uvloop

from a2a_server.cli.configuration import Unusable
from a2a_server.cli.loading import load_agents, own_fault
from a2a_server.cli.worker import OVERTIME, Link, leaving_seconds
from a2a_server.ports.store import StoreDamaged, StoreRefused, StoreUnavailable
from a2a_server.serve import UNUSABLE, Server, relaying, running
from a2a_server.serve.lifespan import LifespanFailed
from a2a_server.serve.parts import UnusableKeys
from a2a_server.settings import Auth, Settings
from a2a_server.transport.address import Address, StartError

T = TypeVar("T")

REQUEST = '{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello"}]}}'
MOST_FILES = 65_536
"""How many open files are asked for."""
RARELY = (100_000, 50, 100)
"""The thresholds of the garbage collector: how many allocations pass between collections of each generation."""

_LAST_STEPS = 0.25
"""How long tasks may take to end that nobody waits for any more."""

log = structlog.get_logger(__name__)


class Failed(click.ClickException):
    """The server could not start for a reason outside the settings."""


def run(settings: Settings, link: Link | None = None) -> None:
    """Serve until a signal comes. A worker has a `link` to its supervisor."""
    reread = asyncio.Event()
    try:
        agent = load_agents(settings)
    except UNUSABLE as error:
        raise Failed(str(error)) from None
    if link is not None:
        link.wait_to_begin()
    process = running(settings, agent, reread=reread, worker=0 if link is None else link.number)
    serve = partial(_announce, settings, welcome) if link is None else partial(_work, settings, link)
    _run(process, serve, settings, reread)


def run_gateway(settings: Settings) -> None:
    reread = asyncio.Event()
    _run(relaying(settings, reread=reread), partial(_announce, settings, welcome_gateway), settings, reread)


def _run(
    process: AbstractAsyncContextManager[T],
    serve: Callable[[T, Stop], Awaitable[None]],
    settings: Settings,
    reread: asyncio.Event,
) -> None:
    allow_files()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            loop = runner.get_loop()
            stop = Stop(loop, settings.limits.drain_delay + settings.limits.drain_grace)
            if settings.tls.cert:  # without, it ends the process, as it does when a terminal is closed
                loop.add_signal_handler(signal.SIGHUP, reread.set)
            _complete(loop, _live(process, serve, stop))
            loop.run_until_complete(_leave())
    except UnusableKeys as error:
        raise Unusable(str(error)) from None
    except LifespanFailed as error:
        raise Failed(f"{error}{own_fault(error.__cause__ or error, first=True)}") from error
    except (StartError, StoreDamaged, StoreRefused, StoreUnavailable, *UNUSABLE) as error:
        raise Failed(str(error)) from None


def allow_files() -> None:
    """Allow as many open files as the system permits: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < MOST_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES if hard < 0 else min(max(soft, hard), MOST_FILES), hard))


def _complete(loop: asyncio.AbstractEventLoop, life: Coroutine[object, object, None]) -> None:
    """Run until the server has ended. Tasks that an agent starts may raise what asyncio lets through to here."""
    task = loop.create_task(life)
    while True:
        try:
            return loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt):  # Ctrl-C itself is `Stop`'s business
            if task.done():
                raise
            log.exception("agent.failed", why="a task that the agent started has raised this")


async def _leave() -> None:
    """End at once when agents have left tasks behind that cannot be canceled: everything else is closed by now."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left and (await asyncio.wait(left, timeout=_LAST_STEPS))[1]:
        log.warning("process.left_tasks", why="tasks of the agent ignore that they are canceled")
        os._exit(0)


async def _live(
    process: AbstractAsyncContextManager[T], serve: Callable[[T, Stop], Awaitable[None]], stop: Stop
) -> None:
    async with AsyncExitStack() as stack:
        with patient_threads():
            starting = asyncio.ensure_future(stack.enter_async_context(process))
            stopping = asyncio.ensure_future(stop.begun.wait())
            await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():  # the agent's lifespan may take long
                starting.cancel()
                await asyncio.wait([starting])
                return
            started = starting.result()
        stack.enter_context(rare_collections())
        await serve(started, stop)


async def _announce(settings: Settings, greeting: Callable[[Settings, T], str], started: T, stop: Stop) -> None:
    """Serve alone."""
    if settings.log.format != "json":
        click.echo(greeting(settings, started))
    await stop.begun.wait()


async def _work(settings: Settings, link: Link, server: Server, stop: Stop) -> None:
    """Serve as one of several. One that is told to leave stops when its clients have gone."""
    leave = asyncio.Event()
    link.attach(stop=stop.begin, leave=partial(asyncio.get_running_loop().call_soon_threadsafe, leave.set))
    link.ready("" if settings.log.format == "json" else welcome(settings, server))
    begun, told = asyncio.ensure_future(stop.begun.wait()), asyncio.ensure_future(leave.wait())
    await asyncio.wait([begun, told], return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    if not stop.begun.is_set():
        leaving = asyncio.ensure_future(server.leave(leaving_seconds(settings)))
        await asyncio.wait([begun, leaving], return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        stop.begin()
    await begun


class Stop:
    """The end of the process: drain at the first signal, exit at once at the second, or when the end is not in time.

    Nothing is lost: what clients were told is on disk, and the next start settles the rest. Anything gentler could be
    held up by an agent that ignores its cancellation. A signal handler of the loop would wait for a loop that is
    blocked; these handlers and the thread of `faulthandler` do not.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, grace: float) -> None:
        self.begun = asyncio.Event()
        self._loop = loop
        self._grace = grace
        self._signaled = self._timed = False
        self._nowhere = Path(os.devnull).open("w")  # noqa: SIM115 - stderr may be a pipe that nobody reads
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def begin(self) -> None:
        """Begin to drain, if that has not begun. Any thread may call this."""
        if not self._timed:
            self._timed = True
            faulthandler.dump_traceback_later(self._grace + OVERTIME, exit=True, file=self._nowhere)
        self._loop.call_soon_threadsafe(self.begun.set)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._signaled:
            os._exit(128 + number)
        self._signaled = True
        self.begin()


def welcome(settings: Settings, server: Server) -> str:
    """Say which doors are open, and in a line of its own, to be pasted, how to try one."""
    auth = settings.auth
    counted = {
        "tokens": auth.tokens,
        "API keys": auth.api_keys,
        "passwords": auth.passwords,
        "issuers": auth.sources,
    }
    callers = ", ".join(f"{len(known)} {what}" for what, known in counted.items() if known) or _uncounted(auth)
    workers = f"  workers  {settings.workers}\n" if settings.workers > 1 else ""
    plain = "" if settings.tls.cert else " -plaintext"
    told = _credential(auth)
    tenant = settings.agents[0].tenant if settings.directory else ""
    call = (
        curl(settings, server.http, told, tenant)
        if server.http
        else f"grpcurl{plain}{told} -d '{_request(tenant)}' {server.grpc} lf.a2a.v1.A2AService/SendMessage"
    )
    agents = "".join(f"  agent  {table.tenant} ({table.agent})\n" for table in settings.agents)
    return (
        f"{server.card.name} {server.card.version}{'' if agents else f' ({settings.agent})'}\n"
        f"{agents}"
        f"  grpc   {server.grpc}{' with TLS' if settings.tls.cert else ''}\n"
        f"  http   {url(settings, server.http) if server.http else 'closed'}\n"
        f"  store  {settings.store_name}\n"
        f"{workers}"
        f"  auth   {callers}\n"
        f"Try:\n{call}"
    )


def _uncounted(auth: Auth) -> str:
    return "API keys in the store" if auth.stored_keys else "none yet" if auth.knows_callers else "none (anonymous)"


def _credential(auth: Auth) -> str:
    """The header in which the suggested command sends a credential."""
    if auth.has_tokens or auth.sources:
        return " -H 'authorization: Bearer …'"
    if not auth.has_api_keys:
        return " -H 'authorization: Basic …'" if auth.passwords else ""
    place = auth.key_place
    return f" -b '{place.name}=…'" if place.location == "cookie" else f" -H '{place.name}: …'"


def welcome_gateway(settings: Settings, address: Address) -> str:
    """Say where the gateway listens, and which servers it calls."""
    upstream = settings.upstream
    return (
        f"gateway\n"
        f"  http      {url(settings, address)}\n"
        f"  upstream  {', '.join(upstream.addresses)}{' with TLS' if upstream.secure else ''}\n"
        f"Try:\n{curl(settings, address)}"
    )


def url(settings: Settings, address: Address) -> str:
    return f"{'https' if settings.tls.cert else 'http'}://{address}"


def _request(tenant: str) -> str:
    return f'{{"tenant":{json.dumps(tenant)},{REQUEST[1:]}' if tenant else REQUEST


def curl(settings: Settings, address: Address, told: str = "", tenant: str = "") -> str:
    path = f"/{quote(tenant, safe='')}/message:send" if tenant else "/message:send"
    return f"curl {url(settings, address)}{path}{told} -H 'content-type: application/json' -d '{REQUEST}'"


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage a hundred times less often, and leave out what the start has made.

    A call leaves no cycles behind, so a collection finds nothing, but it looks through every task in memory.
    `docs/benchmarks.md` has the gain.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def patient_threads() -> Iterator[None]:
    """Run threads that start meanwhile under SCHED_BATCH: gRPC's poller and SQLite's writer, which wake for every call.

    Under this policy a thread that wakes does not preempt the event loop. On one shared core this takes 11 % off a send
    in memory, 27 % off a streamed event and 31 % off a send on SQLite.
    """
    policy = getattr(os, "SCHED_BATCH", None)
    if policy is None:  # not Linux
        yield
        return
    before = os.sched_getscheduler(0)
    with suppress(OSError):
        os.sched_setscheduler(0, policy, os.sched_param(0))
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setscheduler(0, before, os.sched_param(0))
