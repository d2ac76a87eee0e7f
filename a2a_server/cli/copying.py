"""`a2ad db copy`: move a store to another database (spec: OPER-04)."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Self

import click

from a2a_server.cli.administration import administer
from a2a_server.cli.configuration import CONFIG
from a2a_server.settings import Settings

if TYPE_CHECKING:
    from a2a_server.ports.copying import CopyProgress

_OFTEN, _SELDOM = 0.2, 5.0
"""Seconds between two lines, on a terminal and elsewhere."""


def _url(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    from a2a_server.settings.model import POSTGRES, SQLITE  # noqa: PLC0415 - --help should not wait for it

    if value is not None and not value.startswith((SQLITE, POSTGRES)):
        raise click.BadParameter("must be sqlite:///PATH or postgresql://USER@HOST/DATABASE")
    return value


@click.command(name="copy")
@click.option(
    "--from", "source", metavar="URL", callback=_url, help="The store to copy.  [default: as in the settings]"
)
@click.option(
    "--to", "target", metavar="URL", callback=_url, required=True, help="Where to: a store with nothing in it."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@CONFIG
def copy(*, source: str | None, target: str, as_json: bool, config: str | None) -> None:
    """Copy everything in a store into an empty one, such as a SQLite file into PostgreSQL.

    Tasks keep their ids, logs, artifacts and states; push configs, undelivered webhooks, receipts and API keys go with
    them. Encrypted content is copied as it is, and needs the same store_keys. No server may use either store. The
    target gets all or nothing: if the copy ends early, run it again. In the end everything is read again and compared.

    \b
    a2ad db copy --from sqlite:///a2a.db --to postgresql://a2ad@db/a2ad
    """  # noqa: D301 - click wants the character

    def work(settings: Settings) -> None:
        from a2a_server.serve.administration import copy_store  # noqa: PLC0415 - as above

        if (source or settings.store) == target:
            raise click.UsageError("--to names the store that is to be copied; name another one")
        begun = time.monotonic()
        with _Meter() as meter:
            rows = copy_store(settings, source or settings.store, target, meter)
        seconds = time.monotonic() - begun
        if as_json:
            return click.echo(json.dumps({"rows": rows, "seconds": round(seconds, 1)}))
        return click.echo(
            f"copied and compared {sum(rows.values()):,} rows, among them {rows['tasks']:,} tasks, in {seconds:.0f} s"
        )

    administer(source, config, work)


class _Meter:
    """Tells on stderr how far it is: in one line on a terminal, in lines elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._pause = _OFTEN if self._live else _SELDOM
        self._next = time.monotonic() + self._pause
        self._comparing = False
        self._begun = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown and self._live:
            click.echo(err=True)

    def __call__(self, at: CopyProgress) -> None:
        now = time.monotonic()
        if at.comparing and not self._comparing:
            self._comparing, self._begun = True, now
        if now < self._next:
            return
        self._next, self._shown = now + self._pause, True
        share = 100 * at.rows // max(at.all, 1)
        rate = at.rows / max(now - self._begun, 0.001)
        what = "compared" if at.comparing else "copied"
        text = f"{what} {share} %, {at.rows:,} of {at.all:,} rows, {rate:,.0f} rows/s, {at.kind}"
        click.echo(f"\r{text:79}" if self._live else text, nl=not self._live, err=True)
