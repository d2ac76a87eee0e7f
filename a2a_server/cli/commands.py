"""The commands of `a2ad` (spec: OPER-04, OPER-05)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from a2a_server.cli.client.command import ClientGroup
from a2a_server.cli.client.own import show
from a2a_server.cli.command_line import main
from a2a_server.cli.configuration import (
    CONFIG,
    Unusable,
    effective,
    example_file,
    named,
    options,
    setting,
    settings_from,
)
from a2a_server.cli.copying import copy
from a2a_server.cli.credentials import token
from a2a_server.cli.database import db
from a2a_server.cli.keys import keys
from a2a_server.cli.project import init
from a2a_server.cli.push import push
from a2a_server.cli.schema import status, upgrade
from a2a_server.cli.shards import shards

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


PROCESS = options(
    setting(
        *("--profile", "gateway.profiles", "NAME"),
        "Another profile to speak, besides 1.0 and 0.3: draft, served under /draft.  [default: none]",
        multiple=True,
        callback=lambda _context, _option, names: ",".join(names) or None,  # each time with several names
    ),
    setting("--card-doors", "card.doors", "NAMES", "Doors on the agent card, such as jsonrpc,rest.  [default: all]"),
    CONFIG,
    setting(
        *("--log-level", "log.level", "LEVEL"),
        "Log events from this level on: debug, info, warning or error.  [default: info]",
    ),
    setting("--log-format", "log.format", "FORMAT", "How to write the log: auto, console or json.  [default: auto]"),
)
"""What every command takes that keeps running."""


@main.command()
@click.argument("agents", nargs=-1, metavar="[MODULE:AGENT]...")
@click.option("--exec", "program", metavar="PROGRAM", help="Serve a program with its arguments: one process per turn.")
@setting("--grpc", "grpc", "HOST:PORT", "Where the gRPC door listens.  [default: 127.0.0.1:50051]")
@setting("--http", "http", "HOST:PORT", "Where the HTTP door listens; none = no HTTP door.  [default: 127.0.0.1:8080]")
@setting(
    "--store",
    "store",
    "URL",
    "Where tasks are kept: memory:, sqlite:///PATH or postgresql://….  [default: sqlite:///a2a.db]",
)
@setting("--workers", "workers", "N", "How many processes serve; more than one need PostgreSQL.  [default: 1]")
@setting("--public-grpc", "public_grpc", "HOST:PORT", "Where clients reach the gRPC door, for the agent card.")
@setting("--public-url", "public_url", "URL", "Where clients reach the HTTP door, for the agent card.")
@setting("--card", "card.file", "PATH", "JSON file with the card of an agent that has none, such as an executor.")
@click.option("--reload", is_flag=True, help="For development: restart when the agent's code changes.")
@PROCESS
def serve(*, config: str | None, agents: tuple[str, ...], program: str | None, reload: bool, **flags: Any) -> None:  # noqa: ANN401 - the options
    """Serve an agent, or several, until SIGTERM or Ctrl-C.

    MODULE is the name of a module, or a path such as examples/echo.py. AGENT is a variable in it; the default is
    `agent`. Without an argument a demo agent is served. Several agents have a tenant each, named as AGENT, or if that
    is `agent` as the module; the first one also serves calls without a tenant.

    The first signal lets running turns finish, the second one stops at once. With several workers, SIGHUP replaces them
    in turn, so that they read settings and agent anew. With --reload a change of a Python file beside the agent, or in
    its package, does so.

    \b
    a2ad serve
    a2ad serve examples/echo.py --store memory:
    a2ad serve my_package.agents:concierge --grpc 127.0.0.1:9000
    a2ad serve weather.py travel.py
    a2ad serve --exec "./summarise.sh --short"
    """  # noqa: D301 - click wants the character
    from a2a_server.cli.log_output import log_faults, log_output  # noqa: PLC0415 - takes a while; --help should not
    from a2a_server.cli.worker import Assignment, Link  # noqa: PLC0415 - as above

    if program is not None:
        if agents:
            raise click.UsageError("give MODULE:AGENT or --exec, not both")
        agents = (f"exec:{program}",)
    flags |= named(agents)
    if (given := Assignment.taken()) is not None:
        from a2a_server.cli.process import run  # noqa: PLC0415 - a worker that waits has imported it by then

        link = Link(given)
        link.wait_to_load()
        settings = given.applied_to(settings_from(flags, config, tell=log_faults).settings)
        with log_output(settings.log, worker=given.number):
            run(settings, link)
        return

    settings = settings_from(flags, config, tell=log_faults).settings
    with log_output(settings.log):
        if reload:
            from a2a_server.cli.reloading import serve_reloading  # noqa: PLC0415 - as above

            serve_reloading(settings, lambda: settings_from(flags, config).settings)
        elif settings.workers > 1:
            from a2a_server.cli.supervisor import Supervisor, supervise  # noqa: PLC0415 - as above

            supervise(settings, lambda: settings_from(flags, config).settings, Supervisor)
        else:
            from a2a_server.cli.process import run  # noqa: PLC0415 - as above

            run(settings)


@main.command()
@setting("--upstream", "upstream.addresses", "HOST:PORT", "The gRPC server to call; separate several with commas.")
@click.option("--tls", "upstream__tls", is_flag=True, default=None, help="Use TLS for the upstream.")
@setting("--ca", "upstream.ca", "PATH", "PEM file with the authorities to trust with --tls.  [default: the system's]")
@setting("--http", "http", "HOST:PORT", "Where the gateway listens.  [default: 127.0.0.1:8080]")
@setting("--public-url", "public_url", "URL", "Where clients reach the gateway, for the agent card.")
@setting(
    "--card", "gateway.card", "PATH", "JSON file with the public card, for upstreams that do not serve it over gRPC."
)
@PROCESS
def gateway(*, config: str | None, **flags: Any) -> None:  # noqa: ANN401 - the options
    """Serve REST, JSON-RPC and SSE for a gRPC server.

    The server may be any that speaks A2A 1.0 over gRPC.

    \b
    a2ad gateway --upstream 127.0.0.1:50051
    a2ad gateway --upstream agents.example:443 --tls --http 0.0.0.0:8080
    """  # noqa: D301 - click wants the character
    flags["anonymous_beyond_loopback"] = True  # the upstream decides who may call
    needed = {
        "upstream.addresses": "name the gRPC server to call, such as --upstream 127.0.0.1:50051",
        "http": "the gateway has no other door; give it a HOST:PORT",
    }
    from a2a_server.cli.log_output import log_faults, log_output  # noqa: PLC0415 - as above

    settings = settings_from(flags, config, needed=needed, tell=log_faults).settings
    with log_output(settings.log):
        from a2a_server.cli.process import run_gateway  # noqa: PLC0415 - as above

        run_gateway(settings)


@main.group(cls=ClientGroup, invoke_without_command=True)
@CONFIG
@click.option(
    "--example", is_flag=True, help="Print a settings file that shows every setting, its default and its meaning."
)
@click.pass_context
def config(ctx: click.Context, *, config: str | None, example: bool) -> None:
    """Print the settings in effect.

    Without a command, those of the server; `show` prints those of the commands that talk to agents. Each one shows
    where it comes from; secrets are left out.
    """
    if ctx.invoked_subcommand is None:
        click.echo(example_file() if example else effective(settings_from({}, config)), nl=False)
    elif config or example:
        raise click.UsageError(f"--{'config' if config else 'example'} must come after {ctx.invoked_subcommand}")


config.add_command(show)


@main.command()
@click.option("--grpc", metavar="HOST:PORT", help="The gRPC door to ask, by grpc.health.v1.")
@click.option("--http", metavar="URL", help="The HTTP door to ask. Without a path, /readyz is requested.")
@click.option(
    "--timeout",
    default=3.0,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="How many seconds to wait for an answer.",
)
@click.option("--tls", is_flag=True, help="Use TLS for the gRPC door. The options below imply it.")
@click.option(
    "--ca", metavar="PATH", type=FILE, help="PEM file with the authorities to trust.  [default: the system's]"
)
@click.option("--server-name", help="The name in the door's certificate, if it is not the host's.")
@click.option("--cert", metavar="PATH", type=FILE, help="PEM file with a client certificate, if the door asks for one.")
@click.option("--key", metavar="PATH", type=FILE, help="PEM file with the private key of --cert.")
@CONFIG
def health(*, config: str | None, **asked: Any) -> None:  # noqa: ANN401 - the options
    """Check whether a server or gateway is ready.

    Exits with 0 if it is, and otherwise with 1 and a line that says why. Without --grpc and --http, it checks the door
    that the settings in effect name. With both, both doors must be ready.
    """
    from a2a_server.cli.health import HealthQuestion, NotServingError  # noqa: PLC0415 - as above
    from a2a_server.transport.address import StartError  # noqa: PLC0415 - as above

    try:
        question = HealthQuestion.of(**asked)
        told = {"anonymous_beyond_loopback": True}  # it opens no door itself
        doors = question.ask() or question.ask_process(settings_from(told, config).settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except StartError as error:
        raise Unusable(str(error)) from None
    except NotServingError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{', '.join(doors)}: serving")


main.add_command(keys)
for command in (status, upgrade, copy, shards):
    db.add_command(command)
main.add_command(db)
main.add_command(init)
main.add_command(push)
main.add_command(token)
