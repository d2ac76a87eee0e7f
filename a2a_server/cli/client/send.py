"""`a2ad send`: a message to an agent, and its outcome (spec: CLI-10 to CLI-14, CLI-17 to CLI-24)."""

from __future__ import annotations

from collections.abc import Sequence

import click

from a2a_server.cli.client.command import COMMON, ClientCommand, PartFlag, part_options, settings
from a2a_server.cli.client.sources import GivenSettings
from a2a_server.cli.command_line import main


@main.command(cls=ClientCommand)
@click.argument("words", nargs=-1, metavar="[TEXT]...")
@part_options
@settings(*COMMON, "task-id", "context-id", "metadata", "wait", "async", "poll-interval", "interactive")
def send(told: GivenSettings, words: Sequence[str], parts: Sequence[PartFlag]) -> None:
    """Send a message to an agent, and wait for the outcome.

    The wait ends when the task is finished, or needs an answer or an authorization of yours. The parts of the message
    keep the order of the flags; TEXT is the first.

    \b
    a2ad send --agent-card https://agents.example "What is on today?"
    a2ad send --text "Compare these" --file a.pdf --file https://files.example/b.pdf
    a2ad send --task-id 4fe1 "Yes, please" --output json
    """  # noqa: D301 - click wants the character
    from a2a_server.cli.client.sending import send_message  # noqa: PLC0415 - --help should not wait for it

    send_message(told, words, parts)
