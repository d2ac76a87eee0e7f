"""`a2ad push`: what is owed to webhooks, and what to do about those that fail (spec: PAID-03, OPER-04)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from a2a_server.cli.configuration import CONFIG, options, settings_from
from a2a_server.ports.push import ConfigFilter, ConfigStatus, PushAdmin

T = TypeVar("T")

_MOST = 1_000


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def push() -> None:
    """List, retry or drop webhooks that have not been delivered.

    These commands work on the SQLite file of the settings in effect, whether or not a server is using it. A running
    server notices changes within a second.

    A config is parked, and delivery to it stops, when too many attempts have failed (push.give_up_after), when attempts
    have failed for too long (push.give_up_age), or when the receiver answers that it is gone. Events of its task are
    still kept for it. To resume, run `a2ad push retry`, or let the client create the config again.
    """


_COMMON = options(
    click.option("--task", "task_id", metavar="ID", default="", help="Only configs of this task."),
    click.option("--config-id", metavar="ID", default="", help="Only this config of the task."),
    click.option("--parked", is_flag=True, help="Only parked configs."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option("--store", metavar="URL", help="The store, sqlite:///PATH.  [default: as in the settings]"),
    CONFIG,
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
        click.echo(f"{_shown(account.task_id)} {_shown(account.config_id)} {_shown(account.url)}")
        owed = f"owed {account.pending}, delivered {account.delivered}, failed attempts {account.failed}"
        click.echo(f"    {_state(account)}; {owed}")
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
    count = _with(store, config, lambda books: books.retry(meant))
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
    count = _with(store, config, lambda books: books.drop(meant))
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
    told = {"store": store, "anonymous_beyond_loopback": True}  # whom to let in matters to who opens a door
    settings = settings_from(told, config).settings
    from a2a_server.ports.store import StoreRefused, StoreUnavailable  # noqa: PLC0415 - as above
    from a2a_server.serve.parts import push_admin_of  # noqa: PLC0415 - it takes a while, and --help should not

    try:
        return do(push_admin_of(settings))
    except (StoreRefused, StoreUnavailable) as error:
        raise click.ClickException(str(error)) from None


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
        "failed": account.failed,
        "attempts": account.attempts,
        "underWay": account.claimed,
        "dueAt": _time(account.due_ms),
        "failingSince": _time(account.failing_ms),
        "parkedSince": _time(account.parked_ms),
        "why": account.why,
    }


def _state(account: ConfigStatus) -> str:
    why = f" ({account.why})" if account.why else ""
    if account.parked_ms is not None:
        return f"parked since {_time(account.parked_ms)} after {account.attempts} attempts{why}"
    if account.claimed:
        return f"attempt {account.attempts + 1} at event {account.next_number} under way{why}"
    if account.due_ms is None:
        return "nothing owed"
    when = f" at {_time(account.due_ms)}" if account.attempts else ""
    return f"attempt {account.attempts + 1} at event {account.next_number} due{when}{why}"


def _shown(text: str) -> str:
    """Ids are the clients' words: they must not move the cursor."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _time(ms: int | None) -> str | None:
    if ms is None:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
