"""The commands of `a2ad` (spec: OPER-04, OPER-05)."""

from __future__ import annotations

import hashlib
import secrets
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from a2a_server.cli.configuration import CONFIG_HELP, Unusable, settings_from
from a2a_server.cli.push import push

if TYPE_CHECKING:
    from a2a_server.cli.health import HealthOptions  # with gRPC

PROFILE_HELP = "What to speak beside 1.0 and 0.3: draft, under /draft; several by commas.  [default: none]"
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def installed_version() -> str:
    try:
        return version("a2ad")
    except PackageNotFoundError:  # run from a checkout
        return "unknown"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(installed_version(), prog_name="a2ad")
def main() -> None:
    """Serve A2A agents over gRPC, REST, JSON-RPC and SSE.

    Every setting has a name, such as limits.running_turns. It is taken from, in this order: a flag, an environment
    variable (A2A_LIMITS__RUNNING_TURNS), the settings file, its default. `a2ad config --example` lists them all.
    """


@main.command()
@click.argument("agent", required=False, metavar="[MODULE:AGENT]")
@click.option("--grpc", metavar="HOST:PORT", help="Where the gRPC door listens.  [default: 127.0.0.1:50051]")
@click.option("--http", metavar="HOST:PORT", help="Where the HTTP door listens, or none.  [default: 127.0.0.1:8080]")
@click.option("--store", metavar="URL", help="memory: or sqlite:///PATH.  [default: sqlite:///a2a.db]")
@click.option("--public-grpc", metavar="HOST:PORT", help="The gRPC door as clients see it, for the agent card.")
@click.option("--public-url", metavar="URL", help="The HTTP door as clients see it, for the agent card.")
@click.option("--profile", "profiles", multiple=True, metavar="NAME", help=PROFILE_HELP)
@click.option("--config", metavar="PATH", help=CONFIG_HELP)
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.  [default: info]")
@click.option("--log-format", metavar="FORMAT", help="auto, console or json.  [default: auto]")
def serve(
    *,
    profiles: tuple[str, ...],
    config: str | None,
    log_level: str | None,
    log_format: str | None,
    **flags: str | None,
) -> None:
    """Serve the agent called AGENT in MODULE, until SIGTERM or Ctrl-C.

    MODULE is a module's name or a path such as examples/echo.py; without :AGENT the name is `agent`. Without both, a
    demo agent shows what there is. The first signal lets running work come to an end, the second stops at once.

    \b
    a2ad serve
    a2ad serve examples/echo.py --store memory:
    a2ad serve my_package.agents:concierge --grpc 127.0.0.1:9000
    """  # noqa: D301 - click wants the character
    told = {"gateway": {"profiles": _listed(profiles)}, "log": {"level": log_level, "format": log_format}}
    loaded = settings_from({**flags, **told}, config)
    from a2a_server.cli.process import run  # noqa: PLC0415 - gRPC takes a while, and --help should not

    run(loaded.settings)


@main.command()
@click.option("--upstream", "addresses", metavar="HOST:PORT", help="The gRPC server to call; several by commas.")
@click.option("--tls", is_flag=True, default=None, help="Speak TLS with the upstream.")
@click.option("--ca", metavar="PATH", help="Authorities to trust with --tls.  [default: the system's]")
@click.option("--http", metavar="HOST:PORT", help="Where the gateway listens.  [default: 127.0.0.1:8080]")
@click.option("--public-url", metavar="URL", help="The gateway as clients see it, for the agent card.")
@click.option("--card", metavar="PATH", help="The public card (JSON), for upstreams that do not tell theirs over gRPC.")
@click.option("--profile", "profiles", multiple=True, metavar="NAME", help=PROFILE_HELP)
@click.option("--config", metavar="PATH", help=CONFIG_HELP)
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.  [default: info]")
@click.option("--log-format", metavar="FORMAT", help="auto, console or json.  [default: auto]")
def gateway(  # noqa: PLR0913 - the options
    *,
    addresses: str | None,
    tls: bool | None,
    ca: str | None,
    http: str | None,
    public_url: str | None,
    card: str | None,
    profiles: tuple[str, ...],
    config: str | None,
    log_level: str | None,
    log_format: str | None,
) -> None:
    """Serve REST, JSON-RPC and SSE in front of any server that speaks A2A 1.0 over gRPC.

    \b
    a2ad gateway --upstream 127.0.0.1:50051
    a2ad gateway --upstream agents.example:443 --tls --http 0.0.0.0:8080
    """  # noqa: D301 - click wants the character
    flags = {
        "http": http,
        "public_url": public_url,
        "upstream": {"addresses": addresses, "tls": tls, "ca": ca},
        "gateway": {"card": card, "profiles": _listed(profiles)},
        "log": {"level": log_level, "format": log_format},
        "anonymous_beyond_loopback": True,  # whom to let in is for the upstream to say
    }
    settings = settings_from(flags, config).settings
    if not settings.upstream.addresses:
        raise Unusable("upstream.addresses: name the gRPC server to call, such as --upstream 127.0.0.1:50051")
    if not settings.http:
        raise Unusable("http: the gateway has no other door; name a HOST:PORT")
    from a2a_server.cli.process import run_gateway  # noqa: PLC0415 - as above

    run_gateway(settings)


@main.command()
@click.option("--config", metavar="PATH", help=CONFIG_HELP)
@click.option("--example", is_flag=True, help="Print a settings file with every setting, its default and its meaning.")
def config(*, config: str | None, example: bool) -> None:
    """Print the settings in effect and who set them, without secrets."""
    from a2a_server.cli.configuration import effective, example_file  # noqa: PLC0415 - as above

    click.echo(example_file() if example else effective(settings_from({}, config)), nl=False)


@main.command()
@click.option("--grpc", metavar="HOST:PORT", help="Ask a gRPC door (grpc.health.v1).")
@click.option("--http", metavar="URL", help="Ask an HTTP door, at /readyz where the URL has no path.")
@click.option("--timeout", default=3.0, show_default=True, type=click.FloatRange(0, min_open=True), help="Seconds.")
@click.option("--tls", is_flag=True, help="Ask the gRPC door over TLS; the options below imply it.")
@click.option("--ca", metavar="PATH", type=FILE, help="Authorities of the door's certificate.  [default: the system's]")
@click.option("--server-name", help="The name in the door's certificate, where that is not its host's.")
@click.option("--cert", metavar="PATH", type=FILE, help="A certificate for a door that wants one.")
@click.option("--key", metavar="PATH", type=FILE, help="The certificate's private key.")
@click.option("--config", metavar="PATH", help=CONFIG_HELP)
def health(*, config: str | None, **asked: Unpack[HealthOptions]) -> None:
    """Ask whether a server or gateway serves. Exit with 0 if it does, else with 1 and a line that says why.

    Without --grpc and --http the door of the settings in effect is asked; with both, both must serve.
    """
    from a2a_server.cli.health import NotServingError, Question  # noqa: PLC0415 - as above
    from a2a_server.transport.address import StartError  # noqa: PLC0415 - as above

    try:
        question = Question.of(**asked)
        told = {"anonymous_beyond_loopback": True}  # whom to let in matters to who opens a door, not to who knocks
        doors = question.ask() if question.names_doors else question.ask_process(settings_from(told, config).settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except StartError as error:
        raise Unusable(str(error)) from None
    except NotServingError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{', '.join(doors)}: serving")


@main.command()
@click.option("--owner", default="somebody", show_default=True, help="Whose tasks the bearer sees.")
@click.option("--api-key", is_flag=True, help="Make an API key instead of a bearer token.")
def token(*, owner: str, api_key: bool) -> None:
    """Make a random token. The server keeps its hash only; the token is shown this once."""
    secret = secrets.token_urlsafe(32)
    table = "auth.api_keys" if api_key else "auth.tokens"
    click.echo(f"# For the client, and shown only now:\n{secret}\n\n# For the settings file:\n[[{table}]]")
    quoted = owner.replace("\\", "\\\\").replace('"', '\\"')
    click.echo(f'owner = "{quoted}"\nhash = "sha256:{hashlib.sha256(secret.encode()).hexdigest()}"')


main.add_command(push)


def _listed(names: tuple[str, ...]) -> str | None:
    """Names of an option that may come several times, each time with several names."""
    return ",".join(names) or None
