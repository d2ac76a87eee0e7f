"""The schema in the database: migrations and named queries (spec: DURA-09, SCAL-07).

1. A migration first *expands*: it adds what servers of the version before do not mind. One server or command at a time
   does so, one statement per transaction. Each statement can be run again.
2. Statements whose names begin with `contract_` remove what only older servers still use. They are run once no server
   of an older version has a living session, all in one transaction, together with the note that older ones must not
   come back. They have to be quick.
3. So two neighbouring versions work side by side, and an upgrade is a rolling restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import asyncpg

from a2a_server.adapters.sql import statements
from a2a_server.ports.sealing import ContentSealing
from a2a_server.ports.store import StoreRefused

if TYPE_CHECKING:
    from a2a_server.adapters.postgres.database import Connection

Steps = Mapping[int, Mapping[str, str]]
"""The statements of each version, by their names."""
Tell = Callable[[str], None]
"""Is told each step before it is made."""

_OLDEST_POSTGRES: Final = 14

_CONTRACT: Final = "contract_"
_SHOWN: Final = 12
"""Characters of a session's id."""


queries = partial(statements.queries, __package__)
SQL = queries("schema.sql")


def migrations() -> Steps:
    return {number: statements.sections(text) for number, text in statements.migrations(__package__).items()}


class SchemaVersion(NamedTuple):
    """What the database says of its tables."""

    version: int = 0
    """The newest that has expanded them; 0 if there are none."""
    oldest: int = 0
    """Servers of an older version cannot use them any more."""


def to_expand(steps: Steps, at: SchemaVersion) -> Sequence[tuple[int, str]]:
    """Versions and names of the statements that are due before a server of this version can work."""
    return [(n, name) for n in sorted(steps) if n > at.version for name in steps[n] if not name.startswith(_CONTRACT)]


def to_contract(steps: Steps, at: SchemaVersion) -> Sequence[tuple[int, str]]:
    """Those that are due when no older server is left."""
    return [(n, name) for n in sorted(steps) if n > at.oldest for name in steps[n] if name.startswith(_CONTRACT)]


async def migrate(
    connection: asyncpg.Connection, name: str, steps: Steps, tell: Tell = lambda _: None
) -> Sequence[str]:
    """Bring the tables up to date. Returns for whose end the contracting steps have to wait.

    `name` is the store's, for errors. Refuses what a newer server has contracted.
    """
    if (server := connection.get_server_version()).major < _OLDEST_POSTGRES:
        raise StoreRefused(f"the store {name} is on PostgreSQL {server.major}; {_OLDEST_POSTGRES} or newer is needed")
    for row in await connection.fetch(SQL["missing"]):
        await _alone(connection, SQL[row["name"]])
    at = await check(connection, name, max(steps))
    for number, step in to_expand(steps, at):
        tell(f"{number} {step}")
        await _alone(connection, steps[number][step])
    if at.version < max(steps):
        await connection.execute(SQL["raise"], max(steps), max(at.oldest, 1))
    return await _contract(connection, steps, tell)


async def _alone(connection: asyncpg.Connection, statement: str) -> None:
    async with connection.transaction():
        await connection.execute(SQL["alone"])
        await connection.execute(statement)


async def _contract(connection: asyncpg.Connection, steps: Steps, tell: Tell) -> Sequence[str]:
    """Remove what only older servers use, version by version, as far as nothing stands in the way."""
    for number in sorted({number for number, _ in to_contract(steps, await version_of(connection))}):
        try:
            async with connection.transaction():
                older = await _contract_to(connection, number, steps, tell)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            return ["somebody who has locked the tables"]
        if older:
            return older
    return ()


async def _contract_to(connection: asyncpg.Connection, number: int, steps: Steps, tell: Tell) -> Sequence[str]:
    await connection.execute(SQL["alone"])
    await connection.execute(SQL["no_long_waits"])
    # From here on no session can begin or go on, so that none begins unseen.
    (row,) = await connection.fetch(SQL["hold_version"])
    older = await connection.fetch(SQL["older"], number)
    if not older:
        for _, step in [due for due in to_contract(steps, SchemaVersion(*row)) if due[0] == number]:
            tell(f"{number} {step}")
            await connection.execute(steps[number][step])
        await connection.execute(SQL["raise"], number, number)
    return [f"the server {one['id'][:_SHOWN]} with schema version {one['schema']}" for one in older]


async def version_of(connection: Connection) -> SchemaVersion:
    """Of a database that has been used."""
    row = await connection.fetchrow(SQL["version"])
    return SchemaVersion(*row) if row else SchemaVersion()


async def check(connection: Connection, name: str, newest: int) -> SchemaVersion:
    """What the tables are. Refuses those that a program of the version `newest` cannot use."""
    at = await version_of(connection)
    if at.oldest > newest:
        raise StoreRefused(too_new(name, at, newest))
    return at


def too_new(name: str, at: SchemaVersion, newest: int) -> str:
    return (
        f"the store {name} has schema version {at.version}, which servers of version {at.oldest} and newer "
        f"can use; this server has version {newest}. Run the newer server, or use another database"
    )


async def made(connection: Connection) -> bool:
    """Whether the database has been used."""
    return not await connection.fetch(SQL["missing"])


async def check_known(connection: Connection, name: str, *, whose: str = "command", everything: bool = False) -> None:
    """Refuse a database that no server has used, or an older one.

    `everything`: whether all of its content is needed, also what newer versions have added.
    """
    newest = max(migrations())
    if not await made(connection):
        raise StoreRefused(
            f"there are no tables in the store {name}; a server makes them when it starts, or `a2ad db upgrade`"
        )
    at = await check(connection, name, newest)
    if at.version < newest:
        raise StoreRefused(
            f"the store {name} has schema version {at.version}, and this {whose} needs {newest}. Run `a2ad db upgrade`"
        )
    if everything and at.version > newest:
        raise StoreRefused(
            f"the store {name} has schema version {at.version}, and this {whose} knows no more than {newest}. "
            "Use the version of a2ad that has upgraded it"
        )


async def keys_used(connection: Connection) -> Sequence[str]:
    """The ids of the keys that content may be sealed with. The one that seals what is written now comes first."""
    return [row["id"] for row in await connection.fetch(SQL["keys_used"])]


async def take_up(sealing: ContentSealing, connection: Connection) -> None:
    """Seal with the first key from now on. Raises `StoreRefused` if a key is missing, and then changes nothing."""
    await connection.execute(SQL["alone"])
    known = await keys_used(connection)
    sealing.begin(known)
    if known[:1] != [sealing.first]:
        await connection.execute(SQL["seal_with"], sealing.first)
