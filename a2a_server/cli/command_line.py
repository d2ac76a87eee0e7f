"""The root of `a2ad`: which commands there are, and where they are defined, without importing them (spec: CLI-05)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

import click

from a2a_server.cli.client.command import ClientGroup, version_option

_SERVER: Final = "a2a_server.cli.commands"
_CLIENT: Final = "a2a_server.cli.client."

HOMES: Final[Mapping[str, tuple[str, str]]] = {
    "auth": (f"{_CLIENT}login", "Log in to agents."),
    "card": (f"{_CLIENT}cards", "Look at agent cards."),
    "chat": (f"{_CLIENT}send", "Talk with an agent, turn after turn."),
    "completion": (f"{_CLIENT}own", "Print a completion script for a shell: bash, zsh or fish."),
    "config": (_SERVER, "Print the settings in effect."),
    "conformance": (
        f"{_CLIENT}cards",
        "Check a live agent from outside: its card, and what its interfaces answer.",
    ),
    "db": (
        _SERVER,
        "Look after the store: its schema, what is in it, the keys that it is encrypted with, and its place.",
    ),
    "gateway": (_SERVER, "Serve REST, JSON-RPC and SSE for a gRPC server."),
    "health": (_SERVER, "Check whether a server or gateway is ready."),
    "help": (f"{_CLIENT}own", "Print how a command is used."),
    "init": (_SERVER, "Make a small project in the folder NAME."),
    "keys": (_SERVER, "Make, list and revoke API keys in the store."),
    "push": (_SERVER, "List, retry or drop webhooks that have not been delivered."),
    "send": (f"{_CLIENT}send", "Send a message to an agent, and wait for the outcome."),
    "serve": (_SERVER, "Serve an agent, or several, until SIGTERM or Ctrl-C."),
    "task": (f"{_CLIENT}tasks", "Look at an agent's tasks, and act on them."),
    "token": (_SERVER, "Make tokens and API keys."),
}
"""Each command's module, which adds it to `main`, and the line that `--help` shows."""


class CommandLine(ClientGroup):
    """Every command that is not known must be one of the server's."""

    homes = HOMES

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.homes:
            import_module(_SERVER)
        return super().get_command(ctx, cmd_name)


@click.group(cls=CommandLine, context_settings={"help_option_names": ["-h", "--help"]})
@version_option
def main() -> None:
    """Serve A2A agents over gRPC, REST, JSON-RPC and SSE, and talk to agents.

    Every setting of the server has a name, such as limits.running_turns. A flag overrides an environment variable
    (A2A_LIMITS__RUNNING_TURNS), which overrides the settings file. `a2ad config --example` lists all settings.

    The commands that talk to agents are auth, card, chat, conformance, send and task. Their options are flags,
    variables such as A2ACLI_AGENT_CARD, or lines of .env files. `a2ad config show` prints them.
    """
