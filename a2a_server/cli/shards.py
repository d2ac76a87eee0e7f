"""`a2ad db shards`: show which database has what, and move slots while servers run (spec: SCAL-05)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from a2a_server.cli.administration import STORE, administer
from a2a_server.domain.slots import SLOTS, SlotMove, evenly, slots_in, slots_text
from a2a_server.ports.shards import Load, ShardAdmin, ShardLoad

if TYPE_CHECKING:
    from a2a_server.settings import Settings


def _slots(_context: click.Context, _argument: click.Parameter, value: str) -> frozenset[int]:
    try:
        return slots_in(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def shards() -> None:
    """Show which database of [[postgresql.shards]] has what, and move slots while servers use them."""


@shards.command()
@click.option(
    "--give", "given", metavar="NAME=SLOTS", multiple=True, help="Show what this would move, not an even spread."
)
@STORE
def plan(*, given: Sequence[str], as_json: bool, store: str | None, config: str | None) -> None:
    """Show what is where, and which moves would spread it evenly. Nothing is changed.

    \b
    a2ad db shards plan
    a2ad db shards plan --give b=2048-4095
    """  # noqa: D301 - click wants the character

    def work(admin: ShardAdmin, settings: Settings) -> None:
        found = admin.look()
        names = [shard.name for shard in found]
        moves = _given(found, dict(_gift(settings, text) for text in given)) if given else _even(found)
        if as_json:
            click.echo(json.dumps(_plan_json(found, moves)))
            return
        for line in _table(found):
            click.echo(line)
        if moves:
            click.echo("\nthese moves would " + ("do that:" if given else "spread it evenly:"))
        else:
            click.echo("\nnothing is to move" if given else f"\nit is spread evenly over {', '.join(names)}")
        by_name = {shard.name: shard for shard in found}
        for one in moves:
            load = by_name[one.source].load_of(one.slots)
            what = f"{len(one.slots)} slots, {load.tasks} tasks, {_size(load.bytes)} from {one.source}"
            click.echo(f"  a2ad db shards move {slots_text(one.slots)} --to {one.target}  # {what}")

    _use(store, config, work)


@shards.command()
@click.argument("slots", callback=_slots)
@click.option("--to", metavar="NAME", required=True, help="The database: its name or DSN in [[postgresql.shards]].")
@click.option("--dry-run", is_flag=True, help="Show what would move, and move nothing.")
@STORE
def move(  # noqa: PLR0913 - the options
    *, slots: frozenset[int], to: str, dry_run: bool, as_json: bool, store: str | None, config: str | None
) -> None:
    """Move SLOTS, such as 0-511,600, to another database, from wherever they are.

    Servers go on working. Calls for a few slots at a time wait for a moment, when these change their database. A
    command that was killed can be run again; it first ends what was left. `a2ad db shards undo` does only that.

    \b
    a2ad db shards move 2048-4095 --to b
    """  # noqa: D301 - as above

    def work(admin: ShardAdmin, settings: Settings) -> None:
        name = _name(settings, to)
        if dry_run:
            counts = [(shard, shard.slots & slots) for shard in admin.look() if shard.name != name]
            total = Load()
            for shard, some in counts:
                total = total.plus(shard.load_of(some))
            count = sum(len(some) for _, some in counts)
            told = f"would move {count} slots with {total.tasks} tasks, {_size(total.bytes)}, to {name}"
        else:
            count, total = admin.move(slots, name, _tell), None
            told = f"moved {count} slots to {name}"
        tasks = {} if total is None else total._asdict()
        click.echo(json.dumps({"dryRun": dry_run, "to": name, "slots": count, **tasks}) if as_json else told)

    _use(store, config, work)


@shards.command()
@STORE
def undo(*, as_json: bool, store: str | None, config: str | None) -> None:
    """End what a killed `move` has left: slots that have arrived stay, and others are open again where they were."""

    def work(admin: ShardAdmin, _: Settings) -> None:
        lines: list[str] = []
        admin.settle(lines.append)
        if as_json:
            click.echo(json.dumps({"settled": lines}))
        else:
            click.echo("\n".join(lines) or "no move was cut short")

    _use(store, config, work)


def _use(store: str | None, config: str | None, do: Callable[[ShardAdmin, Settings], None]) -> None:
    def work(settings: Settings) -> None:
        from a2a_server.serve.administration import shard_admin_of  # noqa: PLC0415 - it takes a while, and --help should not

        do(shard_admin_of(settings), settings)

    administer(store, config, work)


def _tell(line: str) -> None:
    click.echo(f"… {line}", err=True)


def _name(settings: Settings, text: str) -> str:
    for shard in settings.postgresql.shards:
        if text in {shard.name, shard.dsn}:
            return shard.name
    names = ", ".join(shard.name for shard in settings.postgresql.shards)
    raise click.UsageError(f"{text!r} is no database of [[postgresql.shards]]; there are {names}")


def _gift(settings: Settings, text: str) -> tuple[str, frozenset[int]]:
    name, _, slots = text.partition("=")
    try:
        return _name(settings, name), slots_in(slots)
    except ValueError as error:
        raise click.UsageError(f"--give {text}: {error}") from None


def _given(found: Sequence[ShardLoad], gifts: Mapping[str, frozenset[int]]) -> Sequence[SlotMove]:
    moves = [
        SlotMove(shard.slots & slots, shard.name, name)
        for name, slots in gifts.items()
        for shard in found
        if shard.name != name
    ]
    return [one for one in moves if one.slots]


def _even(found: Sequence[ShardLoad]) -> Sequence[SlotMove]:
    """Spread bytes. Slots without any count a little, too: somebody may fill them."""
    total = sum(shard.load_of(shard.slots).bytes for shard in found)
    least = max(1, total // SLOTS // 10)
    return evenly(
        {shard.name: {slot: least + shard.loads.get(slot, Load()).bytes for slot in shard.slots} for shard in found}
    )


def _table(found: Sequence[ShardLoad]) -> Sequence[str]:
    lines = [f"{'database':<16}{'slots':>6}{'tasks':>14}{'data':>12}{'on disk':>12}  which"]
    for shard in found:
        load = shard.load_of(shard.slots)
        row = (
            f"{shard.name:<16}{len(shard.slots):>6}{load.tasks:>14}{_size(load.bytes):>12}{_size(shard.disk_bytes):>12}"
        )
        lines.append(f"{row}  {slots_text(shard.slots) or '-'}")
        if shard.moving:
            lines.append(f"{'':<16}slots {slots_text(shard.moving)} move from or to here")
    return lines


def _plan_json(found: Sequence[ShardLoad], moves: Sequence[SlotMove]) -> Mapping[str, object]:
    return {
        "databases": [
            {
                "name": shard.name,
                "slots": slots_text(shard.slots),
                **shard.load_of(shard.slots)._asdict(),
                "diskBytes": shard.disk_bytes,
                "moving": slots_text(shard.moving),
            }
            for shard in found
        ],
        "moves": [{"slots": slots_text(one.slots), "from": one.source, "to": one.target} for one in moves],
    }


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:  # noqa: PLR2004 - of the next smaller unit
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
