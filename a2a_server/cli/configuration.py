"""What a command is told: flags over environment over file; and all of it printed as TOML (spec: OPER-05)."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import click
from pydantic import SecretStr

from a2a_server.settings import Credential, Settings, SettingsError, load
from a2a_server.settings.sources import Loaded, members, put, sections

CONFIG: Final = click.option(
    "--config", metavar="PATH", help="Settings file (TOML).  [default: $A2A_CONFIG, or a2ad.toml in this folder]"
)
WIDTH = 110


class Unusable(click.ClickException):
    """The command line or a setting is wrong."""

    exit_code = 2


OptionDecorator = Callable[[Callable[..., None]], Callable[..., None]]


def options(*listed: OptionDecorator) -> OptionDecorator:
    """Several options as one decorator, in the order in which `--help` shows them."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(listed):
            command = option(command)
        return command

    return decorate


def setting(flag: str, name: str, metavar: str, text: str, **more: Any) -> OptionDecorator:  # noqa: ANN401 - click's own
    """An option that sets a setting; the command gets `log.level` as `log__level`."""
    return click.option(flag, name.replace(".", "__"), metavar=metavar, help=text, **more)


def settings_from(flags: Mapping[str, Any], path: str | None) -> Loaded:
    """Read the settings. `flags` are named as by `setting`; those that are None were not given."""
    tree: dict[str, Any] = {}
    for name, value in flags.items():
        if value is not None:
            put(tree, name.replace("__", "."), value)
    try:
        return load(tree, config=path)
    except SettingsError as error:
        raise Unusable(str(error)) from None


def effective(loaded: Loaded) -> str:
    """Print every setting, its value, and who set it; defaults without comment, secrets not at all."""
    lines = []
    for section, _ in sections():
        lines += ["", f"[{section}]"] if section else []
        for name, value in _values(loaded.settings, section):
            source = loaded.sources.get(f"{section}.{name}" if section else name, "")
            lines.append(f"{name} = {_toml(value)}" + (f"  # {source}" if source else ""))
    return "\n".join(lines).strip() + "\n"


class SettingEntry(NamedTuple):
    """One setting, as people read it."""

    name: str
    value: str
    """Its default, or a sample, as TOML."""
    meaning: str


class SettingGroup(NamedTuple):
    """A table of the settings file; the nameless one comes first."""

    section: str
    about: str
    entries: Sequence[SettingEntry]


def groups() -> Iterator[SettingGroup]:
    """Yield every setting but the credentials, which are tables of their own."""
    for section, model in sections():
        meanings = _meanings(model)
        entries = [
            SettingEntry(name, _toml(value), meanings.get(name, ""))
            for name, value in _values(Settings(), section)
            if name not in ("tokens", "api_keys")
        ]
        yield SettingGroup(section, inspect.getdoc(model) or "", entries)


def credential() -> Iterator[SettingEntry]:
    """Yield the members of a credential, with samples."""
    samples = {"owner": "ann", "hash": "sha256:…", "tenant": "", "extended_card": False}
    meanings = _meanings(Credential)
    for name, value in samples.items():
        yield SettingEntry(name, _toml(value), meanings[name])


def example_file() -> str:
    """Print a file that changes nothing until a line is uncommented."""
    lines = ["# Settings of a2ad. Each shows its default; environment variables: A2A_<SECTION>__<NAME>."]
    for section, _, entries in groups():
        lines += ["", f"[{section}]"] if section else []
        for name, value, meaning in entries:
            lines += ["", *textwrap.wrap(meaning, WIDTH, initial_indent="# ", subsequent_indent="# ")]
            lines.append(f"# {name} = {value}")
    lines += ["", "# [[auth.tokens]]  # or [[auth.api_keys]]; `a2ad token` makes one"]
    lines += [f"# {name} = {value}  # {meaning}" for name, value, meaning in credential()]
    return "\n".join(lines) + "\n"


def _values(settings: Settings, section: str) -> Iterator[tuple[str, object]]:
    part = getattr(settings, section) if section else settings
    for name in members(type(part)):
        yield name, getattr(part, name)


def _toml(value: object) -> str:
    if isinstance(value, Credential):
        shown = {"owner": value.owner, "tenant": value.tenant, "extended_card": value.extended_card}
        return "{ " + ", ".join(f"{name} = {_toml(item)}" for name, item in shown.items()) + " }"
    if isinstance(value, SecretStr):
        return json.dumps("…", ensure_ascii=False)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _meanings(model: type) -> dict[str, str]:
    """Read the docstrings that stand below the fields, so that nothing is explained twice."""
    found: dict[str, str] = {}
    for kind in model.__mro__:
        if not kind.__module__.startswith("a2a_server."):  # a class of a library
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        for field, after in pairwise(definition.body if isinstance(definition, ast.ClassDef) else []):
            match field, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
    return found
