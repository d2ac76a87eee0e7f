"""Where settings come from: flags, then the environment, then one file, then defaults. Unknown names are errors."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import reduce
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from a2a_server.ports.store import store_name
from a2a_server.settings.model import Settings

PREFIX = "A2A_"
CONFIG = "A2A_CONFIG"
DEFAULT_FILE = "a2ad.toml"

Tree = dict[str, Any]


class SettingsError(Exception):
    """The settings are invalid; the message has one line per fault."""

    def __init__(self, faults: Iterable[str], *, log_format: object) -> None:
        super().__init__("\n".join(faults))
        self.log_format = log_format
        """The value of `log.format`, valid or not."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, and the source of each one that is not at its default."""

    settings: Settings
    sources: Mapping[str, str]


def load(
    flags: Mapping[str, Any] | None = None, *, config: str | None = None, needed: Mapping[str, str] | None = None
) -> Loaded:
    """Read all sources, or raise `SettingsError` with everything that is wrong.

    `needed`: settings that may not be empty, and what to say if they are.
    """
    reading = Reading()
    reading.file(config)
    reading.environment()
    for name, value in _leaves(flags or {}, known()):
        reading.take(name, value, "flag")
    log_format = reading.values.get("log", {}).get("format")
    settings = reading.settled(needed or {})
    if settings is None or reading.faults:
        raise SettingsError(reading.faults, log_format=log_format)
    return Loaded(settings, reading.sources)


@dataclass(slots=True)
class Reading:
    """What the sources say, each overriding those before, and what is wrong with it."""

    values: Tree = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def take(self, name: str, value: object, source: str) -> None:
        put(self.values, name, value)
        self.sources = {each: said for each, said in self.sources.items() if not each.startswith(f"{name}.")}
        self.sources[name] = source

    def file(self, config: str | None) -> None:
        path, named = _config_path(config)
        if path is None:
            return
        try:
            text = path.read_text("utf-8")
            tree = tomllib.loads(text)
        except OSError as error:
            self.faults.append(f"{named}: cannot be read: {error.strerror}")
        except ValueError as error:
            self.faults.append(f"{named}: is not TOML: {error}")
        else:
            self._file(path, tree, _lines(text))

    def _file(self, path: Path, tree: Tree, lines: Mapping[str, int]) -> None:
        names, tables = known(), {name for name, _ in sections()}
        for name, value in _leaves(tree, names):
            line = lines[_closest(name, lines)]
            if name in names:
                self.take(name, value, f"file {path}, line {line}")
                self.sources |= {n: f"file {path}, line {at}" for n, at in lines.items() if n.startswith(f"{name}.")}
            elif name not in tables:
                self.faults.append(f"{path}, line {line}: unknown setting {name}{_nearest(name, [*names, *tables])}")
            elif value != {}:
                self.faults.append(f"{path}, line {line}: {name} must be a table: [{name}]")

    def environment(self) -> None:
        names = {PREFIX + name.replace(".", "__").upper(): name for name in known()}
        for variable, value in sorted(os.environ.items()):
            if (name := names.get(variable.upper())) is not None:
                self.take(name, value, f"environment {variable}")
            elif variable.startswith(PREFIX) and variable != CONFIG:
                self.faults.append(f"unknown variable {variable}{_nearest(variable, names)}")

    def settled(self, needed: Mapping[str, str]) -> Settings | None:
        """Make the settings. Those that are wrong are left out, to see what is wrong with the others."""
        left_out: set[str] = set()
        while True:
            try:
                settings = Settings(**self.values)
            except ValidationError as error:
                found = error.errors()
            else:
                missing = [name for name in needed if not (attrgetter(name)(settings) or name in left_out)]
                self.faults += [f"{name}: {needed[name]}" for name in missing]
                return settings
            self.faults += [_line(fault, self.sources) for fault in found if not _depends(fault, left_out)]
            names = {_name(fault) for fault in found if fault["loc"]}
            if not [name for name in names if _left_out(self.values, name)]:
                return None  # what they say together is wrong, which is seen last
            left_out |= names


def _depends(fault: ErrorDetails, names: Iterable[str]) -> bool:
    """Whether a fault may have no other cause than settings that were left out."""
    reads = fault.get("ctx", {}).get("reads", ())
    return any(f"{name}.".startswith(f"{read}.") for name in names for read in reads)


def _left_out(tree: Tree, name: str) -> bool:
    """Remove the setting that a fault names, or the one whose value has the fault."""
    step, _, rest = name.partition(".")
    if rest and isinstance(inside := tree.get(step), dict):
        return _left_out(inside, rest)
    there = step in tree
    tree.pop(step, None)
    return there


def known() -> list[str]:
    """List the dotted name of every setting."""
    return [f"{section}.{name}".removeprefix(".") for section, model in sections() for name in members(model)]


def sections() -> Iterator[tuple[str, type]]:
    """Yield the settings' tables, the nameless one first."""
    yield "", Settings
    yield from _inside(Settings)


def _inside(model: type, prefix: str = "") -> Iterator[tuple[str, type]]:
    found = model.model_fields.items() if issubclass(model, BaseModel) else ()
    for name, said in found:
        if _is_section(said.annotation):
            inner = cast("type", said.annotation)
            yield prefix + name, inner
            yield from _inside(inner, f"{prefix}{name}.")


def members(model: type) -> list[str]:
    """List the settings of a table, without the tables inside it."""
    if is_dataclass(model):
        return [each.name for each in fields(model)]
    model_fields = cast("type[BaseModel]", model).model_fields
    return [name for name, said in model_fields.items() if not _is_section(said.annotation)]


def _is_section(kind: object) -> bool:
    return isinstance(kind, type) and (issubclass(kind, BaseModel) or is_dataclass(kind))


def put(tree: Tree, name: str, value: object) -> None:
    *tables, last = name.split(".")
    reduce(lambda table, key: table.setdefault(key, {}), tables, tree)[last] = value


def _leaves(tree: Mapping[str, Any], names: Container[str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted names and values; lists are values, and so is whatever stands where a setting should."""
    for key, value in tree.items():
        name = prefix + key
        if value and isinstance(value, dict) and name not in names:
            yield from _leaves(value, names, f"{name}.")
        else:
            yield name, value


def _config_path(config: str | None) -> tuple[Path | None, str]:
    """The settings file, and how errors name it: by the flag or the variable that it came from, if any."""
    for source, named in (("--config", config), (CONFIG, os.environ.get(CONFIG))):
        if named:
            return Path(named), f"{source} = {named!r}"
    default = Path(DEFAULT_FILE)
    return default if default.is_file() else None, DEFAULT_FILE


def _lines(text: str) -> Mapping[str, int]:
    """The line on which each table and each setting of a file begins; under the empty name, the one for all others."""
    found = {"": 1}
    table, entries = "", Counter[str]()
    for number, line in enumerate(text.split("\n"), 1):
        if head := _TABLE.match(line):
            table = head[2]
            found.setdefault(table, number)
            if head[1] == "[[":
                entries[table] += 1
                table = f"{table}.{entries[table] - 1}"
                found[table] = number
        elif key := _KEY.match(line):
            found.setdefault(f"{table}.{key[1]}".removeprefix("."), number)
    return found


_TABLE = re.compile(r"\s*(\[\[?)\s*([\w.-]+)\s*\]")
_KEY = re.compile(r"\s*([\w.-]+)\s*=")


def _closest(name: str, places: Container[str]) -> str:
    """The name itself, or the nearest one around it that has a place."""
    while name and name not in places:
        name = name.rpartition(".")[0]
    return name


def _nearest(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _name(fault: ErrorDetails) -> str:
    return str(fault.get("ctx", {}).get("setting") or ".".join(str(step) for step in fault["loc"]))


def _line(fault: ErrorDetails, sources: Mapping[str, str]) -> str:
    name, context = _name(fault), fault.get("ctx", {})
    source = sources.get(_closest(name, sources), "")
    if not source:  # it is not set, or is a table: name what is
        reads = (f"{name}.", *context.get("reads", ()))
        source = next((f"{each}: {said}" for each, said in sources.items() if each.startswith(reads)), "")
    value = context.get("value", fault["input"])
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


_SECRET = frozenset(
    {
        "token",
        "tokens",
        "api_keys",
        "password",
        "passwords",
        "introspection",
        "secret_hash",
        "secret_keys",
        "shared_key",
        "shards",
        "signing_keys",
        "store_keys",
    }
)


def shown(name: str, value: object) -> str:
    """Return ` = value`, except where the value may be a secret."""
    if name == "auth.proxy" or not _SECRET.isdisjoint(name.split(".")):
        return ""
    text = value if isinstance(value, str) else str(value)
    if name in {"store", "postgresql.wakeup_dsn"}:
        text = store_name(text)
    return f" = {text!r}" if isinstance(value, str) else f" = {text}"
