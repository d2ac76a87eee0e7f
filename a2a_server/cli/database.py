"""`a2ad db usage | prune | delete | rekey`: what is stored of whom, and under which key (spec: KEPT-02, SECR-07)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext

import click
from pydantic import TypeAdapter

from a2a_server.cli.administration import STORE, administer, printable
from a2a_server.cli.configuration import options
from a2a_server.ports.journal import AuditEvent, AuditKind
from a2a_server.ports.retention import Chosen, Deadlines, KeptAdmin, Removed
from a2a_server.ports.sealing import SealingAdmin
from a2a_server.protocol.options import Age
from a2a_server.settings import Settings
from a2a_server.settings.model import POSTGRES

Tell = Callable[[AuditEvent], None]

_TELL_EVERY = 1.0
_WORDS = {
    "tasks": "tasks",
    "events": "events",
    "configs": "push configs",
    "webhooks": "undelivered webhooks",
    "receipts": "receipts",
    "context_values": "context values",
    "keys": "API keys",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def db() -> None:
    """Look after the store: its schema, what is in it, the keys that it is encrypted with, and its place.

    These commands work on the store of the settings in effect, whether or not servers are using it, unless they say
    otherwise. What they remove is overwritten in a SQLite file, and in time by PostgreSQL. Backups are not changed.
    """


_COMMON = options(
    click.option("--dry-run", is_flag=True, help="Count what would be removed, and remove nothing."),
    click.option("--yes", is_flag=True, help="Do not ask."),
    STORE,
)


def _age(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    try:
        return None if value is None else TypeAdapter(Age).validate_python(value)
    except ValueError:
        raise click.BadParameter("must be seconds, or a number with s, m, h, d, w or y, such as 30d") from None


@db.command()
@click.option(
    "--older-than", metavar="AGE", callback=_age, help="Seconds, or such as 30d.  [default: as in [retention]]"
)
@click.option("--vacuum", is_flag=True, help="Rebuild the file afterwards, so that it is as small as can be.")
@_COMMON
def prune(  # noqa: PLR0913 - the options
    *,
    older_than: float | None,
    vacuum: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    store: str | None,
    config: str | None,
) -> None:
    """Remove what is old.

    With --older-than these are finished tasks with everything that is theirs, parked push configs, and the state of
    quiet contexts. Without it, the ages of [retention] count. Expired receipts go in any case. Tasks that run, wait, or
    still have webhooks to deliver, stay.

    No server may use the file while it is rebuilt with --vacuum.

    \b
    a2ad db prune --older-than 30d --dry-run
    a2ad db prune --older-than 30d
    a2ad db prune --vacuum
    """  # noqa: D301 - click wants the character

    def work(admin: KeptAdmin, settings: Settings, tell: Tell) -> int:
        deadlines = _deadlines(settings, older_than)
        if not any(deadlines[:4]) and not vacuum:
            raise click.UsageError("say how old: --older-than 30d, or set ages in [retention]")
        stay = _remove(admin, deadlines, tell, dry_run=dry_run, yes=yes, as_json=as_json)
        if vacuum and not dry_run:
            admin.rebuild()
        return stay

    _use(store, config, work, "a2ad db prune", audit=not dry_run)


def _deadlines(settings: Settings, older_than: float | None) -> Deadlines:
    now_ms = time.time_ns() // 1_000_000
    if older_than is not None:
        before = now_ms - int(older_than * 1000)
        return Deadlines(before, None, before, before, receipts=now_ms)
    return settings.retention.deadlines(now_ms, now_ms)


@db.command()
@click.option(
    "--owner", metavar="NAME", help="What belongs to this caller, in all tenants; '' are callers without a name."
)
@click.option("--tenant", metavar="NAME", help="What belongs to this tenant.")
@click.option("--task", metavar="ID", help="This task.")
@click.option("--context", metavar="ID", help="The tasks and the state of this context.")
@_COMMON
def delete(
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    store: str | None,
    config: str | None,
    **chosen: str | None,
) -> None:
    """Delete somebody's data, however young.

    With several options, what fits all of them. Tasks on which servers work at this moment stay, and the exit status
    is 1: cancel them, or stop all servers, and run the command again.

    \b
    a2ad db delete --owner ann --dry-run
    a2ad db delete --owner ann --tenant acme
    a2ad db delete --task 0199a2f0-…
    """  # noqa: D301 - as above
    wanted = Chosen(**chosen)
    if wanted == Chosen():
        raise click.UsageError("say what: --owner NAME, --tenant NAME, --task ID or --context ID")

    def work(admin: KeptAdmin, _: Settings, tell: Tell) -> int:
        return _remove(admin, wanted, tell, dry_run=dry_run, yes=yes, as_json=as_json)

    if _use(store, config, work, "a2ad db delete", audit=not dry_run):
        raise click.exceptions.Exit(1)


@db.command()
@click.option("--owner", metavar="NAME", help="Only of this caller, in all tenants.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 100_000), help="At most so many lines.")
@STORE
def usage(*, owner: str | None, limit: int, as_json: bool, store: str | None, config: str | None) -> None:
    """Show how much is stored of each owner in each tenant, those with the most bytes first.

    Bytes are those of tasks, logs, artifacts, push configs and saved states; the file needs more room for them. The
    bounds are limits.tasks_per_owner and limits.bytes_per_owner.
    """

    def work(admin: KeptAdmin, _: Settings, _tell: Tell) -> int:
        found = admin.usage(owner, limit)
        if as_json:
            rows = [{"tenant": scope.tenant, "owner": scope.owner, **held._asdict()} for scope, held in found]
            click.echo(json.dumps(rows))
        else:
            for scope, held in found:
                tenant = f" in {printable(scope.tenant)}" if scope.tenant else ""
                click.echo(f"{printable(scope.owner)}{tenant}: {held.tasks} tasks, {held.bytes} bytes")
        return 0

    _use(store, config, work, "a2ad db usage", audit=False)


@db.command()
@click.option("--plain", is_flag=True, help="Decrypt everything. Leave store_keys as it is until this has ended.")
@click.option("--dry-run", is_flag=True, help="Count what would be rewritten, and name the keys in use.")
@STORE
def rekey(*, plain: bool, dry_run: bool, as_json: bool, store: str | None, config: str | None) -> None:
    """Encrypt all content with the first of store_keys.

    To change the key, put the new one behind the first of store_keys and restart all servers, so that each can read it.
    Then put it in front, restart them again, and run this command. Then the old key can be removed. With one server,
    one restart is enough. A store that was not encrypted is encrypted in the same way.

    The command may be ended at any time and run again. It refuses to run beside a server that encrypts with another
    key. A SQLite file that no server uses is also rebuilt, which needs as much space again, so that nothing is left of
    what was overwritten. Stop the server and run the command once more if unencrypted content, or a key that is known
    to others, must leave no trace. In PostgreSQL that takes VACUUM FULL, and backups without it.

    \b
    a2ad db rekey --dry-run
    a2ad db rekey
    """  # noqa: D301 - as above

    def work(settings: Settings) -> None:
        from a2a_server.serve.administration import sealing_admin_of  # noqa: PLC0415 - it takes a while, and --help should not

        if not plain and not settings.store_keys:
            raise click.UsageError("store_keys is empty; set it, or say --plain")
        admin = sealing_admin_of(settings, plain=plain)
        if dry_run:
            return _tell_keys(admin, as_json=as_json)
        count, rebuilt = admin.rekey(_Progress())
        if as_json:
            return click.echo(json.dumps({"rewritten": count, "rebuilt": rebuilt}))
        click.echo(f"rewrote {count} values" + (" and rebuilt the file" if rebuilt else ""))
        if not rebuilt:
            click.echo(_ROWS_REMAIN if settings.store.startswith(POSTGRES) else _REMAINS, err=True)
        return None

    administer(store, config, work)


_REMAINS = """A server uses the file, so it was not rebuilt: unused parts may hold traces of what was overwritten.
Stop the server and run this again to remove them."""

_ROWS_REMAIN = """PostgreSQL removes what was overwritten when it vacuums the tables, and its log and backups keep it.
VACUUM FULL removes it from the tables at once; servers have to wait meanwhile."""


def _tell_keys(admin: SealingAdmin, *, as_json: bool) -> None:
    keys = admin.keys()
    if as_json:
        click.echo(json.dumps({"sealsWith": keys.first, "inUse": [*keys.all], "left": keys.left}))
        return
    names = ", ".join(key or "no key" for key in keys.all) or "nothing"
    click.echo(f"would rewrite {keys.left} values; in use: {names}")


def _remove(  # noqa: PLR0913 - the options
    admin: KeptAdmin, wanted: Chosen | Deadlines, tell: Tell, *, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Count, ask, remove and tell. Returns how many tasks stay because a server works on them."""
    plan: list[tuple[Removed, int]] = []

    def agree(expected: Removed, busy: int) -> bool:
        plan.append((expected, busy))
        if dry_run or not any(expected):
            return False
        if not yes and sys.stdin.isatty():
            click.confirm(f"Remove {_told(expected)} for good?", abort=True, err=True)
        return True

    progress = _Progress()
    try:
        removed = admin.remove(wanted, agree, progress)
    finally:  # what is gone by the time of an error is told, too
        _audit(wanted, progress.removed, tell)
    ((expected, busy),) = plan
    counts = expected if dry_run else removed
    if as_json:
        names = {"context_values": "contextValues"}
        numbers = {names.get(name, name): count for name, count in counts._asdict().items()}
        click.echo(json.dumps({"dryRun": dry_run, **numbers, "busy": busy}))
    else:
        click.echo(f"{'would remove' if dry_run else 'removed'} {_told(counts)}")
        if busy:
            click.echo(
                f"{busy} tasks stay: servers work on them. Cancel them, or stop all servers, and run this again",
                err=True,
            )
    return busy


def _audit(wanted: Chosen | Deadlines, removed: Removed, tell: Tell) -> None:
    if not any(removed):
        return
    event = AuditEvent(AuditKind.DATA_DELETED, times=removed.tasks)
    if isinstance(wanted, Chosen):
        event = event._replace(
            owner=wanted.owner or "",
            tenant=wanted.tenant or "",
            task_id=wanted.task or "",
            context_id=wanted.context or "",
        )
    tell(event)
    if removed.keys:
        tell(event._replace(kind=AuditKind.KEY_REVOKED, times=removed.keys))


class _Progress:
    """Tells about long work, on stderr."""

    def __init__(self) -> None:
        self.removed = Removed()
        self._next = time.monotonic() + _TELL_EVERY

    def __call__(self, done: Removed | int) -> None:
        if isinstance(done, Removed):
            self.removed = done
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _TELL_EVERY
            click.echo(f"… {_told(done) if isinstance(done, Removed) else f'{done} values rewritten'}", err=True)


def _told(counts: Removed) -> str:
    return ", ".join(f"{count} {_WORDS[name]}" for name, count in counts._asdict().items())


def _use(
    store: str | None, config: str | None, do: Callable[[KeptAdmin, Settings, Tell], int], command: str, *, audit: bool
) -> int:
    """Do something with the store. `audit` says whether it changes anything (SECR-01)."""

    def work(settings: Settings) -> int:
        from a2a_server.cli.administration import audited  # noqa: PLC0415 - it takes a while, and --help should not
        from a2a_server.serve.administration import kept_admin_of  # noqa: PLC0415 - as above

        admin = kept_admin_of(settings)
        with audited(settings, command) if audit else nullcontext(_no_audit) as tell:
            return do(admin, settings, tell)

    return administer(store, config, work)


def _no_audit(_: AuditEvent) -> None:
    """Nothing has changed."""
