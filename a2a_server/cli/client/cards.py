"""`a2ad card get`, `a2ad conformance`: what an agent says, and whether it is so (spec: CLI-16, -52, -64, -67, -68)."""

from __future__ import annotations

import click

from a2a_server.cli.client.command import COMMON, ClientCommand, ClientGroup, settings
from a2a_server.cli.client.failures import usage
from a2a_server.cli.client.sources import GivenSettings, given
from a2a_server.cli.command_line import main


class CardGroup(ClientGroup):
    homes = {  # noqa: RUF012 - as in the class above
        "get": (__name__, "Show the card of an agent."),
        "verify": ("a2a_server.cli.card", "Verify the signatures of an agent card."),
    }


@main.group(cls=CardGroup, context_settings={"help_option_names": ["-h", "--help"]})
def card() -> None:
    """Look at agent cards."""


@card.command(cls=ClientCommand)
@click.argument("ref", required=False)
@click.option("--validate", is_flag=True, help="Check the card against the schema of A2A.")
@click.option("--extended", is_flag=True, help="Ask the agent for its extended card, with your credentials.")
@settings(*COMMON)
def get(told: GivenSettings, ref: str | None, *, validate: bool, extended: bool) -> None:
    """Show the card of an agent.

    REF is a host or an origin, the URL of a card, or a file; it may also be given by --agent-card. The signatures of
    the card are checked: verified, unverifiable or absent is the result, which --output json puts on stderr.

    \b
    a2ad card get https://agents.example
    a2ad card get https://agents.example --validate --output json
    """  # noqa: D301 - click wants the character
    from a2a_server.cli.client.card_calls import show_card  # noqa: PLC0415 - --help should not wait for it

    if ref and told.by_flag("agent-card"):
        raise usage("the agent is named twice; give either REF or --agent-card")
    if ref:
        flags = {name: it.text for name, it in told.origins.items() if it.rank == 0}
        told = given({**flags, "agent-card": ref}, told.config)
    show_card(told, validate=validate, extended=extended)


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
