"""`a2ad send` and `a2ad chat`: one message or many, and what comes of them (spec: CLI-10 to -14, -17 to -24, -74)."""

from __future__ import annotations

from collections.abc import Sequence

import click

from a2a_server.cli.client.command import COMMON, ClientCommand, PartFlag, part_options, settings
from a2a_server.cli.client.failures import usage
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


@main.command(cls=ClientCommand)
@click.argument("words", nargs=-1, metavar="[TEXT]...")
@settings(*COMMON, "task-id", "context-id", "metadata", "poll-interval")
def chat(told: GivenSettings, words: Sequence[str]) -> None:
    """Talk with an agent, turn after turn.

    The conversation keeps its context. Questions of the agent are answered inline; Ctrl-C offers to cancel the running
    task, Ctrl-D ends the conversation. Without a terminal, TEXT is sent as by `a2ad send`.

    \b
    a2ad chat --agent-card https://agents.example
    """  # noqa: D301 - click wants the character
    from a2a_server.cli.client import sending  # noqa: PLC0415 - --help should not wait for it
    from a2a_server.cli.client.connected_agent import on_terminal, run  # noqa: PLC0415 - as above
    from a2a_server.cli.client.conversation import converse  # noqa: PLC0415 - as above
    from a2a_server.cli.client.parts import message_of  # noqa: PLC0415 - as above

    if not on_terminal() or told.values.output == "json":
        if not words:
            raise usage("chat needs a terminal, or a text to send", 'Try: a2ad send "<text>"')
        sending.send_message(told, words, ())
        return
    request = sending.request_of(told.values, message_of(words, (), told.values)) if words else None
    run(told, lambda agent: converse(agent, request, goes_on=True))
