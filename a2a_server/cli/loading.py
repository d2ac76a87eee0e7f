"""MODULE:AGENT → the agent, with errors that say what was tried."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import cast

from a2a_server.cli.configuration import Unusable
from a2a_server.ports.agent import AgentPort

DEFAULT_NAME = "agent"
NEEDED = ("card", "extended_card", "check", "plan", "run")

_SHOWN = 2
"""How many calls an error shows, counted from the last one."""
_NOT_THEIRS = (f"{Path(__file__).parents[1]}{os.sep}", f"a2a_server{os.sep}", str(importlib.__file__), "<frozen ")
"""How the names of files begin that are not the author's: this package, also compiled, and Python's import system."""


def load_agent(spec: str) -> AgentPort:
    """Import `module [":" name]` or `path.py [":" name]`; the working directory comes first on the path."""
    place, _, name = spec.partition(":")
    name = name or DEFAULT_NAME
    if not place:
        raise Unusable(f"agent = {spec!r}: must be MODULE:AGENT or path/to/file.py:AGENT")
    module = _module(place)
    found: object = module
    for step in name.split("."):
        found = getattr(found, step, None)
    if found is None:
        raise Unusable(f"agent = {spec!r}: {module.__name__} ({module.__file__}) has no {name!r}")
    try:
        lacking = [needed for needed in NEEDED if not hasattr(found, needed)]
    except Exception as error:  # their card is a property
        raise Unusable(f"agent = {spec!r}{_own_fault(error)}") from error
    if lacking:
        kind = type(found).__name__
        raise Unusable(f"agent = {spec!r}: {name} is a {kind}, not an agent; it lacks {', '.join(lacking)}")
    if isinstance(found, type):
        made = f"{name} = {found.__name__}({', '.join(_needs(found))})"
        raise Unusable(f"agent = {spec!r}: {name} is the class {found.__name__}, not an agent; make one: {made}")
    return cast("AgentPort", found)


def _needs(kind: type) -> Iterator[str]:
    """Spell the arguments that a class needs."""
    for parameter in inspect.signature(kind).parameters.values():
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            yield f"{parameter.name}=…"


def _module(place: str) -> ModuleType:
    is_file = place.endswith(".py")
    folder = str(Path(place).resolve().parent if is_file else Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return _file(Path(place)) if is_file else importlib.import_module(place)
    except Unusable:
        raise
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{place}.".startswith(f"{missing}."):
            raise Unusable(f"agent: no module named {missing!r} in {folder} or among installed packages") from None
        raise Unusable(f"agent: {place} cannot be imported{_own_fault(error)}") from error


def _file(path: Path) -> ModuleType:
    try:
        path.read_bytes()
    except FileNotFoundError:
        raise Unusable(f"agent: no file {str(path.resolve())!r}") from None
    except OSError as error:
        raise Unusable(f"agent: {str(path)!r} cannot be read: {error.strerror}") from None
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise Unusable(f"agent: {str(path)!r} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _own_fault(error: Exception) -> str:
    """Say what went wrong, and show the author where in their own code, without the frames of this package."""
    told = traceback.TracebackException.from_exception(error)
    own = [frame for frame in told.stack if not frame.filename.startswith(_NOT_THEIRS)]
    if not own and not isinstance(error, SyntaxError):
        return f": {error}" if str(error) else f": {type(error).__name__}"
    lines = traceback.StackSummary.from_list(own[-_SHOWN:]).format()
    return "\n" + "".join([*lines, *told.format_exception_only()]).rstrip()
