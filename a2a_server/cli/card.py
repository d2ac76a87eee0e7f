"""`a2ad card verify`: checks the signatures of an agent card (spec: SIGN-04, SIGN-06, CLI-68)."""

from __future__ import annotations

import json
from dataclasses import asdict
from urllib.parse import urlsplit

import click

from a2a_server.cli.administration import printable
from a2a_server.cli.client.cards import card


def _web_address(_context: click.Context, _option: click.Parameter, url: str) -> str:
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:  # reading the port checks it
            return url
    except ValueError:
        pass
    raise click.BadParameter("must be a URL such as https://agents.example")


@card.command()
@click.argument("url", callback=_web_address)
@click.option(
    "--jwks", metavar="URL|FILE", default="", help="The key set to trust, instead of those that the signatures name."
)
@click.option(
    "--a2a-version",
    metavar="VERSION",
    default="1.0",
    show_default=True,
    help="The version of the card to ask for; none = whatever is served to those who ask for none.",
)
@click.option("--timeout", default=10.0, show_default=True, type=click.FloatRange(0, min_open=True), help="In seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(*, url: str, jwks: str, a2a_version: str, timeout: float, as_json: bool) -> None:
    """Verify the signatures of an agent card.

    URL is that of the card, if it ends with .json, or else that of the agent. Exits with 0 if at least one signature is
    valid, with 1 if none is, or if the card cannot be fetched, and with 2 if the command line is wrong.

    Keys come from the key set that a signature names (jku), if it is of the card's own origin and served over HTTPS, or
    by this machine. That proves that the card is what this origin serves. To know that it is from a certain publisher,
    name the publisher's key set with --jwks.

    \b
    a2ad card verify https://agents.example
    a2ad card verify https://agents.example --jwks publisher-keys.json --json
    """  # noqa: D301 - click wants the character
    from a2a_server.serve.parts import card_report  # noqa: PLC0415 - it takes a while, and --help should not

    version = "" if a2a_version == "none" else a2a_version
    try:
        report = card_report(url, jwks=jwks, version=version, patience=timeout)
    except OSError as error:
        raise click.ClickException(printable(str(error))) from None
    if as_json:
        click.echo(json.dumps({"verified": report.verified, **asdict(report)}, indent=2))
    else:
        for number, each in enumerate(report.signatures):
            verdict = f"valid, covers {each.why}" if each.valid else f"invalid: {each.why}"
            click.echo(printable(f"signature {number}: {each.algorithm or '?'} {each.kid or '?'}: {verdict}"))
        said = "verified" if report.verified else "not verified" if report.signatures else "not signed"
        click.echo(printable(f"{report.url}: {report.name}: {said}"))
    if not report.verified:
        raise SystemExit(1)
