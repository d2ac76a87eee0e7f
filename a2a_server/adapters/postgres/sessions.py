"""Servers that share a database: their sessions, by its clock, and letters between them (spec: DURA-04, SCAL-03)."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from operator import itemgetter
from typing import Final
from uuid import UUID

import structlog

from a2a_server import __version__
from a2a_server.adapters.postgres.database import Database
from a2a_server.adapters.postgres.schema import SQL, SchemaVersion, queries, too_new
from a2a_server.ports.clock import Clock
from a2a_server.ports.replicas import Letter

_SQL = queries("sessions.sql")
log = structlog.get_logger(__name__)

_TIDY_EVERY: Final = 500
"""Heartbeats of one server between two looks for what sessions have left that are over."""
_REMEMBERED: Final = 1_000


class Sessions:
    """What `Replicas` promises."""

    def __init__(self, database: Database, schema: int, seals_with: str) -> None:
        """`schema`: the newest version that this program knows. `seals_with`: the id of its key."""
        self._database = database
        self._known = schema, __version__, seals_with
        self._too_old = False
        self._beats = count()
        self._read: dict[int, None] = {}
        """Hashes of letters that were handed out. One whose posting did not answer is posted again."""
        self.knows: Sequence[UUID] = ()
        """The databases that this server knows."""
        self.ahead_ms = 0
        """By how much the database's clock is ahead of this server's, as it was at the start."""

    async def compare_clocks(self) -> int:
        """Look at the database's clock, and return its time."""
        asked_ns = time.time_ns()
        now_ms: int = (await self._database.fetch(_SQL["now"]))[0][0]
        self.ahead_ms = now_ms - (asked_ns + time.time_ns()) // 2_000_000
        return now_ms

    async def beat(self, session: str, seconds: float, address: str = "") -> bool:
        alive = session, seconds, *self._known, address, self.knows
        known = bool(await self._database.fetch(_SQL["beat"], *alive))
        if not known and not self._too_old:
            await self._look_for_newer()
        await self._forget()
        return known

    async def note(self, session: str, seconds: float) -> None:
        """Note that a session lives, whose truth is in another database."""
        await self._database.fetch(_SQL["note"], session, seconds, *self._known)
        await self._forget()

    async def _forget(self) -> None:
        if next(self._beats) % _TIDY_EVERY == 0:
            await self._database.fetch(_SQL["unread"])
            await self._database.fetch(_SQL["forget"])

    async def _look_for_newer(self) -> None:
        """Say it once if a newer server has changed the tables while this one was away for long."""
        at, (newest, *_) = SchemaVersion(*(await self._database.fetch(SQL["version"]))[0]), self._known
        if at.oldest > newest:
            self._too_old = True
            log.error("store.too_new", why=too_new(self._database.options.name, at, newest))

    async def lives(self, session: str) -> bool:
        return bool(await self._database.fetch(_SQL["lives"], session))

    async def addresses(self) -> Collection[str]:
        return [row["address"] for row in await self._database.fetch(_SQL["addresses"])]

    async def end_session(self, session: str) -> None:
        await self._database.fetch(_SQL["end"], session)

    async def holders(self, own: str) -> Sequence[str]:
        """Sessions, but one's own, that have open turns here."""
        return [row["session"] for row in await self._database.fetch(_SQL["holders"], own)]

    async def over(self, sessions: Collection[str]) -> Sequence[str]:
        """Those that are over for good. Mostly there are none, and one read says so."""
        if not sessions:
            return ()
        found = [row["session"] for row in await self._database.fetch(_SQL["not_alive"], list(sessions))]
        if not found:
            return ()
        alive = {row["id"] for row in await self._database.fetch(_SQL["settled"], found) if not row["over"]}
        return [session for session in found if session not in alive]

    async def numbers(self, task_ids: Collection[str]) -> Mapping[str, int]:
        return {row["task"]: row["number"] for row in await self._database.fetch(_SQL["numbers"], list(task_ids))}

    async def post(self, letter: Letter) -> None:
        await self._database.fetch(_SQL["post"], *letter)

    async def collect(self, session: str, limit: int) -> Sequence[Letter]:
        rows = await self._database.fetch(_SQL["collect"], session, limit)
        letters = [Letter(session, letter_id, body) for _, letter_id, body in sorted(rows, key=itemgetter("posted"))]
        return [letter for letter in letters if self._is_new(hash(letter))]

    def _is_new(self, letter: int) -> bool:
        if letter in self._read:
            return False
        self._read[letter] = None
        if len(self._read) > _REMEMBERED:
            del self._read[next(iter(self._read))]
        return True


class DatabaseClock:
    """A server's own clock, but windows and waits go by the database's: to all servers, the same things are due."""

    def __init__(self, own: Clock, store: Sessions) -> None:
        self._own = own
        self._store = store

    def now_ms(self) -> int:
        return self._own.now_ms()

    def steady_ms(self) -> int:
        return self._own.steady_ms() + self._store.ahead_ms
