"""The client's settings, each with its name, its meaning, and how its text is read (spec: CLI-04, OP-08, OP-14)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final, TypeVar

T = TypeVar("T")

_WORDS: Final = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")
_LONGEST: Final = 30 * 86400.0
_BINDINGS: Final = {"jsonrpc": "JSONRPC", "http+json": "HTTP+JSON", "rest": "HTTP+JSON", "grpc": "GRPC"}
_PARAMETER: Final = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*[:=]\s*([\x20-\x7e]*)")
_VERSION: Final = re.compile(r"\d+\.\d+(\.\d+)?")


def words(text: str) -> str:
    return text


def yes_or_no(text: str) -> bool:
    if text.lower() not in _WORDS:
        raise ValueError("must be true or false")
    return _WORDS[text.lower()]


def duration(text: str) -> float:
    found = _DURATION.fullmatch(text.strip().lower())
    value = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < value <= _LONGEST:
        raise ValueError("must be a duration of more than zero and at most 30 days, such as 500ms, 2s, 5m or 1h")
    return value


def count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) >= 2**31:
        raise ValueError("must be a whole number from 0 to 2147483647")
    return int(text)


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def json_object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ValueError("""must be a JSON object, such as '{"priority": 3}'""")  # noqa: TRY004 - it is about the text
    return value


def output_format(text: str) -> str:
    if text not in {"text", "json"}:
        raise ValueError("must be text or json")
    return text


def protocol_version(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise ValueError("must be a version such as 1.0")
    return ".".join(text.split(".")[:2])


def bindings(text: str) -> tuple[str, ...]:
    found = tuple(_BINDINGS.get(word.strip().lower(), "") for word in text.split(",") if word.strip())
    if not found or not all(found):
        raise ValueError("must be JSONRPC, HTTP+JSON or GRPC (or jsonrpc, rest, grpc)")
    return found


def parameters(text: str) -> tuple[tuple[str, str], ...]:
    """Read lines such as `name: value`."""
    found = [_PARAMETER.fullmatch(line.strip()) for line in text.splitlines() if line.strip()]
    if not found or not all(found):
        raise ValueError("must be a name and a value, such as x-trace:on")
    return tuple((match[1], match[2]) for match in found if match)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingSource:
    """How a setting is given."""

    read: Callable[[str], Any]
    meaning: str
    flags: Sequence[str] = ()
    """Short form and aliases; the long flag is made of the name."""
    metavar: str = "TEXT"
    built_in: str = "none"
    """As help says it."""
    secret: bool = False
    flag_only: bool = False
    variable_only: bool = False

    @property
    def is_switch(self) -> bool:
        return self.read is yes_or_no

    @property
    def repeats(self) -> bool:
        return self.read in {bindings, parameters}


def _setting(default: T, read: Callable[[str], T], meaning: str, *flags: str, **more: Any) -> T:  # noqa: ANN401 - SettingSource's
    return field(default=default, metadata={"source": SettingSource(read=read, meaning=meaning, flags=flags, **more)})


def _switch(meaning: str, *flags: str, **more: Any) -> bool:  # noqa: ANN401 - SettingSource's
    off = False
    return _setting(off, yes_or_no, meaning, *flags, built_in="off", **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The settings in effect. Each field is one: `agent_card` is `--agent-card` and `A2ACLI_AGENT_CARD`."""

    agent_card: str = _setting(
        "", words, "The agent: a host or origin, the URL of its card, or a file with its card.", "-a", metavar="REF"
    )
    endpoint: str = _setting(
        "", words, "The URL of an agent without a card; needs one --transport.", "-e", metavar="URL"
    )
    task_id: str = _setting("", words, "Continue this task.", metavar="ID")
    context_id: str = _setting("", words, "Start a task in this context.", metavar="ID")
    wait: bool = _setting(
        *(False, yes_or_no, "Wait until the task is finished, or needs something.", "--watch"),
        built_in="send waits, task get reads once",
    )
    async_: bool = _switch("Return the ids at once, and do not wait.", "--return-immediately", "--no-wait")
    poll_interval: float = _setting(
        2.0, duration, "How often a wait asks the agent.", metavar="DURATION", built_in="2s"
    )
    timeout: float | None = _setting(
        None, duration, "How long the command may take.", metavar="DURATION", built_in="no limit"
    )
    output: str = _setting("text", output_format, "The format: text or json.", "-o", metavar="FORMAT", built_in="text")
    stream: bool = _switch("Follow live events.", flag_only=True)
    interactive: bool = _switch("On a terminal, show events as they grow, and ask questions there.", "-i")
    verbose: bool = _switch("Show all parts and data in full.")
    debug: bool = _switch("Log timing, choices and raw messages on stderr.")
    metadata: Mapping[str, Any] | None = _setting(
        None, json_object, "Metadata of the request, as a JSON object.", metavar="JSON"
    )
    svc_param: tuple[tuple[str, str], ...] = _setting(
        (), parameters, "A service parameter: a header of HTTP, or metadata of gRPC. Repeatable.", metavar="NAME:VALUE"
    )
    bearer: str = _setting(
        "", words, "A bearer token. Better in $A2ACLI_BEARER: others can see flags.", metavar="TOKEN", secret=True
    )
    api_key: str = _setting(
        "", words, "An API key. Better in $A2ACLI_API_KEY: others can see flags.", metavar="KEY", secret=True
    )
    insecure: bool = _switch("Do not check TLS certificates. For development.")
    transport: tuple[str, ...] = _setting(
        (),
        bindings,
        "A transport to prefer: JSONRPC, HTTP+JSON or GRPC. Repeatable, best first.",
        metavar="BINDING",
        built_in="the card's order",
    )
    a2a_version: str = _setting(
        "", protocol_version, "The protocol version to signal.", metavar="VERSION", built_in="the highest in common"
    )
    history: int | None = _setting(
        None, count, "How many messages of the history to show.", metavar="N", built_in="as the agent likes"
    )
    client_id: str = _setting("", words, "The client's id, for OAuth.", metavar="ID")
    client_secret: str = _setting("", words, "The client's secret, for OAuth.", secret=True, variable_only=True)


SOURCES: Final[Mapping[str, SettingSource]] = MappingProxyType(
    {it.name.rstrip("_").replace("_", "-"): it.metadata["source"] for it in fields(ClientSettings)}
)
"""Every setting by the name of its flag, in the order of help."""


def member(name: str) -> str:
    """Return the field of `ClientSettings` for a name such as `agent-card`."""
    return "async_" if name == "async" else name.replace("-", "_")


def masked(name: str, text: str) -> str:
    return "***" if SOURCES[name].secret and text else text


def flags() -> dict[str, bool]:
    """Return every flag of a setting, and whether a value follows it."""
    found = {"--config": True}
    for name, source in SOURCES.items():
        if not source.variable_only:
            found |= dict.fromkeys((f"--{name}", *source.flags), not source.is_switch)
            if source.is_switch and name != "wait":
                found[f"--no-{name}"] = False
    return found
