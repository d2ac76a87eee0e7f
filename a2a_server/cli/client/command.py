"""Commands of the client: options before and after them, settings in effect, failures in the chosen format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeVar

import click

from a2a_server import __version__
from a2a_server.cli.client.failures import INTERNAL, INTERRUPTED, CommandFailure, usage
from a2a_server.cli.client.settings import SOURCES, flags, masked
from a2a_server.cli.client.sources import GivenSettings, configured, given
from a2a_server.protocol.names import VERSION

R = TypeVar("R")

_LEADING: Final = "a2ad.leading"
_ARGUMENTS: Final = "a2ad.arguments"
_PARTS: Final = ("text", "file", "data", "media-type")
_ALIASES: Final = {"text": "--text-part", "file": "--file-part", "data": "--data-part"}

COMMON: Final = (
    *("agent-card", "endpoint", "output", "stream", "verbose", "debug", "timeout", "svc-param", "bearer", "api-key"),
    *("insecure", "transport", VERSION),
)
"""What every command takes that calls an agent."""

CommandDecorator = Callable[[Callable[..., None]], Callable[..., None]]

version_option = click.version_option(__version__, "-v", "--version", prog_name="a2ad")


class PartFlag(NamedTuple):
    """One of `--text`, `--file` and `--data`."""

    kind: str
    value: str
    media_type: str = ""


class SettingOption(click.Option):
    """An option of a setting: its help shows the value in effect."""

    def __init__(self, name: str) -> None:
        self.setting = name
        source = SOURCES[name]
        spelled = f"--{name}/--no-{name}" if source.is_switch and name != "wait" else f"--{name}"  # --no-wait: --async
        shape: dict[str, Any] = {"is_flag": True} if source.is_switch else {"metavar": source.metavar}
        param = f"given_{name.replace('-', '_')}"
        super().__init__(
            [param, *source.flags, spelled], default=None, multiple=source.repeats, help=source.meaning, **shape
        )

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        source = SOURCES[self.setting]
        shorts = [flag for flag in source.flags if not flag.startswith("--")]
        names = ", ".join(dict.fromkeys([*shorts, f"--{self.setting}", *source.flags]))
        names += "" if source.is_switch else f" {source.metavar}"
        origin = _for_help().get(self.setting)
        value = origin or source.built_in
        return names, f"{source.meaning}  [default: {value}]"

    def told(self, value: Any) -> str | None:  # noqa: ANN401 - click's
        """Return the text of what the command line says; None if it says nothing."""
        if value is None or value == ():
            return None
        if isinstance(value, bool):
            return str(value).lower()
        return ("\n" if self.setting == "svc-param" else ",").join(value) if isinstance(value, tuple) else str(value)


def _for_help() -> Mapping[str, str]:
    """Return the configured values, and where they come from."""
    try:
        return {name: f"{masked(name, it.text)}, by {it.source}" for name, it in configured().items()}
    except CommandFailure:
        return {}


def settings(*names: str) -> CommandDecorator:
    """The options of settings, and `--config`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        text = "A file to read instead of the local .env."
        command = version_option(command)
        command = click.option("--config", "given_config", metavar="PATH", help=text)(command)
        made = command.__dict__.setdefault("__click_params__", [])
        made.extend(SettingOption(name) for name in reversed(names))
        return command

    return decorate


def part_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that make parts of a message, in the order in which they are given."""
    meanings = {
        "text": ("TEXT", "A text part."),
        "file": ("PATH|URL", "A file: a path is sent inline, a URL is sent as it is."),
        "data": ("PATH", "A data part from a JSON file; - reads standard input."),
        "media-type": ("TYPE", "The media type of the part before it."),
    }
    for name, (metavar, text) in reversed(meanings.items()):
        spelled = [f"part_{name.replace('-', '_')}", f"--{name}", *([_ALIASES[name]] if name in _ALIASES else [])]
        command = click.option(*spelled, metavar=metavar, multiple=True, help=text)(command)
    return command


class ClientCommand(click.Command):
    """Calls its function with `told`, the settings in effect, and with `parts`, if it takes parts."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = [*ctx.meta.pop(_LEADING, ()), *args]
        ctx.meta[_ARGUMENTS] = list(args)
        try:
            rest = super().parse_args(ctx, list(args))
            if not ctx.resilient_parsing:
                self._settle(ctx, args)
        except click.UsageError as error:
            raise _shaped(usage(error.format_message(), f"See: {ctx.command_path} --help"), ctx) from None
        except CommandFailure as failure:
            raise _shaped(failure, ctx) from None
        return rest

    def _settle(self, ctx: click.Context, args: Sequence[str]) -> None:
        texts = {
            option.setting: text
            for option in self.params
            if isinstance(option, SettingOption) and (text := option.told(ctx.params.pop(str(option.name)))) is not None
        }
        config = ctx.params.pop("given_config", None)
        if any(option.name == "part_text" for option in self.params):
            ctx.params["parts"] = self._parts(ctx, list(args))
        ctx.params["told"] = given(texts, config or "")

    def _parts(self, ctx: click.Context, args: list[str]) -> Sequence[PartFlag]:
        """Read the flags of parts in their order, which click does not keep."""
        values, _, order = self.make_parser(ctx).parse_args(args=args)
        found: list[PartFlag] = []
        names = {f"part_{name.replace('-', '_')}": name for name in _PARTS}
        for name in names:
            ctx.params.pop(name)
        for param in order:
            kind = names.get(str(param.name))
            if kind is None:
                continue
            value = str(values[str(param.name)].pop(0))
            if kind != "media-type":
                found.append(PartFlag(kind, value))
            elif not found or found[-1].media_type:
                raise usage("--media-type belongs to a --text, --file or --data just before it")
            else:
                found[-1] = found[-1]._replace(media_type=value)
        return found

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's
        try:
            return super().invoke(ctx)
        except CommandFailure as failure:
            raise _shaped(failure, ctx) from None
        except click.UsageError as error:
            raise _shaped(usage(error.format_message()), ctx) from None
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except Exception as error:  # whatever it is, it gets the form of the specification
            hint = "Run it again with --debug."
            raise _shaped(CommandFailure(INTERNAL, f"{type(error).__name__}: {error}", hint=hint), ctx) from error


def _shaped(failure: CommandFailure, ctx: click.Context) -> CommandFailure:
    """Tell the failure its format, also where the command line could not be understood, and what it must not show."""
    told = ctx.params.get("told")
    if isinstance(told, GivenSettings):
        failure.as_json = told.values.output == "json"
        given_secrets = (told.values.bearer, told.values.api_key, told.values.client_secret)
        failure.secrets = [*failure.secrets, *filter(None, given_secrets)]
    else:
        failure.as_json = _asks_for_json(ctx.meta.get(_ARGUMENTS, ()))
    return failure


def _asks_for_json(args: Sequence[str]) -> bool:
    """Look for the format in a command line that may be wrong."""
    wanted = ""
    for number, word in enumerate(args):
        name, equals, value = word.partition("=")
        if name in {"-o", "--output"}:
            wanted = value if equals else next(iter(args[number + 1 :]), "")
        elif word.startswith("-o") and not word.startswith("--"):
            wanted = word[2:]
    if wanted:
        return wanted == "json"
    try:
        found = configured().get("output")
    except CommandFailure:
        return False
    return found is not None and found.text == "json"


class ClientGroup(click.Group):
    """A group that takes the client's options before the command, and imports commands when they are used."""

    homes: Mapping[str, tuple[str, str]] = {}
    """The module of each command that is not imported yet, and its line of help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.homes, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in self.homes:
            import_module(self.homes[cmd_name][0])
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self.summary(name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def summary(self, name: str) -> str:
        return self.homes[name][1] if name in self.homes else self.commands[name].get_short_help_str(limit=110)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {flag for param in self.get_params(ctx) for flag in param.opts}
        known, leading = flags(), list[str]()
        while args and (taken := _taken(args, known)) and args[0].partition("=")[0] not in own:
            leading, args = [*leading, *args[:taken]], args[taken:]
        ctx.meta[_LEADING] = [*ctx.meta.get(_LEADING, ()), *leading]
        return self._in_format(ctx, args, lambda: super(ClientGroup, self).parse_args(ctx, args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return self._in_format(ctx, args, lambda: self._resolved(ctx, args))

    def _resolved(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Those of the server take no options of the client."""
        name, command, rest = super().resolve_command(ctx, args)
        if (leading := ctx.meta.get(_LEADING)) and not isinstance(command, ClientCommand | ClientGroup):
            raise click.NoSuchOption(leading[0], ctx=ctx)
        return name, command, rest

    def _in_format(self, ctx: click.Context, args: Sequence[str], work: Callable[[], R]) -> R:
        try:
            return work()
        except click.UsageError as error:
            words = [*ctx.meta.get(_LEADING, ()), *args]
            if not _asks_for_json(words):
                raise
            failure = usage(error.format_message(), f"See: {ctx.command_path} --help")
            failure.as_json = True
            raise failure from None


def _taken(args: Sequence[str], known: Mapping[str, bool]) -> int:
    """Return how many words the first option takes; 0 if it is not the client's."""
    name, equals, _ = args[0].partition("=")
    if name not in known and len(name) > 2 and name[1] != "-" and known.get(name[:2]):  # noqa: PLR2004 - as in -ojson
        return 1
    if name not in known:
        return 0
    return 2 if known[name] and not equals else 1
