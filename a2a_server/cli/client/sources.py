"""Where settings come from: flag, variable, local file, the agent's file, global file (spec: CLI-07, -08, -59, -60)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from a2a_server.cli.client.failures import usage
from a2a_server.cli.client.settings import SOURCES, ClientSettings, member

PREFIX: Final = "A2ACLI_"
BUILT_IN: Final = "built-in"
_MOST_BYTES: Final = 2**20
_LINE: Final = re.compile(r"\s*(?:export\s+)?(" + PREFIX + r"[A-Z0-9_]+)\s*=\s*(.*?)\s*")
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_Layer = Mapping[str, tuple[str, str]]
"""Texts and their sources, by the names of settings."""


@dataclass(frozen=True, slots=True)
class SettingInEffect:
    """The text of one setting, and who has given it."""

    text: str
    source: str
    rank: int
    """0 is a flag; who has the lower rank wins."""


@dataclass(frozen=True, slots=True)
class GivenSettings:
    """All settings of one command."""

    values: ClientSettings
    origins: Mapping[str, SettingInEffect]
    """Those that somebody has given, by the names of their flags."""
    warnings: Sequence[str] = ()
    config: str = ""
    """The file that `--config` names."""

    def by_flag(self, name: str) -> bool:
        return name in self.origins and self.origins[name].rank == 0


def folder() -> Path:
    """Return where settings and logins of this user are."""
    return Path("~/.config/a2a-cli").expanduser()


def variable(name: str) -> str:
    return PREFIX + name.upper().replace("-", "_")


def agent_name(card: str) -> str:
    """Return the name of an agent's file: host and port of its card's URL, such as agents.example_8080."""
    parts = urlsplit(card if "://" in card else f"//{card}")
    return re.sub(r"[^a-z0-9.-]", "_", parts.netloc.rpartition("@")[2].lower())


def given(flags: Mapping[str, str], config: str = "") -> GivenSettings:
    """Merge what there is. `flags` has the texts of the flags, by name."""
    warnings: list[str] = []
    found = _merged(flags, config, warnings)
    _settle_waiting(found)
    return GivenSettings(_read(found), MappingProxyType(found), warnings, config)


def configured() -> Mapping[str, SettingInEffect]:
    """Return what is set without any flag; some of it may be wrong."""
    return _merged({}, "", [])


def _merged(flags: Mapping[str, str], config: str, warnings: list[str]) -> dict[str, SettingInEffect]:
    told = {name: (text, f"flag --{name}") for name, text in flags.items()}
    layers = [told, _variables(os.environ, "variable"), _local(config, warnings)]
    everywhere = _file(folder() / ".env", warnings)
    card = next((layer["agent-card"][0] for layer in (*layers, everywhere) if "agent-card" in layer), "")
    if name := agent_name(card):
        layers.append(_file(folder() / "agents" / f"{name}.env", warnings))
    found: dict[str, SettingInEffect] = {}
    for rank, layer in enumerate((*layers, everywhere)):
        for name, (text, source) in layer.items():
            found.setdefault(name, SettingInEffect(text, source, rank))
    return found


def _variables(held: Mapping[str, str], source: str) -> _Layer:
    """Find the settings among variables. Switches that are flags only have no variable."""
    names = (name for name, it in SOURCES.items() if not it.flag_only)
    return {
        name: (text, source if "file" in source else f"{source} {variable(name)}")
        for name in names
        if (text := held.get(variable(name), ""))
    }


def _local(config: str, warnings: list[str]) -> _Layer:
    """Read the file that is named, or the first `.env` from the working directory upwards."""
    if named := config or os.environ.get(variable("config"), ""):
        if not Path(named).is_file():
            raise usage(f"--config: there is no file {named!r}", "Name a file with lines such as A2ACLI_OUTPUT=json.")
        return _file(Path(named), warnings)
    here = Path.cwd()
    found = next((path for place in (here, *here.parents) if (path := place / ".env").is_file()), None)
    return {} if found is None or found == folder() / ".env" else _file(found, warnings)


def _file(path: Path, warnings: list[str]) -> _Layer:
    """Read `NAME=value` lines. What others own or can write might send credentials anywhere, so it is left out."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return {}
        lines = [match for line in _text(path).splitlines() if (match := _LINE.fullmatch(line))]
    except (OSError, ValueError) as error:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            warnings.append(f"{path} cannot be read: {error}")
        return {}
    if lines and (status.st_uid not in {os.geteuid(), 0} or status.st_mode & _OTHERS_WRITE):
        warnings.append(f"{path} is not used, because others own it or can write it. Try: chmod go-w {path}")
        return {}
    return _variables({match[1]: _unquoted(match[2]) for match in lines}, f"file {path}")


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8")


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _settle_waiting(found: dict[str, SettingInEffect]) -> None:
    """Let the stronger of `async` and its opposites win; two flags contradict each other."""
    later = found.get("async")
    if later is None or not yes_or_no_of(later.text):
        return
    for name in ("wait", "stream"):
        it = found.get(name)
        if it is None or not yes_or_no_of(it.text):
            continue
        if it.rank == later.rank:
            raise usage(f"--async and --{name} contradict each other; give one of them")
        found.pop("async" if it.rank < later.rank else name, None)


def yes_or_no_of(text: str) -> bool:
    return text.lower() in {"true", "1", "yes", "on"}


def _read(found: Mapping[str, SettingInEffect]) -> ClientSettings:
    values: dict[str, Any] = {}
    for name, it in found.items():
        try:
            values[member(name)] = SOURCES[name].read(it.text)
        except ValueError as error:
            shown = "" if SOURCES[name].secret else f", not {it.text!r}"
            raise usage(f"{it.source}: --{name} {error}{shown}") from None
    return ClientSettings(**values)
