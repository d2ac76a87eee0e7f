"""Connections to PostgreSQL, and what happens when one fails (spec: SCAL-02, SCAL-08, DURA-07).

1. `fetch` runs one statement, `transaction` several. Both run again when the error may pass: a deadlock, a lost
   connection, a failover. So whatever is run must be safe to run twice.
2. After some seconds the caller gets `StoreUnavailable`. From then on calls fail at once, but for one now and then that
   tries again. The first that succeeds ends it.
3. No connection keeps any state from call to call, so that PgBouncer may share connections transaction by transaction.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import asyncpg
import structlog

from a2a_server.ports.store import StoreRefused, StoreUnavailable, store_name

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
    Rows = Sequence[asyncpg.Record]

T = TypeVar("T")
log = structlog.get_logger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_PROBE_EVERY = 0.5
"""Seconds between attempts to reach a database that is away."""
_CLOSING = 10.0

_STATES_THAT_PASS = frozenset({
    "40001",  # serialization failure
    "40P01",  # deadlock
    "55P03",  # lock not available
    "57014",  # canceled, by a timeout of the server
    "57P01",  # the server is stopped,
    "57P02",  # has crashed,
    "57P03",  # or starts
    "25006",  # a standby, after a failover
    "25P03",  # idle in transaction for too long
    "53000", "53100", "53200", "53300", "53400",  # disk full, out of memory, too many connections
    "0A000",  # a cached plan does not fit any more, after a migration
})  # fmt: skip
_CONNECTION_CLASS = "08"
_IMPOSSIBLE = ("22", "23", "54")
"""Values that cannot be stored, that a key forbids, or that are too long: whoever wrote them fails alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseOptions:
    """Where the database is, and how long it may take. Times are seconds."""

    dsn: str
    password: str = ""
    """Used in place of the one in the DSN."""
    connections: int = 10
    connect_timeout: float = 5.0
    command_timeout: float = 10.0
    patience: float = 3.0
    """For how long a call is tried again."""
    prepared_statements: bool = True
    """Whether statements are prepared once per connection."""

    @property
    def name(self) -> str:
        """The store as logs and errors name it."""
        return store_name(self.dsn)


class _Stateless(asyncpg.Connection):
    def get_reset_query(self) -> str:
        """Nothing is to be reset, and asking for it would double the time of a read."""
        return ""


async def connect(options: DatabaseOptions) -> asyncpg.Connection[asyncpg.Record]:
    """One connection of one's own. Raises `StoreRefused` or `StoreUnavailable`, whose messages are for operators."""
    try:
        return await asyncpg.connect(**_arguments(options))
    except Exception as error:
        failure = verdict(error, options)
        if isinstance(failure, StoreUnavailable):
            failure = StoreUnavailable(f"the store {options.name} cannot be reached ({_told(error)})")
        raise failure from error


def _arguments(options: DatabaseOptions) -> dict[str, Any]:
    """Keywords of asyncpg. TLS is what the DSN says: sslmode, sslrootcert, sslcert, sslkey."""
    return {
        "dsn": options.dsn,
        **({"password": options.password} if options.password else {}),
        "timeout": options.connect_timeout,
        "command_timeout": options.command_timeout,
        "connection_class": _Stateless,
        "server_settings": {"application_name": "a2ad"},
        **({} if options.prepared_statements else {"statement_cache_size": 0}),
    }


class Database:
    """A pool of connections."""

    def __init__(self, options: DatabaseOptions, *, tells: bool = True) -> None:
        """`tells` = the log says when the database is away."""
        self.options = options
        self._tells = tells
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._away = False
        self._probe_at = 0.0

    async def open(self) -> None:
        options = self.options
        # Connections are made when they are needed: keeping some would mean to try in vain while the database is away.
        pool = asyncpg.create_pool(**_arguments(options), min_size=0, max_size=options.connections)
        try:
            await pool
        except Exception as error:
            raise verdict(error, options) from error
        self._pool, self._away = pool, False

    async def close(self) -> None:
        """Let running calls end. Those that do not are cut."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(_CLOSING):
                await pool.close()
        except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            pool.terminate()

    async def fetch(self, statement: str, *values: object) -> Rows:
        if (
            not self.options.prepared_statements
        ):  # the pooler may give each message to another connection, except in a transaction
            return await self.transaction(lambda connection: connection.fetch(statement, *values))
        return await self._insist(lambda connection: connection.fetch(statement, *values))

    async def first(self, statement: str, *values: object) -> asyncpg.Record | None:
        return next(iter(await self.fetch(statement, *values)), None)

    async def transaction(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        isolation: Literal["read_committed", "repeatable_read"] | None = None,
    ) -> T:
        async def attempt(connection: Connection) -> T:
            async with connection.transaction(isolation=isolation, readonly=isolation is not None):
                return await work(connection)

        return await self._insist(attempt)

    async def _insist(self, attempt: Callable[[Connection], Awaitable[T]]) -> T:
        """Try until it works, the error is one that stays, or the patience is over."""
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + self.options.patience, _FIRST_PAUSE
        if self._away:
            end = self._probe(loop.time())
        while True:
            try:
                result = await self._once(attempt, end - loop.time())
            except Exception as error:  # noqa: BLE001 - each is looked at
                failure = error
            else:
                self._back()
                return result
            if not may_pass(failure):
                raise verdict(failure, self.options) from failure
            if loop.time() + pause >= end:
                self._lost(failure, loop.time())
                raise verdict(failure, self.options) from failure
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - so that rivals part
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _once(self, attempt: Callable[[Connection], Awaitable[T]], patience: float) -> T:
        if self._pool is None:
            raise StoreUnavailable("the store is closed")
        async with self._pool.acquire(timeout=max(patience, _FIRST_PAUSE)) as connection:
            return await attempt(connection)

    def _probe(self, now: float) -> float:
        """Until when the caller may try. Of those who come at once, one tries."""
        if now < self._probe_at:
            raise StoreUnavailable("the store cannot be reached")
        self._probe_at = now + _PROBE_EVERY
        return now + _PROBE_EVERY

    def _lost(self, error: Exception, now: float) -> None:
        if isinstance(error, asyncpg.PostgresError) and not _is_connection(error):
            return  # the database is there, and refuses this
        if self._tells and not self._away:
            log.error("store.away", store=self.options.name, why=_told(error))
        self._away, self._probe_at = True, now + _PROBE_EVERY

    def _back(self) -> None:
        if self._tells and self._away:
            log.info("store.back", store=self.options.name)
        self._away = False


def may_pass(error: Exception) -> bool:
    """Whether the same statements may succeed when they are run again."""
    if isinstance(error, StoreUnavailable):
        return False
    if isinstance(error, asyncpg.PostgresError):
        return _is_connection(error) or error.sqlstate in _STATES_THAT_PASS
    # A client's own verdict on a value is an InterfaceError, too; one on a connection is no ValueError.
    lost = asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError
    return isinstance(error, lost) and not isinstance(error, ValueError)


def _is_connection(error: asyncpg.PostgresError) -> bool:
    state = error.sqlstate or ""
    return state.startswith((_CONNECTION_CLASS, "57P"))


_WRONG_HERE = (
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.ClientConfigurationError,
)


def verdict(error: Exception, options: DatabaseOptions) -> Exception:
    """The error for the caller. Its text has no SQL, no value and no password; PostgreSQL's own stays in the cause."""
    if isinstance(error, _WRONG_HERE):
        what = "the URL cannot be read" if isinstance(error, asyncpg.ClientConfigurationError) else str(error)
        return StoreRefused(f"the store {options.name} cannot be used: {what}")
    if isinstance(error, (asyncpg.PostgresError, asyncpg.InterfaceError)) and not isinstance(error, ValueError):
        if isinstance(error, asyncpg.PostgresError) and (error.sqlstate or "").startswith(_IMPOSSIBLE):
            return error
        return StoreUnavailable(f"the store cannot do it now ({_told(error)})")
    if isinstance(error, (OSError, TimeoutError, asyncpg.InternalClientError)):
        return StoreUnavailable(f"the store cannot be reached ({_told(error)})")
    return error


def _told(error: Exception) -> str:
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate:
        return f"SQLSTATE {error.sqlstate}"
    return type(error).__name__
