"""What all commands share that work on a store, which a server may be using as well (spec: OPER-04)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import click

from a2a_server.cli.configuration import CONFIG, Unusable, options, settings_from
from a2a_server.settings import Settings

if TYPE_CHECKING:  # the same
    from a2a_server.ports.journal import AuditEvent

T = TypeVar("T")

STORE = options(
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option("--store", metavar="URL", help="The store, such as sqlite:///PATH.  [default: as in the settings]"),
    CONFIG,
)


def administer(store: str | None, config: str | None, work: Callable[[Settings], T]) -> T:
    """Do the work with the settings in effect. What the store refuses becomes an error of the command."""
    told = {"store": store, "anonymous_beyond_loopback": True}  # these commands open no door
    settings = settings_from(told, config).settings
    from a2a_server.ports.store import (  # noqa: PLC0415 - --help should not wait for it
        StoreDamaged,
        StoreRefused,
        StoreUnavailable,
    )
    from a2a_server.serve.parts import UnusableKeys  # noqa: PLC0415 - as above

    try:
        return work(settings)
    except UnusableKeys as error:
        raise Unusable(str(error)) from None
    except (StoreDamaged, StoreRefused, StoreUnavailable) as error:
        raise click.ClickException(printable(str(error))) from None


@contextmanager
def audited(settings: Settings, command: str) -> Iterator[Callable[[AuditEvent], None]]:
    """Yield a function that tells the audit of a change that the command has made."""
    from a2a_server.cli.log_output import configure  # noqa: PLC0415 - as above
    from a2a_server.serve.journal import auditing_command  # noqa: PLC0415 - as above
    from a2a_server.transport.address import StartError  # noqa: PLC0415 - as above

    configure(settings.log)
    try:
        with auditing_command(settings.audit, command) as tell:
            yield tell
    except StartError as error:
        raise click.ClickException(str(error)) from None


def printable(text: str) -> str:
    """Replace control characters: names, ids and cards come from others, and must not move the cursor."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def utc(ms: int | None) -> str | None:
    if ms is None:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
