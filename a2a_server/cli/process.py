"""The life of one process: log, start, announce, wait for signals, drain."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any, TextIO

import click
import structlog
import uvloop
from structlog.typing import Processor

from a2a_server.cli.configuration import Unusable
from a2a_server.cli.loading import load_agent
from a2a_server.ports.agent import AgentPort
from a2a_server.ports.store import StoreRefused, StoreUnavailable
from a2a_server.serve import UNUSABLE, Server, relaying, running
from a2a_server.serve.parts import UnusableKeys
from a2a_server.settings import Auth, Log, Settings
from a2a_server.transport.address import Address, StartError

REQUEST = '{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello"}]}}'
RARELY = (100_000, 50, 100)
"""The thresholds of the garbage collector: how many allocations pass between collections of each generation."""


class Failed(click.ClickException):
    """The server could not start for a reason outside the settings."""


def run(settings: Settings) -> None:
    configure(settings.log)
    _run(_serve(settings, load_agent(settings.agent)))


def run_gateway(settings: Settings) -> None:
    configure(settings.log)
    _run(_relay(settings))


def _run(process: Coroutine[Any, Any, None]) -> None:
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(process)
    except UnusableKeys as error:
        raise Unusable(str(error)) from None
    except (StartError, StoreRefused, StoreUnavailable, *UNUSABLE) as error:
        raise Failed(str(error)) from None


async def _serve(settings: Settings, agent: AgentPort) -> None:
    stop = _signals()
    async with AsyncExitStack() as stack:
        with patient_threads():
            server = await stack.enter_async_context(running(settings, agent))
        stack.enter_context(rare_collections())
        click.echo(welcome(settings, server))
        await stop.wait()


async def _relay(settings: Settings) -> None:
    stop = _signals()
    async with AsyncExitStack() as stack:
        with patient_threads():
            address = await stack.enter_async_context(relaying(settings))
        stack.enter_context(rare_collections())
        click.echo(welcome_gateway(settings, address))
        await stop.wait()


def _signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, stop, number)
    return stop


def _stop(stop: asyncio.Event, number: int) -> None:
    """Drain at the first signal, and exit at once at the second.

    Nothing is lost: what clients were told is on disk, and the next start settles the rest. Anything gentler could be
    held up by an agent that ignores its cancellation.
    """
    if stop.is_set():
        os._exit(128 + number)
    stop.set()


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
    return f"curl{told} --json '{REQUEST}' {url(settings, address)}/message:send"


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
    last = _console(stream) if pretty else _json()
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


def _console(stream: TextIO) -> list[Processor]:
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]


def _json() -> list[Processor]:
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


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
