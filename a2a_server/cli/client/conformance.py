"""`a2ad conformance`: a quick check of a live agent (spec: CLI-64; OP-12)."""

from __future__ import annotations

import click

from a2a_server.cli.client.command import COMMON, ClientCommand, settings
from a2a_server.cli.client.sources import GivenSettings
from a2a_server.cli.command_line import main


@main.command(cls=ClientCommand)
@click.option("--read-only", is_flag=True, help="Send no message.")
@click.option("--tck", default="", metavar="PATH", help="Also run the A2A TCK that is installed in this folder.")
@settings(*COMMON)
def conformance(told: GivenSettings, *, read_only: bool, tck: str) -> None:
    """Check a live agent from outside: its card, and what its interfaces answer.

    Sends the message "hello" through each interface, unless --read-only says otherwise. It checks what can be seen of
    any agent; the A2A TCK checks more, with an agent that plays along. Whatever is found, the exit code is 0.

    \b
    a2ad conformance --agent-card https://agents.example
    a2ad conformance --agent-card https://agents.example --tck ~/src/a2a-tck --output json
    """  # noqa: D301 - click wants the character
    from a2a_server.cli.client.agent_checks import check_agent  # noqa: PLC0415 - --help should not wait for it

    check_agent(told, read_only=read_only, tck=tck)
