"""What a command is told: flags over environment over file; and all of it printed as TOML (spec: OPER-05)."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, NamedTuple

import click
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from a2a_server.ports.store import store_name
from a2a_server.settings import Credential, Settings, SettingsError, load
from a2a_server.settings.agents import DEMO, AgentTable
from a2a_server.settings.calls import CallCredentials
from a2a_server.settings.credentials import CertificateCaller, Password
from a2a_server.settings.issuers import Introspection, Issuer
from a2a_server.settings.rate_limits import OperationRate, RateClass
from a2a_server.settings.roles import Role
from a2a_server.settings.sections import Section, ShardTable
from a2a_server.settings.sources import Loaded, members, put, sections

CONFIG: Final = click.option(
    "--config", metavar="PATH", help="Settings file (TOML).  [default: $A2A_CONFIG, or a2ad.toml in this folder]"
)
WIDTH = 110
_SEVERAL = 2
TABLES: Final[Mapping[str, type[Section]]] = {
    "agents": AgentTable,
    "auth.tokens": Credential,
    "auth.api_keys": Credential,
    "auth.passwords": Password,
    "auth.issuers": Issuer,
    "auth.introspection": Introspection,
    "auth.certificates": CertificateCaller,
    "auth.roles": Role,
    "calls.credentials": CallCredentials,
    "postgresql.shards": ShardTable,
    "rates.operations": OperationRate,
    "rates.classes": RateClass,
}
"""The settings that are lists of tables."""


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


def settings_from(
    flags: Mapping[str, Any],
    path: str | None,
    *,
    needed: Mapping[str, str] | None = None,
    tell: Callable[[SettingsError], None] | None = None,
) -> Loaded:
    """Read the settings. `flags` are named as by `setting`; those that are None were not given.

    `needed`: settings that may not be empty, and what to say if they are.
    `tell` gets the error first, and may report it itself.
    """
    tree: dict[str, Any] = {}
    for name, value in flags.items():
        if value is not None:
            put(tree, name.replace("__", "."), value)
    try:
        return load(tree, config=path, needed=needed)
    except SettingsError as error:
        if tell is not None:
            tell(error)
        raise Unusable(str(error)) from None


def named(agents: Sequence[str]) -> dict[str, Any]:
    """The settings that agents on the command line stand for. They take the place of those of a file."""
    if len(agents) < _SEVERAL:
        return {"agent": agents[0], "agents": (), "directory": ""} if agents else {}
    by_tenant: dict[str, str] = {}
    for spec in agents:
        tenant = _tenant_of(spec)
        if tenant in by_tenant:
            text = f"{by_tenant[tenant]!r} and {spec!r} would both be the tenant {tenant!r}; list them as [[agents]]"
            raise Unusable(f"{text} in a settings file, each with a tenant of its own")
        by_tenant[tenant] = spec
    return {"agent": DEMO, "agents": [{"tenant": tenant, "agent": spec} for tenant, spec in by_tenant.items()]}


def _tenant_of(spec: str) -> str:
    """The name of an agent: that of the variable, or if that says nothing, of its file or module."""
    place, _, name = spec.partition(":")
    own = name.rpartition(".")[2]
    return own if own not in {"", "agent"} else place.removesuffix(".py").replace("/", ".").rpartition(".")[2]


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
            if f"{section}.{name}" not in TABLES
        ]
        yield SettingGroup(section, inspect.getdoc(model) or "", entries)


def credential() -> Iterator[SettingEntry]:
    """Yield the members of a credential, with samples."""
    expires = datetime(2027, 1, 1, tzinfo=UTC)
    samples = {"owner": "ann", "hash": "sha256:…", "tenant": "", "scopes": ("a2a:read",), "extended_card": False}
    meanings = _meanings(Credential)
    for name, value in {**samples, "expires": expires}.items():
        yield SettingEntry(name, _toml(value), meanings[name])


def sources() -> Iterator[SettingGroup]:
    """Yield the other tables, with the defaults of their members."""
    for name, model in TABLES.items():
        if model is not Credential:
            meanings = _meanings(model)
            members = model.model_fields.items()
            entries = [SettingEntry(member, _default(field), meanings[member]) for member, field in members]
            yield SettingGroup(name, inspect.getdoc(model) or "", entries)


def _default(field: FieldInfo) -> str:
    return _toml(None if field.is_required() else field.get_default(call_default_factory=True, validated_data={}))


def example_file() -> str:
    """Print a file that changes nothing until a line is uncommented."""
    lines = ["# Settings of a2ad. Each shows its default; environment variables: A2A_<SECTION>__<NAME>."]
    for section, _, entries in groups():
        lines += ["", f"[{section}]"] if section else []
        for name, value, meaning in entries:
            lines += ["", *textwrap.wrap(meaning, WIDTH, initial_indent="# ", subsequent_indent="# ")]
            lines.append(f"# {name} = {value}")
    lines += ["", "# [[auth.tokens]]  # or [[auth.api_keys]]; `a2ad token new` makes one"]
    lines += [f"# {name} = {value}  # {meaning}" for name, value, meaning in credential()]
    for section, about, entries in sources():
        lines += ["", f"# [[{section}]]  # {about}"]
        lines += [f"# {name} = {value}  # {meaning}" for name, value, meaning in entries]
    return "\n".join(lines) + "\n"


def _values(settings: Settings, section: str) -> Iterator[tuple[str, object]]:
    part = attrgetter(section)(settings) if section else settings
    for name in members(type(part)):
        value = getattr(part, name)
        yield name, store_name(value) if name in {"store", "wakeup_dsn"} else value


def _toml(value: object) -> str:
    if isinstance(value, Credential):
        told = value.model_dump(exclude={"hash"}, exclude_defaults=True) | {"tenant": value.tenant}
        return "{ " + ", ".join(f"{name} = {_toml(item)}" for name, item in told.items()) + " }"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Section):
        told = {name: getattr(value, name) for name in type(value).model_fields if name in value.model_fields_set}
        value = {name: store_name(item) if name == "dsn" else item for name, item in told.items()}
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_toml(item)}" for name, item in value.items()) + " }" if value else "{}"
    if isinstance(value, SecretStr) or value is None:
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
