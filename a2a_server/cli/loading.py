"""Finds the agents that MODULE:AGENT names, or says what was tried."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import ModuleType
from typing import cast

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.program import ProgramAgent
from a2a_server.agents.recognition import EXECUTORS, OpenedAgent, foreign_types, recognised
from a2a_server.cli.configuration import Unusable
from a2a_server.ports.agent import AgentPort
from a2a_server.serve import Agents, read_card
from a2a_server.settings import Settings
from a2a_server.settings.agents import AgentTable

DEFAULT_NAME = "agent"
ADK_NAME = "root_agent"
"""What Google ADK calls the agent among the agents of a module."""
PROGRAM = "exec:"
"""What precedes the command line of a program that is served."""
NEEDED = ("card", "extended_card", "check", "plan", "run")

_SHOWN = 2
"""How many calls an error shows, counted from the last one."""
_NOT_THEIRS = (
    f"{Path(__file__).parents[1]}{os.sep}",
    *(f"a2a_server{os.sep}", str(importlib.__file__), "<frozen ", str(contextlib.__file__)),
)
"""How file names begin that are not the author's: this package, also compiled, and Python's import machinery."""


def load_agent(spec: str, card: pb.AgentCard | None = None) -> AgentPort | OpenedAgent:
    """Import `module [":" name]` or `path.py [":" name]`; the working directory comes first on the path.

    `exec:PROGRAM ARGS` is a program that is run for each message.
    What is found is an agent, one of another library, a class of executors, or a function that makes one of them. An
    async context manager makes it when the server starts.
    `card` is for agents of other libraries, which have none of their own.
    """
    if spec.startswith(PROGRAM):
        return _program(spec, card)
    place, _, name = spec.partition(":")
    if not place:
        raise Unusable(f"agent = {spec!r}: must be MODULE:AGENT or path/to/file.py:AGENT")
    module = _module(place)
    name = name or _unnamed(module)
    found: object = module
    for step in name.split("."):
        found = getattr(found, step, None)
    if found is None:
        raise Unusable(f"agent = {spec!r}: {module.__name__} ({module.__file__}) has no {name!r}")
    found = _made(found, spec)
    if foreign := _foreign(found, module, card, spec):
        return foreign
    if isinstance(found, AbstractAsyncContextManager):
        return OpenedAgent(found, vars(module), card)
    try:
        lacking = [needed for needed in NEEDED if not hasattr(found, needed)]
    except Exception as error:  # their card is a property
        raise Unusable(f"agent = {spec!r}{own_fault(error)}") from error
    if lacking:
        kind = type(found).__name__
        raise Unusable(f"agent = {spec!r}: {name} is a {kind}, not an agent; it lacks {', '.join(lacking)}")
    if isinstance(found, type):
        made = f"{name} = {found.__name__}({', '.join(_needs(found))})"
        raise Unusable(f"agent = {spec!r}: {name} is the class {found.__name__}, not an agent; make one: {made}")
    return cast("AgentPort", found)


def _program(spec: str, card: pb.AgentCard | None) -> AgentPort:
    try:
        return ProgramAgent(spec.removeprefix(PROGRAM), card)
    except ValueError as error:
        raise Unusable(f"agent = {spec!r}: {error}") from None


def _unnamed(module: ModuleType) -> str:
    """What is served when only a module was named: `agent`, or the only agent of another library that it has."""
    if not hasattr(module, DEFAULT_NAME) and (kinds := foreign_types()):
        if isinstance(getattr(module, ADK_NAME, None), kinds):
            return ADK_NAME
        own = {name: value for name, value in vars(module).items() if isinstance(value, kinds)}
        own = own or {name: value for name, value in vars(module).items() if _is_executor(value, module)}
        if len(own) == 1:
            return next(iter(own))
    return DEFAULT_NAME


def _is_executor(value: object, module: ModuleType) -> bool:
    """Whether it is a class of executors that the module defines."""
    return isinstance(value, type) and issubclass(value, EXECUTORS.agent_type) and value.__module__ == module.__name__


def _made(found: object, spec: str) -> object:
    """Call a class of executors, or a function that makes an agent or an executor."""
    if not (inspect.isfunction(found) or (isinstance(found, type) and issubclass(found, EXECUTORS.agent_type))):
        return found
    if needs := ", ".join(_needs(found)):
        raise Unusable(f"agent = {spec!r}: {found.__name__}({needs}) needs arguments; name a function that gives them")
    try:
        return found()
    except Exception as error:
        raise Unusable(f"agent = {spec!r}{own_fault(error)}") from error


def _foreign(found: object, module: ModuleType, card: pb.AgentCard | None, spec: str) -> AgentPort | None:
    """The agent that serves what another library has made, if it is that."""
    try:
        return recognised(found, vars(module), card)
    except (ImportError, ValueError) as error:
        raise Unusable(f"agent = {spec!r}: {error}") from None


def _needs(kind: Callable[..., object]) -> Iterator[str]:
    """Spell the arguments that a class or a function needs."""
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
        raise Unusable(f"agent: {place} cannot be imported{own_fault(error)}") from error


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


def own_fault(error: BaseException, *, first: bool = False) -> str:
    """Say what went wrong, and show the author where in their own code, without the frames of this package.

    The last calls are shown; with `first` those with which their code begins.
    """
    told = traceback.TracebackException.from_exception(error)
    own = [frame for frame in told.stack if not frame.filename.startswith(_NOT_THEIRS)]
    if not own and not isinstance(error, SyntaxError):
        return f": {error}" if str(error) else f": {type(error).__name__}"
    lines = traceback.StackSummary.from_list(own[:_SHOWN] if first else own[-_SHOWN:]).format()
    return "\n" + "".join([*lines, *told.format_exception_only()]).rstrip()


def load_agents(settings: Settings) -> Agents:
    """Load the agent of the settings, or several by their tenants. An error says which one it is about."""
    if not settings.agents:
        return _loaded(settings.agent, settings.card.file, "card.file")
    return {table.tenant: _of_table(number, table) for number, table in enumerate(settings.agents)}


def _of_table(number: int, table: AgentTable) -> AgentPort | OpenedAgent:
    place = f"agents.{number}"
    if not table.agent:
        raise Unusable(f"{place}.agent: is missing; name it as MODULE:NAME or path/to/file.py:NAME")
    try:
        return _loaded(table.agent, table.card, f"{place}.card")
    except Unusable as error:
        raise Unusable(f"{place} (tenant {table.tenant!r}): {error.message}") from error


def _loaded(spec: str, card: str, setting: str) -> AgentPort | OpenedAgent:
    return load_agent(spec, read_card(card, setting) if card else None)
