"""Commands about the tool itself: `help`, `completion` and `config show` (spec: CLI-05, CLI-61, CLI-65)."""

from __future__ import annotations

from collections.abc import Sequence

import click
from click.shell_completion import get_completion_class

from a2a_server.cli.client.command import ClientCommand, settings
from a2a_server.cli.client.failures import usage
from a2a_server.cli.client.settings import SOURCES, masked
from a2a_server.cli.client.sources import BUILT_IN, GivenSettings
from a2a_server.cli.command_line import main


@main.command("help", cls=ClientCommand)
@click.argument("command", nargs=-1)
@settings("output")
def help_(told: GivenSettings, command: Sequence[str]) -> None:  # noqa: ARG001 - every command has settings
    """Print how a command is used.

    \b
    a2ad help send
    a2ad help task get
    """  # noqa: D301 - click wants the character
    context = click.Context(main, info_name="a2ad")
    for word in command:
        group = context.command
        found = group.get_command(context, word) if isinstance(group, click.Group) else None
        if found is None:
            raise usage(f"there is no command {' '.join(command)!r}", "See: a2ad help")
        context = click.Context(found, parent=context, info_name=word)
    click.echo(context.get_help())


@main.command(cls=ClientCommand)
@click.argument("shell", metavar="SHELL")
@settings("output")
def completion(told: GivenSettings, shell: str) -> None:  # noqa: ARG001 - every command has settings
    """Print a completion script for a shell: bash, zsh or fish.

    \b
    source <(a2ad completion bash)
    """  # noqa: D301 - click wants the character
    found = get_completion_class(shell)
    if found is None:
        raise usage(f"there is no completion for {shell!r}", "The shells are bash, zsh and fish.")
    click.echo(found(main, {}, "a2ad", "_A2AD_COMPLETE").source())


@click.command(cls=ClientCommand)
@settings(*(name for name, source in SOURCES.items() if not source.variable_only))
def show(told: GivenSettings) -> None:
    """Print each setting of the client that is in effect, with its source; change nothing.

    The commands that talk to agents read them: send, task, card, auth, chat and conformance. Secrets are masked.
    """
    from a2a_server.cli.client.logins import logins_file, stored_logins  # noqa: PLC0415 - --help should not wait for it
    from a2a_server.cli.client.output import tell, write_json  # noqa: PLC0415 - as above
    from a2a_server.cli.client.plain_text import one_line  # noqa: PLC0415 - as above

    rows = {}
    for name, source in SOURCES.items():
        it = told.origins.get(name)
        rows[name] = (masked(name, it.text), it.source) if it else (source.built_in, BUILT_IN)
    rows |= {f"login {card}": ("***", f"file {logins_file()}") for card in stored_logins()}
    for warning in told.warnings:
        tell(f"Warning: {warning}")
    if told.values.output == "json":
        write_json({name: {"value": value, "source": origin} for name, (value, origin) in rows.items()})
        return
    for name, (value, origin) in rows.items():
        click.echo(f"{one_line(name)}: {one_line(value)} ({one_line(origin)})")
