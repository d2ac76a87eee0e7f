"""`a2ad token`: makes tokens, API keys and the hashes of passwords (spec: AUTN-04, SECR-03)."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from a2a_server.cli.configuration import CONFIG, Unusable, settings_from
from a2a_server.domain.password_hash import PasswordHash
from a2a_server.ports.journal import AuditEvent, AuditKind
from a2a_server.settings.credentials import CredentialLists, credentials_in


class _NewByDefault(click.Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["new", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_NewByDefault)
def token() -> None:
    """Make tokens and API keys.

    Without a command, `new` is meant.
    """


def named(_context: click.Context, _option: click.Parameter, owner: str) -> str:
    if not owner or not owner.isprintable():
        raise click.BadParameter("must be a name without control characters")
    return owner


@token.command()
@click.option(
    *("--owner", "owner"),
    default="somebody",
    show_default=True,
    callback=named,
    help="The owner whose tasks the token gives access to. Several tokens may have the same owner.",
)
@click.option("--api-key", is_flag=True, help="Make an API key instead of a bearer token.")
@click.option(
    *("--append", "file"),
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Add the entry to this file, which auth.tokens_file names, and print nothing but the token.",
)
@CONFIG
def new(*, owner: str, api_key: bool, file: Path | None, config: str | None) -> None:
    """Make a random token, and print it once.

    The settings hold only its hash. A file that does not exist is created, and only its owner can read it. A running
    server reads it again within a second.

    \b
    a2ad token new --owner ann
    TOKEN=$(a2ad token new --owner ann --append tokens.toml)
    """  # noqa: D301 - click wants the character
    secret = secrets.token_urlsafe(32)
    table = "api_keys" if api_key else "tokens"
    quoted, digest = json.dumps(owner, ensure_ascii=False), hashlib.sha256(secret.encode()).hexdigest()
    entry = f'owner = {quoted}\nhash = "sha256:{digest}"\n'
    if file is None:
        told = (
            f"# For the client; it is shown only once:\n{secret}\n\n# For the settings file:\n[[auth.{table}]]\n{entry}"
        )
        click.echo(told, nl=False)
        return
    try:
        with _audited(config) as tell, _alone_in(file.resolve().parent):
            found = _appended(file.resolve(), f"[[{table}]]\n{entry}")
            tell(AuditEvent(AuditKind.KEY_CREATED, owner))
    except OSError as error:
        raise Unusable(f"{str(file)!r} cannot be written: {error.strerror}") from None
    except ValueError as error:
        raise Unusable(f"{str(file)!r} {error}; nothing was added") from None
    click.echo(secret)
    count = sum(each.owner == owner for each in found.credentials)
    click.echo(
        f"Added to {file}, which now has {count} of {owner}. A running server reads it within a second.", err=True
    )


@contextmanager
def _audited(config: str | None) -> Iterator[Callable[[AuditEvent], None]]:
    """The audit of the settings in effect. They need not be able to read the file, which may be new."""
    from a2a_server.cli.administration import audited  # noqa: PLC0415 - it takes a while, and --help should not

    told = {"auth.tokens_file": "", "anonymous_beyond_loopback": True}
    with audited(settings_from(told, config).settings, "a2ad token new") as tell:
        yield tell


@token.command()
@click.option(
    *("--owner", "owner"), required=True, callback=named, help="The owner whose tasks the caller sees, and the user."
)
@click.option("--user", default="", help="The name to log in with, if it is not the owner.")
def password(*, owner: str, user: str) -> None:
    """Hash a password for HTTP Basic, and print the entry for the settings.

    The password is asked for, or read from standard input.

    \b
    a2ad token password --owner ann >> tokens.toml
    """  # noqa: D301 - click wants the character
    if sys.stdin.isatty():
        text = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        text = sys.stdin.readline().removesuffix("\n").removesuffix("\r")
    if not text or not text.isprintable():
        raise Unusable("a password must not be empty, and must not have control characters")
    if ":" in (user or owner):
        raise Unusable("a user name cannot have a colon, because HTTP Basic ends the name there")
    lines = {"owner": owner, "user": user} if user else {"owner": owner}
    entry = "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in lines.items())
    click.echo(f'[[passwords]]\n{entry}hash = "{PasswordHash.of(text, secrets.token_bytes(16))}"')


def _appended(path: Path, entry: str) -> CredentialLists:
    """Replace a file by one with another entry, or leave it as it is and say what is wrong."""
    before = path.read_bytes() if path.exists() else b""
    credentials_in(before)
    gap = b"" if not before else b"\n" if before.endswith(b"\n") else b"\n\n"
    after = before + gap + entry.encode()
    found = credentials_in(after)
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 600
    try:
        with os.fdopen(number, "wb") as written:
            if path.exists():
                was = path.stat()
                os.fchown(number, was.st_uid, was.st_gid)
                os.fchmod(number, was.st_mode & 0o7777)
            written.write(after)
            written.flush()
            os.fsync(number)
        Path(name).replace(path)
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()
    return found


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait for others who add to a file of the folder."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
