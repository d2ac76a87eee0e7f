"""`a2ad keys`: API keys in the store, made and revoked while servers run (spec: GATE-08)."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import string
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar

import click

from a2a_server.cli.administration import STORE, administer, printable, utc
from a2a_server.cli.credentials import named
from a2a_server.ports.journal import AuditEvent, AuditKind
from a2a_server.ports.keys import KeyAdmin, StoredKey
from a2a_server.settings import Settings

T = TypeVar("T")
Tell = Callable[[AuditEvent], None]

_PARTS: Final = ((string.ascii_lowercase + string.digits, 12), (string.ascii_letters + string.digits, 43))
"""What the id and the secret are made of."""
_SPAN: Final = re.compile(r"([1-9][0-9]{0,5})([smhdwy])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def keys() -> None:
    """Make, list and revoke API keys in the store.

    These commands work on the store of the settings in effect, whether or not a server is using it. A running
    server with auth.stored_keys = true notices changes within a second.
    """


def _in_ms(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """Read `90d` or a time."""
    if text is None:
        return None
    if found := _SPAN.fullmatch(text):
        return _now_ms() + int(found[1]) * _SECONDS[found[2]] * 1000
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = datetime.min  # noqa: DTZ901 - it has no zone, either
    if when.tzinfo is None:
        raise click.BadParameter("must be a span such as 90d or 12h, or a time such as 2027-01-01T00:00:00Z")
    if when.timestamp() <= time.time():
        raise click.BadParameter("is in the past")
    return int(when.timestamp() * 1000)


@keys.command()
@click.option("--owner", required=True, callback=named, help="The owner whose tasks the key gives access to.")
@click.option("--tenant", default="", help="The tenant that the caller is bound to.  [default: any]")
@click.option(
    "--scope", "scopes", multiple=True, help="What the caller may do; may be repeated.  [default: everything]"
)
@click.option("--extended-card", is_flag=True, help="Let the caller read the extended agent card.")
@click.option("--expires", "expires_ms", callback=_in_ms, metavar="WHEN", help="A span such as 90d, or a time.")
@click.option("--name", default="", help="What the key is for, for the list.")
@STORE
def create(  # noqa: PLR0913 - the options
    *,
    owner: str,
    tenant: str,
    scopes: tuple[str, ...],
    extended_card: bool,
    expires_ms: int | None,
    name: str,
    as_json: bool,
    store: str | None,
    config: str | None,
) -> None:
    """Make a key, and print it once.

    The store has only its hash. A key is a2a_ID_SECRET; with its id it can be revoked.

    \b
    a2ad keys create --owner ann --expires 90d --name "nightly build"
    KEY=$(a2ad keys create --owner ann --scope a2a:read)
    """  # noqa: D301 - click wants the character
    key_id, secret = ("".join(secrets.choice(letters) for _ in range(n)) for letters, n in _PARTS)
    text = f"a2a_{key_id}_{secret}"
    digest = hashlib.sha256(text.encode()).digest()
    allowed = frozenset(scopes) or None
    key = StoredKey(key_id, digest, owner, tenant, allowed, extended_card, name, _now_ms(), expires_ms)

    def make(admin: KeyAdmin, tell: Tell) -> None:
        admin.make(key)
        tell(AuditEvent(AuditKind.KEY_CREATED, owner, tenant, key_id=key_id))

    _change(store, config, make, "a2ad keys create")
    if as_json:
        click.echo(json.dumps({"key": text, **_told(key)}, indent=2, ensure_ascii=False))
        return
    click.echo(text)
    click.echo(f"Made {_line(key)}. The key is shown only once.", err=True)


@keys.command("list")
@click.option("--owner", default="", help="Only keys of this owner.")
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="The most keys to show.")
@STORE
def list_(*, owner: str, limit: int, as_json: bool, store: str | None, config: str | None) -> None:
    """List keys, the newest first; those that have expired or were revoked, too."""
    found = _with(store, config, lambda admin: admin.keys(owner, limit))
    if as_json:
        click.echo(json.dumps({"keys": [_told(key) for key in found]}, indent=2, ensure_ascii=False))
        return
    for key in found:
        click.echo(_line(key))
    click.echo(f"{len(found)} keys")


@keys.command()
@click.argument("key_id", metavar="ID")
@STORE
def revoke(*, key_id: str, as_json: bool, store: str | None, config: str | None) -> None:
    """Revoke a key for good, by the id between its first two underscores and its secret."""

    def end(admin: KeyAdmin, tell: Tell) -> StoredKey | None:
        if (found := admin.revoke(key_id, _now_ms())) is not None:
            tell(AuditEvent(AuditKind.KEY_REVOKED, found.owner, found.tenant, key_id=key_id))
        return found

    key = _change(store, config, end, "a2ad keys revoke")
    if key is None:
        raise click.ClickException(f"there is no key {key_id!r}; `a2ad keys list` shows the ids")
    click.echo(json.dumps(_told(key), indent=2, ensure_ascii=False) if as_json else f"Revoked {_line(key)}")


def _with(store: str | None, config: str | None, do: Callable[[KeyAdmin], T]) -> T:
    def work(settings: Settings) -> T:
        from a2a_server.serve.administration import key_admin_of  # noqa: PLC0415 - it takes a while, and --help should not

        return do(key_admin_of(settings))

    return administer(store, config, work)


def _change(store: str | None, config: str | None, do: Callable[[KeyAdmin, Tell], T], command: str) -> T:
    """Change something, and tell the audit (SECR-01)."""

    def work(settings: Settings) -> T:
        from a2a_server.cli.administration import audited  # noqa: PLC0415 - as above
        from a2a_server.serve.administration import key_admin_of  # noqa: PLC0415 - as above

        with audited(settings, command) as tell:
            return do(key_admin_of(settings), tell)

    return administer(store, config, work)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _told(key: StoredKey) -> dict[str, object]:
    """Everything but the hash, for programs."""
    return {
        "id": key.key_id,
        "owner": key.owner,
        "tenant": key.tenant,
        "scopes": None if key.scopes is None else sorted(key.scopes),
        "extendedCard": key.extended_card,
        "name": key.name,
        "created": utc(key.made_ms),
        "expires": utc(key.expires_ms),
        "lastUsed": utc(key.used_ms),
        "revoked": utc(key.revoked_ms),
    }


def _line(key: StoredKey) -> str:
    said = {
        "tenant": key.tenant,
        "scopes": None if key.scopes is None else " ".join(sorted(key.scopes)),
        "name": key.name,
        "expires": utc(key.expires_ms),
        "used": utc(key.used_ms),
        "revoked": utc(key.revoked_ms),
    }
    more = "".join(f", {what} {printable(value)}" for what, value in said.items() if value)
    return f"{key.key_id}: {printable(key.owner)}, made {utc(key.made_ms)}{more}"
