"""Where settings come from: flags, then the environment, then one file, then defaults. Unknown names are errors."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import reduce
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from a2a_server.settings.model import Settings

PREFIX = "A2A_"
CONFIG = "A2A_CONFIG"
DEFAULT_FILE = "a2ad.toml"

Tree = dict[str, Any]


class SettingsError(Exception):
    """The settings are invalid; the message has one line per fault."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, and the source of each one that is not at its default."""

    settings: Settings
    sources: Mapping[str, str]


def load(flags: Mapping[str, Any] | None = None, *, config: str | None = None) -> Loaded:
    """Read all sources, or raise `SettingsError` with everything that is wrong."""
    path, name = _config_path(config)
    layers: list[tuple[Mapping[str, Any], str]] = [
        (dict(_leaves(flags or {})), "flag"),
        (_environment(), "environment"),
        (_file(path, name) if path else {}, f"file {path}"),
    ]
    merged: Tree = {}
    sources: dict[str, str] = {}
    for values, source in reversed(layers):
        for setting, value in values.items():
            put(merged, setting, value)
            sources[setting] = source
    try:
        return Loaded(Settings(**merged), sources)
    except ValidationError as error:
        raise SettingsError("\n".join(_line(fault, sources) for fault in error.errors())) from None


def known() -> list[str]:
    """List the dotted name of every setting."""
    return [f"{section}.{name}".removeprefix(".") for section, model in sections() for name in members(model)]


def sections() -> Iterator[tuple[str, type]]:
    """Yield the settings' tables, the nameless one first."""
    yield "", Settings
    for name, field in Settings.model_fields.items():
        if _is_section(field.annotation):
            yield name, cast("type", field.annotation)


def members(model: type) -> list[str]:
    """List the settings of a table, without the tables inside it."""
    if is_dataclass(model):
        return [field.name for field in fields(model)]
    model_fields = cast("type[BaseModel]", model).model_fields
    return [name for name, field in model_fields.items() if not _is_section(field.annotation)]


def _is_section(kind: object) -> bool:
    return isinstance(kind, type) and (issubclass(kind, BaseModel) or is_dataclass(kind))


def put(tree: Tree, name: str, value: object) -> None:
    *tables, last = name.split(".")
    reduce(lambda table, key: table.setdefault(key, {}), tables, tree)[last] = value


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted names and values; lists are values."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _config_path(config: str | None) -> tuple[Path | None, str]:
    """The settings file, and how errors name it: by the flag or the variable that it came from, if any."""
    for source, named in (("--config", config), (CONFIG, os.environ.get(CONFIG))):
        if named:
            return Path(named), f"{source} = {named!r}"
    default = Path(DEFAULT_FILE)
    return default if default.is_file() else None, DEFAULT_FILE


def _file(path: Path, name: str) -> Mapping[str, Any]:
    try:
        values = dict(_leaves(tomllib.loads(path.read_text("utf-8"))))
    except OSError as error:
        raise SettingsError(f"{name}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SettingsError(f"{name}: is not TOML: {error}") from None
    names = known()
    if unknown := [name for name in values if name not in names]:
        raise SettingsError("\n".join(f"{path}: unknown setting {name}{_nearest(name, names)}" for name in unknown))
    return values


def _environment() -> Mapping[str, str]:
    names = {PREFIX + name.replace(".", "__").upper(): name for name in known()}
    found = [name for name in os.environ if name.startswith(PREFIX) and name != CONFIG]
    if unknown := [name for name in found if name not in names]:
        raise SettingsError("\n".join(f"unknown variable {name}{_nearest(name, names)}" for name in sorted(unknown)))
    return {names[name.upper()]: value for name, value in os.environ.items() if name.upper() in names}


def _nearest(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _line(fault: ErrorDetails, sources: Mapping[str, str]) -> str:
    context = fault.get("ctx", {})
    name = str(context.get("setting") or ".".join(str(step) for step in fault["loc"]))
    value = context.get("value", fault["input"])
    source = next((text for setting, text in sources.items() if name == setting or name.startswith(setting + ".")), "")
    return f"{name}{shown(name, value)}{f' ({source})' if source else ''}: {_message(fault)}"


_MESSAGES = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dataclass_type": "must be a table",
    "extra_forbidden": "is not a setting",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "missing": "is missing",
    "model_type": "must be a table",
    "string_type": "must be a text",
    "tuple_type": "must be a list",
}
"""In place of the library's messages, which use Python's terms."""


def _message(fault: ErrorDetails) -> str:
    if fault["type"] == "literal_error":
        return f"must be {fault['ctx']['expected'].replace(chr(39), '')}"
    if fault["type"] == "greater_than_equal":
        return f"must be at least {fault['ctx']['ge']:g}"
    said = _MESSAGES.get(fault["type"], fault["msg"])
    return said.removeprefix("Value error, ").replace("Input should ", "must ").replace("String should ", "must ")


_SECRET = frozenset({"tokens", "api_keys", "secret_keys", "signing_keys"})


def shown(name: str, value: object) -> str:
    """Return ` = value`, except where the value may be a secret."""
    if not _SECRET.isdisjoint(name.split(".")):
        return ""
    text = value if isinstance(value, str) else str(value)
    if name == "store" and "@" in text:
        text = f"{urlsplit(text).scheme}://…@{text.rpartition('@')[2]}"
    return f" = {text!r}" if isinstance(value, str) else f" = {text}"
