"""MODULE:AGENT → the agent, with errors that say what was tried."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import cast

import click

from a2a_server.ports.agent import Agent

DEFAULT_NAME = "agent"
NEEDED = ("card", "extended_card", "check", "plan", "run")


class NoAgentError(click.ClickException):
    """There is no agent where one was said to be."""

    exit_code = 2


def load_agent(spec: str) -> Agent:
    """Import `module [":" name]` or `path.py [":" name]`; the working directory comes first on the path."""
    place, _, name = spec.partition(":")
    name = name or DEFAULT_NAME
    if not place:
        raise NoAgentError(f"agent = {spec!r}: must be MODULE:AGENT or path/to/file.py:AGENT")
    module = _module(place)
    found: object = module
    for step in name.split("."):
        found = getattr(found, step, None)
    if found is None:
        raise NoAgentError(f"agent = {spec!r}: {module.__name__} ({module.__file__}) has no {name!r}")
    if lacking := [needed for needed in NEEDED if not hasattr(found, needed)]:
        kind = type(found).__name__
        raise NoAgentError(f"agent = {spec!r}: {name} is a {kind} and no agent; it lacks {', '.join(lacking)}")
    return cast("Agent", found)


def _module(place: str) -> ModuleType:
    is_file = place.endswith(".py")
    folder = str(Path(place).resolve().parent if is_file else Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return _file(Path(place)) if is_file else importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            raise NoAgentError(
                f"agent: no module named {error.name!r} in {folder} or among installed packages"
            ) from None
        raise NoAgentError(_own_fault(place, error)) from error
    except NoAgentError:
        raise
    except Exception as error:
        raise NoAgentError(_own_fault(place, error)) from error


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise NoAgentError(f"agent: no file {str(path.resolve())!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise NoAgentError(f"agent: {str(path)!r} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _own_fault(place: str, error: BaseException) -> str:
    """Show the author of the agent where it went wrong: the last lines are their own code."""
    return f"agent: {place} cannot be imported\n" + "".join(traceback.format_exception(error)[-3:]).rstrip()
