"""`a2ad init`: makes a small project for an agent (spec: AGNT-09)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

KINDS: Sequence[str] = ("executor", "langgraph", "pydantic-ai")
"""What a project may begin with, instead of a function."""
_TEMPLATES = Path(__file__).parent / "projects"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
"""As Docker Compose wants the name of a project."""


def _project_name(_context: click.Context, _option: click.Parameter, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise click.BadParameter(
            "must be up to 63 of a-z, 0-9, - and _, and begin with a letter or digit, such as my-agent"
        )
    return name


@click.command()
@click.argument("name", callback=_project_name)
@click.option(
    "--from",
    "kind",
    type=click.Choice(KINDS),
    help="What the agent is: an AgentExecutor of the official SDK, a graph of LangGraph, or an agent of pydantic-ai.  "
    "[default: an async function]",
)
def init(*, name: str, kind: str | None) -> None:
    """Make a small project in the folder NAME.

    It has an agent, a test, a Dockerfile, a compose file, and a README with the commands to use them.

    \b
    a2ad init my-agent
    a2ad init my-agent --from langgraph
    """  # noqa: D301 - click wants the character
    folder = Path(name)
    try:
        folder.mkdir(exist_ok=True)
        if any(folder.iterdir()):
            raise click.ClickException(f"{name}: the folder is not empty; choose another name")
        for file, text in project(name, kind or "function"):
            with (folder / file).open("x", encoding="utf-8") as made:
                made.write(text)
    except (FileExistsError, NotADirectoryError):
        raise click.ClickException(f"{name}: there is a file of this name; choose another one") from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or name}: cannot be written: {error.strerror}") from None
    click.echo(f"Made {name}. Try:\ncd {shlex.quote(name)}\na2ad serve agent.py --reload")


def project(name: str, kind: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file."""
    title = re.sub(r"[-_]+", " ", name).strip().capitalize()
    for part in ("every", kind):
        for template in sorted((_TEMPLATES / part).iterdir()):
            text = template.read_text("utf-8")
            yield template.name.removesuffix(".txt"), text.replace("PROJECT", name).replace("TITLE", title)
