"""`a2ad auth login`: gets a token from the agent's authorization server, and keeps it (spec: CLI-56; OP-11)."""

from __future__ import annotations

import asyncio

import click

from a2a_server.cli.client.command import COMMON, ClientCommand, ClientGroup, settings
from a2a_server.cli.client.failures import CREDENTIALS_MISSING, CommandFailure, usage
from a2a_server.cli.client.sources import GivenSettings
from a2a_server.cli.command_line import main


@main.group(cls=ClientGroup)
def auth() -> None:
    """Log in to agents."""


@auth.command(cls=ClientCommand)
@click.option(
    "--flow", default="", metavar="FLOW", help="device-code or client-credentials.  [default: the first that works]"
)
@click.option("--scope", default="", metavar="NAMES", help="The scopes to ask for, separated by spaces.")
@settings(*COMMON, "client-id", "client-secret")
def login(told: GivenSettings, flow: str, scope: str) -> None:
    """Log in to an agent, and keep the token for later calls.

    With a device code you confirm in a browser, on any device. With client credentials nobody is asked: the secret
    comes from $A2ACLI_CLIENT_SECRET. The token is kept in ~/.config/a2a-cli/logins.json, which only you can read.

    \b
    a2ad auth login --agent-card https://agents.example --client-id my-tool
    """  # noqa: D301 - click wants the character
    if flow not in {"", "device-code", "client-credentials"}:
        raise usage(f"--flow must be device-code or client-credentials, not {flow!r}")
    if not told.values.client_id:
        raise usage("no client id is given", "Name it with --client-id, or in $A2ACLI_CLIENT_ID.")
    asyncio.run(_login(told, flow, scope))


async def _login(told: GivenSettings, flow: str, scope: str) -> None:
    from a2a_server.cli.client.connected_agent import calling, find_card  # noqa: PLC0415
    from a2a_server.cli.client.logins import store_login  # noqa: PLC0415 - --help should not wait for them
    from a2a_server.cli.client.oauth import by_device_code, endpoints, token_of  # noqa: PLC0415
    from a2a_server.cli.client.output import tell, write_json  # noqa: PLC0415

    values = told.values
    async with calling(told):
        found = await find_card(told)
        wanted = flow or ("client-credentials" if values.client_secret else "")
        at = await endpoints(found.card, wanted, insecure=values.insecure)
        if at.flow == "device-code":
            granted = await by_device_code(at, values.client_id, scope, insecure=values.insecure)
        elif values.client_secret:
            form = {"grant_type": "client_credentials", "client_id": values.client_id} | (
                {"scope": scope} if scope else {}
            )
            form["client_secret"] = values.client_secret
            granted = await token_of(at.token_url, form, insecure=values.insecure)
        else:
            raise CommandFailure(CREDENTIALS_MISSING, "there is no secret", hint="Set A2ACLI_CLIENT_SECRET.")
    kept = granted.login(at.scheme, at.token_url, values.client_id)
    store_login(found.url or values.agent_card, kept)
    if values.output == "json":
        write_json({"scheme": at.scheme, "flow": at.flow, "expiresIn": granted.expires_in or None})
    else:
        click.echo(f"Scheme: {at.scheme}\nFlow: {at.flow}\nExpires in: {granted.expires_in:g} s")
    tell("The token is stored, and goes with later calls to this agent")
