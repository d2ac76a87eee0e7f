"""`a2ad chat`: a conversation with an agent (spec: CLI-02, CLI-74)."""

from __future__ import annotations

from collections.abc import Sequence

import click

from a2a_server.cli.client.command import COMMON, ClientCommand, settings
from a2a_server.cli.client.failures import usage
from a2a_server.cli.client.sources import GivenSettings
from a2a_server.cli.command_line import main


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
