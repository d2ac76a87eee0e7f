"""`a2ad push`: what is owed to webhooks, and what to do about those that fail (spec: PAID-03, OPER-04)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from a2a_server.cli.administration import STORE, administer, audited, printable, utc
from a2a_server.cli.configuration import options
from a2a_server.ports.push import ConfigFilter, ConfigStatus, PushAdmin
from a2a_server.settings import Settings

T = TypeVar("T")

_MOST = 1_000


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def push() -> None:
    """List, retry or drop webhooks that have not been delivered.

    These commands work on the store of the settings in effect, whether or not a server is using it. A running
    server notices changes within a second.

    A config is parked, and delivery to it stops, when too many attempts have failed (push.give_up_after), when attempts
    have failed for too long (push.give_up_age), or when the receiver answers that it is gone. Events of its task are
    still kept for it. To resume, run `a2ad push retry`, or let the client create the config again.

    A webhook is skipped when its receiver has answered 400, 405, 415 or 422 to it three times. It stays skipped.
    """


_COMMON = options(
    click.option("--task", "task_id", metavar="ID", default="", help="Only configs of this task."),
    click.option("--config-id", metavar="ID", default="", help="Only this config of the task."),
    click.option("--parked", is_flag=True, help="Only parked configs."),
    STORE,
)
_ALL = click.option("--all", "everything", is_flag=True, help="All configs with undelivered webhooks.")


@push.command("list")
@_COMMON
@click.option("--limit", type=click.IntRange(1), default=_MOST, show_default=True, help="The most configs to show.")
def list_(*, as_json: bool, store: str | None, config: str | None, limit: int, **wanted: Any) -> None:  # noqa: ANN401
    """List configs with undelivered webhooks.

    Parked configs are listed too. With --task, all configs of the task are.

    \b
    a2ad push list --parked
    a2ad push list --task 0199a2f0-… --json
    """  # noqa: D301 - click wants the character
    meant = _which(**wanted)
    found = _with(store, config, lambda books: books.status(meant, limit))
    if as_json:
        click.echo(json.dumps({"configs": [_told(account) for account in found]}, indent=2, ensure_ascii=False))
        return
    for account in found:
        click.echo(f"{printable(account.task_id)} {printable(account.config_id)} {printable(account.url)}")
        made = f"delivered {account.delivered}, skipped {account.skipped}, failed attempts {account.failed}"
        click.echo(f"    {_state(account)}; owed {account.pending}, {made}")
    parked = sum(account.parked_ms is not None for account in found)
    more = f"; there may be more than the {limit} shown" if len(found) == limit else ""
    click.echo(
        f"{len(found)} configs, {parked} parked; {sum(account.pending for account in found)} webhooks owed{more}"
    )


@push.command()
@_COMMON
@_ALL
def retry(*, as_json: bool, store: str | None, config: str | None, everything: bool, **wanted: Any) -> None:  # noqa: ANN401
    """Retry failed webhooks at once.

    Their failed attempts are forgotten, so that a parked config gets as many attempts as a new one.

    \b
    a2ad push retry --parked
    a2ad push retry --task 0199a2f0-… --config-id mine
    """  # noqa: D301 - as above
    meant = _meant(everything=everything, **wanted)
    count = _change(store, config, meant, lambda books: books.retry(meant), "a2ad push retry")
    click.echo(json.dumps({"retried": count}) if as_json else f"{count} configs will be tried again")


@push.command()
@_COMMON
@_ALL
def drop(*, as_json: bool, store: str | None, config: str | None, everything: bool, **wanted: Any) -> None:  # noqa: ANN401
    """Drop undelivered webhooks.

    They will never be sent. The configs stay, and receive what happens from now on.

    \b
    a2ad push drop --parked
    a2ad push drop --task 0199a2f0-…
    """  # noqa: D301 - as above
    meant = _meant(everything=everything, **wanted)
    count = _change(store, config, meant, lambda books: books.drop(meant), "a2ad push drop")
    click.echo(json.dumps({"dropped": count}) if as_json else f"{count} webhooks were dropped")


def _which(*, task_id: str, config_id: str, parked: bool) -> ConfigFilter:
    if config_id and not task_id:
        raise click.UsageError("--config-id needs --task: different tasks may have configs with the same id")
    return ConfigFilter(task_id, config_id, parked)


def _meant(*, everything: bool, **wanted: Any) -> ConfigFilter:  # noqa: ANN401 - the options
    """What is to be changed must be said."""
    found = _which(**wanted)
    if (found != ConfigFilter()) == everything:
        raise click.UsageError("choose the configs: --task ID, --parked or --all")
    return found


def _with(store: str | None, config: str | None, do: Callable[[PushAdmin], T]) -> T:
    def work(settings: Settings) -> T:
        from a2a_server.serve.administration import push_admin_of  # noqa: PLC0415 - it takes a while, and --help should not

        return do(push_admin_of(settings))

    return administer(store, config, work)


def _change(
    store: str | None, config: str | None, meant: ConfigFilter, do: Callable[[PushAdmin], int], command: str
) -> int:
    """Change something, and tell the audit (SECR-01)."""

    def work(settings: Settings) -> int:
        from a2a_server.ports.journal import AuditEvent, AuditKind  # noqa: PLC0415 - as above
        from a2a_server.serve.administration import push_admin_of  # noqa: PLC0415 - as above

        with audited(settings, command) as tell:
            count = do(push_admin_of(settings))
            tell(AuditEvent(AuditKind.COMMAND_RUN, task_id=meant.task_id, config_id=meant.config_id, times=count))
            return count

    return administer(store, config, work)


def _told(account: ConfigStatus) -> dict[str, object]:
    """Every field of an account, for programs."""
    return {
        "taskId": account.task_id,
        "configId": account.config_id,
        "tenant": account.scope.tenant,
        "owner": account.scope.owner,
        "url": account.url,
        "version": account.version,
        "owed": account.pending,
        "nextEvent": account.next_number,
        "delivered": account.delivered,
        "skipped": account.skipped,
        "failed": account.failed,
        "attempts": account.attempts,
        "underWay": account.claimed,
        "dueAt": utc(account.due_ms),
        "failingSince": utc(account.failing_ms),
        "parkedSince": utc(account.parked_ms),
        "why": account.why,
    }


def _state(account: ConfigStatus) -> str:
    why = f" ({account.why})" if account.why else ""
    if account.parked_ms is not None:
        return f"parked since {utc(account.parked_ms)} after {account.attempts} attempts{why}"
    if account.claimed:
        return f"attempt {account.attempts + 1} at event {account.next_number} under way{why}"
    if account.due_ms is None:
        return "nothing owed"
    when = f" at {utc(account.due_ms)}" if account.attempts else ""
    return f"attempt {account.attempts + 1} at event {account.next_number} due{when}{why}"
