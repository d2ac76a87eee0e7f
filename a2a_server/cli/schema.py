"""`a2ad db status | upgrade`: look at a database, and bring its schema up to date (spec: SCAL-07, OPER-04)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from a2a_server.cli.administration import STORE, administer, printable
from a2a_server.settings import Settings

if TYPE_CHECKING:
    from a2a_server.ports.database import DatabaseAdmin, DatabaseStatus

_FAILED, _DUE = 1, 3
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_WAKEUPS = {
    "notify": "NOTIFY, which arrives",
    "polling": "NOTIFY does not arrive here, so that servers look by themselves; see postgresql.wakeup_dsn",
    "local": "in the server's process",
}


def _admin_of(settings: Settings) -> DatabaseAdmin:
    from a2a_server.serve.administration import database_admin_of  # noqa: PLC0415 - --help should not wait for it

    return database_admin_of(settings)


@click.command()
@STORE
def status(*, as_json: bool, store: str | None, config: str | None) -> None:
    """Show the schema's version, what is stored, and which servers are alive.

    Nothing is changed. The exit status is 0 if all is well, 3 if `a2ad db upgrade` is due, and 1 if the database cannot
    be reached or is too new for this version. Large tables are not counted: a number with ~ is PostgreSQL's estimate.
    """

    def work(settings: Settings) -> int:
        from a2a_server.ports.store import StoreRefused, StoreUnavailable, store_name  # noqa: PLC0415 - as above

        try:
            found = _admin_of(settings).status()
        except (StoreRefused, StoreUnavailable) as error:
            if as_json:
                told = {"store": store_name(settings.store), "reachable": False, "why": str(error)}
                click.echo(json.dumps(told))
                return _FAILED
            raise
        click.echo(json.dumps(_members(found)) if as_json else "\n".join(_lines(found)))
        return _FAILED if found.too_new else _DUE if found.expand else 0

    if code := administer(store, config, work):
        raise click.exceptions.Exit(code)


def _members(found: DatabaseStatus) -> dict[str, object]:
    return {
        "store": found.store,
        "reachable": True,
        "schema": {
            "version": found.version,
            "program": found.newest,
            "oldest": found.oldest,
            "due": [*found.expand],
            "later": [*found.contract],
        },
        "bytes": found.bytes,
        "rows": [amount._asdict() for amount in found.amounts],
        "servers": [server._asdict() for server in found.servers],
        "wakeUps": found.wakeups,
    }


def _lines(found: DatabaseStatus) -> list[str]:
    due = ", ".join(found.expand)
    if found.too_new:
        due = f"nothing; servers need version {found.oldest} or newer, and this program has {found.newest}"
    lines = [
        f"store     {printable(found.store)}",
        f"schema    version {found.version}; this program brings {found.newest}",
        f"due       {due or 'nothing'}",
    ]
    if found.contract:
        lines.append(f"later     {', '.join(found.contract)}: when no older server is left")
    lines.append(f"stored    {_size(found.bytes)}")
    for kind, rows, size, estimated in found.amounts:
        lines.append(f"  {kind:15}{'~' * estimated}{rows:,}{f', {_size(size)}' if size is not None else ''}")
    lines.append(f"servers   {len(found.servers) or 'none'}")
    for server in found.servers:
        told = [
            f"session {printable(server.session[:12])}" if server.session else "has the file open",
            f"a2ad {printable(server.program)}" if server.program else "",
            f"schema {server.schema}",
            f"for {_age(server.seconds)}" if server.seconds is not None else "",
        ]
        lines.append(f"  {', '.join(filter(None, told))}")
    return [*lines, f"wake-ups  {_WAKEUPS[found.wakeups]}"]


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1_000:  # noqa: PLR2004 - a thousand
            return f"{count:.3g} {unit}"
        count /= 1_000
    return f"{count:.3g} GB"


def _age(seconds: float) -> str:
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.0f} h" if seconds < 2 * _DAY else f"{seconds / _DAY:.0f} days"


@click.command()
@STORE
def upgrade(*, as_json: bool, store: str | None, config: str | None) -> None:
    """Bring the schema of the store up to date, or make it.

    A server does the same when it starts, unless upgrade_store is false. On PostgreSQL servers of the version before go
    on working meanwhile. What only they still use is removed by a later run, or a later start of a server, when none of
    them is left. A SQLite file must not be in use.
    """

    def work(settings: Settings) -> None:
        done = _admin_of(settings).upgrade(lambda step: click.echo(f"… {step}", err=True))
        if as_json:
            told = {"before": done.before, "after": done.after, "waitsFor": [*done.waits_for]}
            return click.echo(json.dumps(told))
        click.echo(
            f"the schema has version {done.after}" + ("" if done.before == done.after else f", and had {done.before}")
        )
        for one in done.waits_for:
            click.echo(f"the last steps wait for {printable(one)}; run this again later", err=True)
        return None

    administer(store, config, work)
