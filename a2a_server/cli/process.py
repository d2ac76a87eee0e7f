"""The life of one process: log, start, announce, wait for signals, drain."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TextIO, TypeVar

import click
import structlog
import uvloop
from structlog.typing import EventDict, ExcInfo, Processor

from a2a_server.cli.configuration import Unusable
from a2a_server.cli.loading import load_agent
from a2a_server.ports.store import StoreRefused, StoreUnavailable
from a2a_server.serve import UNUSABLE, Server, relaying, running
from a2a_server.serve.parts import UnusableKeys
from a2a_server.settings import Auth, Log, Settings
from a2a_server.transport.address import Address, StartError

T = TypeVar("T")

REQUEST = '{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello"}]}}'
MOST_FILES = 65_536
"""How many open files are asked for."""
RARELY = (100_000, 50, 100)
"""The thresholds of the garbage collector: how many allocations pass between collections of each generation."""

OVERTIME = 4.5
"""How long the process may take to end after the grace period, in seconds. Draining alone takes less."""

_LAST_STEPS = 0.25
"""How long tasks may take to end that nobody waits for any more."""

log = structlog.get_logger(__name__)


class Failed(click.ClickException):
    """The server could not start for a reason outside the settings."""


def run(settings: Settings) -> None:
    configure(settings.log)
    _run(running(settings, load_agent(settings.agent)), partial(welcome, settings), settings.limits.drain_grace)


def run_gateway(settings: Settings) -> None:
    configure(settings.log)
    _run(relaying(settings), partial(welcome_gateway, settings), settings.limits.drain_grace)


def _run(process: AbstractAsyncContextManager[T], greeting: Callable[[T], str], grace: float) -> None:
    allow_files()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            loop = runner.get_loop()
            _complete(loop, _live(process, greeting, _signals(loop, grace)))
            loop.run_until_complete(_leave())
    except UnusableKeys as error:
        raise Unusable(str(error)) from None
    except (StartError, StoreRefused, StoreUnavailable, *UNUSABLE) as error:
        raise Failed(str(error)) from None


def allow_files() -> None:
    """Have as many files open as the system lets us: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < MOST_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES if hard < 0 else min(max(soft, hard), MOST_FILES), hard))


def _complete(loop: asyncio.AbstractEventLoop, life: Coroutine[object, object, None]) -> None:
    """Run until the server has ended. Tasks that an agent starts may raise what asyncio lets through to here."""
    task = loop.create_task(life)
    while True:
        try:
            return loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt):  # Ctrl-C itself is `_signals`' business
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


async def _live(process: AbstractAsyncContextManager[T], greeting: Callable[[T], str], stop: asyncio.Event) -> None:
    async with AsyncExitStack() as stack:
        with patient_threads():
            started = await stack.enter_async_context(process)
        stack.enter_context(rare_collections())
        click.echo(greeting(started))
        await stop.wait()


def _signals(loop: asyncio.AbstractEventLoop, grace: float) -> asyncio.Event:
    """Drain at the first signal, and exit at once at the second, or when the end has not come in time.

    Nothing is lost: what clients were told is on disk, and the next start settles the rest. Anything gentler could be
    held up by an agent that ignores its cancellation. A signal handler of the loop would wait for a loop that is
    blocked; these handlers and the thread of `faulthandler` do not.
    """
    stop = asyncio.Event()
    signaled = False
    nowhere = Path(os.devnull).open("w")  # noqa: SIM115 - stderr may be a pipe that nobody reads

    def end(number: int, _: FrameType | None) -> None:
        nonlocal signaled
        if signaled:
            os._exit(128 + number)
        signaled = True
        faulthandler.dump_traceback_later(grace + OVERTIME, exit=True, file=nowhere)
        loop.call_soon_threadsafe(stop.set)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return stop


def welcome(settings: Settings, server: Server) -> str:
    """Say which doors are open, and how to try one."""
    auth = settings.auth
    callers = f"{len(auth.tokens)} tokens, {len(auth.api_keys)} API keys" if auth.credentials else "none (anonymous)"
    plain = "" if settings.tls.cert else " -plaintext"
    told = _credential(auth)
    call = (
        curl(settings, server.http, told)
        if server.http
        else f"grpcurl{plain}{told} -d '{REQUEST}' {server.grpc} lf.a2a.v1.A2AService/SendMessage"
    )
    return (
        f"{server.card.name} {server.card.version} ({settings.agent})\n"
        f"  grpc   {server.grpc}{' with TLS' if settings.tls.cert else ''}\n"
        f"  http   {url(settings, server.http) if server.http else 'closed'}\n"
        f"  store  {settings.store}\n"
        f"  auth   {callers}\n"
        f"Try: {call}"
    )


def _credential(auth: Auth) -> str:
    """The header into which the user who tries the command puts a secret."""
    if auth.tokens:
        return " -H 'authorization: Bearer …'"
    return f" -H '{auth.api_key_header}: …'" if auth.api_keys else ""


def welcome_gateway(settings: Settings, address: Address) -> str:
    """Say where the gateway listens, and which servers it calls."""
    upstream = settings.upstream
    return (
        f"gateway\n"
        f"  http      {url(settings, address)}\n"
        f"  upstream  {', '.join(upstream.addresses)}{' with TLS' if upstream.secure else ''}\n"
        f"Try: {curl(settings, address)}"
    )


def url(settings: Settings, address: Address) -> str:
    return f"{'https' if settings.tls.cert else 'http'}://{address}"


def curl(settings: Settings, address: Address, told: str = "") -> str:
    return f"curl {url(settings, address)}/message:send{told} -H 'content-type: application/json' -d '{REQUEST}'"


def configure(settings: Log, stream: TextIO = sys.stderr) -> None:
    """Write our events and those of libraries to stderr: readable on a terminal, JSON elsewhere.

    Tracebacks never show local variables, which may hold secrets.
    """
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    pretty = settings.format == "console" or (settings.format == "auto" and stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last = _renderers(stream, pretty=pretty)
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    strip = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    foreign = [*shared, structlog.stdlib.add_logger_name]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=[strip, *last], foreign_pre_chain=foreign))
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)


def _renderers(stream: TextIO, *, pretty: bool) -> list[Processor]:
    if not pretty:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [_printable, structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=_indented)]


def _printable(_: object, __: str, event: EventDict) -> EventDict:
    """Let no value begin a line of its own or send commands to the terminal."""
    error = event.pop("exc_info", None)
    texts = {str(name): value if isinstance(value, str) else repr(value) for name, value in event.items()}
    return {_escaped(name): _escaped(text) for name, text in texts.items()} | {"exc_info": error}


def _indented(out: TextIO, error: ExcInfo) -> None:
    out.writelines(
        f"\n    {_escaped(line)}" for line in "".join(traceback.format_exception(*error)).rstrip("\n").split("\n")
    )


def _escaped(text: str) -> str:
    """Spell control characters, and others that do not print, as Python would."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


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
