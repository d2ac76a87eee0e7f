"""Wake-ups between servers, by NOTIFY (spec: SUBS-02, SCAL-01).

1. Listeners of this process are woken at once, with the entries that were committed.
2. Other servers are told task ids and numbers: all that have come together in one statement, at most every 2 ms. It
   has a connection of its own, so no transaction that stores something waits for it.
3. Whatever fails loses hints and nothing else, because the core looks by itself a few times per second. Behind a pooler
   that shares connections nothing can be heard: a wake-up to ourselves finds that out.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import asyncpg
import structlog

from a2a_server.adapters.postgres.database import DatabaseOptions, connect
from a2a_server.ports.records import Entry
from a2a_server.ports.store import StoreRefused, StoreUnavailable
from a2a_server.ports.wakeups import Listener, Wakeups

if TYPE_CHECKING:
    _Connection = asyncpg.Connection[asyncpg.Record]
    _Listening = _Connection | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]

log = structlog.get_logger(__name__)

_CHANNEL: Final = "a2ad"
_TELL: Final = "SELECT pg_notify('a2ad', payload) FROM unnest($1::text[]) AS payload"
_MOST_BYTES: Final = 7_900
"""Of a payload. PostgreSQL takes less than 8,000."""
_MOST_WAITING: Final = 10_000
"""Tasks that others are to be told of. Hints about more are lost."""
_EVERY: Final = 0.002
_QUIET: Final = 10.0
"""After so many seconds without anything to tell, a wake-up to ourselves shows whether the connection is alive."""
_ECHO: Final = 1.0
"""Seconds in which a wake-up to ourselves has to come back."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_PAUSE_WHERE_DEAF: Final = 600.0
"""Seconds until it is tried again where nothing came back."""
_FAILURES = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, StoreUnavailable, StoreRefused)


class _NothingComesBack(Exception):  # noqa: N818 - a verdict on the connection
    """A wake-up to ourselves was lost: there is a pooler in between."""


class PostgresWakeups:
    """Carries hints between the servers of one database."""

    address = ""

    def __init__(self, options: DatabaseOptions, local: Wakeups) -> None:
        """`local` wakes the listeners of this process."""
        self._options = options
        self._local = local
        self._waiting: dict[str, int] = {}
        self._due = asyncio.Event()
        self._echo = asyncio.Event()
        self._question = ""
        self._round_trip = 0.0
        self._pid = 0
        """Of our own connection to the database."""
        self._hears = False
        self._said = False
        self._tried = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect. Returns when that has worked, or has failed for the first time."""
        self._keeper = asyncio.create_task(self._keep(), name="postgres wake-ups")
        await self._tried.wait()

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    @property
    def round_trips(self) -> Mapping[str, float]:
        """The seconds that the last wake-up to ourselves took, by the database's name. Empty where none comes back."""
        return {self._options.name: self._round_trip} if self._hears else {}

    # -- the port

    def tell(self, task_id: str, number: int, entries: Sequence[Entry]) -> None:
        self._local.tell(task_id, number, entries)
        if self._hears and (task_id in self._waiting or len(self._waiting) < _MOST_WAITING):
            self._waiting[task_id] = number
            self._due.set()

    def listen(self, task_id: str, listener: Listener) -> None:
        self._local.listen(task_id, listener)

    def ask_others(self, task_id: str, listener: Listener) -> None:
        """All hear of everything."""

    def forget(self, task_id: str, listener: Listener) -> None:
        self._local.forget(task_id, listener)

    # -- the connection

    async def _keep(self) -> None:
        """Have a connection for as long as possible."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._live()
                why = "the connection was lost"
            except _NothingComesBack:
                why, pause = "no wake-up to this server came back", _PAUSE_WHERE_DEAF
            except _FAILURES as error:
                why = type(error).__name__
            except Exception:
                log.exception("wakeups.failed")
                why = "an error"
            if self._hears:
                pause = _FIRST_PAUSE
            self._deaf(why)
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - so that servers part
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _deaf(self, why: str) -> None:
        self._hears = False
        self._waiting.clear()
        self._tried.set()
        if not self._said:
            self._said = True
            log.warning("wakeups.polling", why=why, store=self._options.name)

    async def _live(self) -> None:
        """Use one connection until it is of no use any more."""
        connection = await connect(self._options)
        try:
            connection.add_termination_listener(self._lost)
            self._pid = connection.get_server_pid()
            await connection.add_listener(_CHANNEL, self._heard)
            if not await self._comes_back(connection):
                raise _NothingComesBack
            took = {"round_trip_ms": round(1000 * self._round_trip, 2)}
            log.info("wakeups.back" if self._said else "wakeups.connected", store=self._options.name, **took)
            self._hears, self._said = True, False
            self._tried.set()
            await self._carry(connection)
        finally:
            connection.terminate()

    async def _carry(self, connection: _Connection) -> None:
        while not connection.is_closed():
            try:
                async with asyncio.timeout(_QUIET):
                    await self._due.wait()
            except TimeoutError:
                if not await self._comes_back(connection):
                    return
                continue
            self._due.clear()
            waiting, self._waiting = self._waiting, {}
            if waiting:
                await connection.execute(_TELL, list(payloads(waiting)))
            await asyncio.sleep(_EVERY)

    async def _comes_back(self, connection: _Connection) -> bool:
        self._question = json.dumps(uuid4().hex)
        self._echo.clear()
        asked = time.monotonic()
        await connection.execute(_TELL, [self._question])
        with suppress(TimeoutError):
            async with asyncio.timeout(_ECHO):
                await self._echo.wait()
                self._round_trip = time.monotonic() - asked
        return self._echo.is_set()

    def _lost(self, connection: object) -> None:
        del connection
        self._due.set()

    # -- what others say

    def _heard(self, connection: _Listening, pid: int, channel: str, payload: object) -> None:
        del connection, channel  # which may be closed by now
        if pid == self._pid:
            if payload == self._question:
                self._echo.set()
            return
        for task_id, number in _read(str(payload)):
            self._local.tell(task_id, number, ())


async def comes_back(options: DatabaseOptions) -> bool:
    """Whether a wake-up to ourselves arrives, as servers find out when they start."""
    question, echo = json.dumps(uuid4().hex), asyncio.Event()

    def heard(connection: _Listening, pid: int, channel: str, payload: object) -> None:
        del connection, pid, channel
        if payload == question:
            echo.set()

    connection = await connect(options)
    try:
        await connection.add_listener(_CHANNEL, heard)
        await connection.execute(_TELL, [question])
        with suppress(TimeoutError):
            async with asyncio.timeout(_ECHO):
                await echo.wait()
    finally:
        connection.terminate()
    return echo.is_set()


def payloads(waiting: Mapping[str, int]) -> Iterator[str]:
    """Yield numbers by task ids as JSON objects, each short enough for one notification."""
    members: list[str] = []
    room = _MOST_BYTES
    for task_id, number in waiting.items():
        member = f"{json.dumps(task_id)}:{number}"
        if len(member) + 2 > _MOST_BYTES:
            continue  # no server makes such ids
        room -= len(member) + 1
        if room < 2:  # noqa: PLR2004 - the braces
            yield "{" + ",".join(members) + "}"
            members, room = [], _MOST_BYTES - len(member) - 1
        members.append(member)
    if members:
        yield "{" + ",".join(members) + "}"


def _read(payload: str) -> Iterator[tuple[str, int]]:
    """Yield what a payload says. Whoever may connect may say anything."""
    try:
        told = json.loads(payload)
    except ValueError:
        return
    for task_id, number in told.items() if isinstance(told, dict) else ():
        if isinstance(number, int):
            yield task_id, number
