"""`a2ad task`: an agent's tasks, and their push notification configs (spec: CLI-26, -27, -53, -54, -62, -66).

The work itself is in `task_calls`, so that --help does not wait for it.
"""

from __future__ import annotations

from typing import Any

import click

from a2a_server.cli.client.command import COMMON, ClientCommand, ClientGroup, settings
from a2a_server.cli.client.sources import GivenSettings
from a2a_server.cli.command_line import main


@main.group(cls=ClientGroup)
def task() -> None:
    """Look at an agent's tasks, and act on them."""


@task.command(cls=ClientCommand)
@click.argument("task_id", metavar="TASK")
@settings(*COMMON, "history", "wait", "async", "poll-interval")
def get(told: GivenSettings, task_id: str) -> None:
    """Show a task: its state, its artifacts, and with --history what was said.

    With --wait, ask again and again until the task is finished, or needs something.
    """
    from a2a_server.cli.client import task_calls  # noqa: PLC0415 - as the module says

    task_calls.get(told, task_id)


@task.command("list", cls=ClientCommand)
@click.option("--status", default="", metavar="STATE", help="Only tasks in this state, such as working.")
@click.option("--page-size", type=click.IntRange(1, 100), help="How many tasks to show.  [default: as the agent likes]")
@click.option("--page-token", default="", metavar="TOKEN", help="Show the page that this token stands for.")
@settings(*COMMON, "context-id", "history")
def list_(told: GivenSettings, **wanted: Any) -> None:  # noqa: ANN401 - the options
    """List tasks, one page at a time; with --stream, all pages."""
    from a2a_server.cli.client import task_calls  # noqa: PLC0415 - as above

    task_calls.list_(told, **wanted)


@task.command(cls=ClientCommand)
@click.argument("task_id", metavar="TASK")
@settings(*COMMON, "metadata")
def cancel(told: GivenSettings, task_id: str) -> None:
    """Cancel a task, and show the state that it is in then."""
    from a2a_server.cli.client import task_calls  # noqa: PLC0415 - as above

    task_calls.cancel(told, task_id)


@task.command(cls=ClientCommand)
@click.argument("task_id", metavar="TASK")
@settings(*COMMON, "poll-interval", "history")
def subscribe(told: GivenSettings, task_id: str) -> None:
    """Follow a task until it is finished, or needs something.

    With --stream, show each event when it comes; without it, the task as it is in the end.
    """
    from a2a_server.cli.client import task_calls  # noqa: PLC0415 - as above

    task_calls.subscribe(told, task_id)


@task.command(cls=ClientCommand)
@click.argument("task_id", metavar="TASK")
@click.option("--dir", "folder", default=".", metavar="PATH", help="Where to save.  [default: this folder]")
@click.option("--force", is_flag=True, help="Replace files that exist.")
@click.option("--linked", is_flag=True, help="Fetch linked files, too, without credentials.")
@settings(*COMMON)
def download(told: GivenSettings, task_id: str, **how: Any) -> None:  # noqa: ANN401 - the options
    """Save the artifacts of a task as files.

    Texts are saved as .txt, data as .json, files under their own names. Nothing is replaced without --force.
    """
    from a2a_server.cli.client import task_calls  # noqa: PLC0415 - as above

    task_calls.download(told, task_id, **how)


@task.group("push-config", cls=ClientGroup)
def push_config() -> None:
    """Make, show and delete the push notification configs of a task."""


@push_config.command(cls=ClientCommand)
@click.argument("task_id", metavar="TASK")
@click.option("--url", required=True, metavar="URL", help="Where the agent sends the notifications.")
@click.option(
    "--id", "config_id", default="", metavar="ID", help="The id of the config.  [default: the agent's choice]"
)
@click.option("--token", default="", metavar="TOKEN", help="Sent with each notification, to recognise it.")
@click.option("--auth-scheme", default="", metavar="SCHEME", help="How the agent proves itself, such as Bearer.")
@click.option("--auth-credentials", default="", metavar="TEXT", help="What the agent proves itself with.")
@settings(*COMMON)
def create(told: GivenSettings, task_id: str, **config: str) -> None:
    """Have the agent send the events of a task to a URL."""
    from a2a_server.cli.client import task_calls  # noqa: PLC0415 - as above

    task_calls.create_config(told, task_id, **config)


@push_config.command("get", cls=ClientCommand)
@click.argument("task_id", metavar="TASK")
@click.argument("config_id", metavar="CONFIG")
@settings(*COMMON)
def get_config(told: GivenSettings, task_id: str, config_id: str) -> None:
    """Show one config."""
    from a2a_server.cli.client import task_calls  # noqa: PLC0415 - as above

    task_calls.get_config(told, task_id, config_id)


@push_config.command("list", cls=ClientCommand)
@click.argument("task_id", metavar="TASK")
@click.option("--page-size", type=click.IntRange(1, 100), help="How many to show.  [default: as the agent likes]")
@click.option("--page-token", default="", metavar="TOKEN", help="Show the page that this token stands for.")
@settings(*COMMON)
def list_configs(told: GivenSettings, task_id: str, **wanted: Any) -> None:  # noqa: ANN401 - the options
    """List the configs of a task."""
    from a2a_server.cli.client import task_calls  # noqa: PLC0415 - as above

    task_calls.list_configs(told, task_id, **wanted)


@push_config.command(cls=ClientCommand)
@click.argument("task_id", metavar="TASK")
@click.argument("config_id", metavar="CONFIG")
@settings(*COMMON)
def delete(told: GivenSettings, task_id: str, config_id: str) -> None:
    """Delete a config."""
    from a2a_server.cli.client import task_calls  # noqa: PLC0415 - as above

    task_calls.delete_config(told, task_id, config_id)
