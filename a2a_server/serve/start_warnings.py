"""Warnings at the start: settings that work, but are hardly meant for production (spec: SECR-05).

Each is a line of the log: its name, what is wrong, and what to do. docs/operating.md has the table.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import structlog

from a2a_server.settings import Settings
from a2a_server.settings.model import MEMORY, SQLITE
from a2a_server.transport.address import Address

log = structlog.get_logger(__name__)


class StartWarning(NamedTuple):
    """One warning."""

    name: str
    why: str
    cure: str
    what: str = ""
    """The setting or file that it is about."""


def warn(settings: Settings, *, gateway: bool = False) -> None:
    """Log each warning for these settings of a server, or of a gateway that runs alone, once."""
    for warning in of_gateway(settings) if gateway else of_server(settings):
        told = {"why": warning.why, "cure": warning.cure}
        log.warning(warning.name, **told, **({"what": warning.what} if warning.what else {}))


def of_server(settings: Settings) -> Iterator[StartWarning]:
    known = settings.auth.knows_callers
    doors = {"grpc": settings.grpc, "http": settings.http}
    open_doors = [name for name, at in doors.items() if at and not Address.parse(at).loopback]
    if open_doors and not known:
        why = "callers on other machines are served without authentication, and all share one owner's tasks"
        yield StartWarning(
            "start.anonymous_beyond_loopback", why, "configure auth.tokens, auth.api_keys or auth.issuers"
        )
    if open_doors and known and _is_plain(settings):
        yield _plain(", ".join(open_doors))
    served = bool(open_doors or settings.public_url or settings.gateway.trusted_proxies)
    sealed = settings.push.secret_keys or settings.store_keys
    if served and settings.push.enabled and not sealed and settings.store != MEMORY:
        why = "tokens and credentials of webhooks are stored in the clear"
        yield StartWarning("start.webhook_secrets_unsealed", why, "set push.secret_keys, or push.enabled = false")
    if "*" in settings.gateway.cors_origins and settings.http and not known:
        why = "any web page that a user of this network opens may call"
        yield StartWarning("start.any_origin_without_authentication", why, "list the origins in gateway.cors_origins")
    yield from _of_files(settings)


def of_gateway(settings: Settings) -> Iterator[StartWarning]:
    """Only the upstream knows whether callers have credentials, so this warns as if they had."""
    if not Address.parse(settings.http).loopback and _is_plain(settings):
        yield _plain("http")
    hosts = [at for at in settings.upstream.addresses if not _is_local(at)]
    if hosts and not settings.upstream.secure:
        why = "credentials of callers are passed on to other machines in plain text"
        yield StartWarning("start.upstream_in_plain_text", why, "set upstream.tls = true", ", ".join(hosts))
    yield from _of_files(settings)


def _is_plain(settings: Settings) -> bool:
    """Whether clients use no TLS, as far as is known: where `public_url` is https, a proxy in front speaks TLS."""
    return not settings.tls.cert and not settings.public_url.startswith("https:")


def _plain(doors: str) -> StartWarning:
    why = "credentials of callers cross the network in plain text"
    cure = "set tls.cert and tls.key, or listen on 127.0.0.1 behind a proxy and set public_url"
    return StartWarning("start.credentials_in_plain_text", why, cure, doors)


def _is_local(upstream: str) -> bool:
    try:
        return Address.parse(upstream).loopback
    except ValueError:  # in a spelling of gRPC's own
        return upstream.startswith("unix:")


def _of_files(settings: Settings) -> Iterator[StartWarning]:
    store = settings.store.removeprefix(SQLITE) if settings.store.startswith(SQLITE) else ""
    kept = {"store": store, "audit.to": settings.audit.path, "tls.cert": settings.tls.cert}
    kept["auth.tokens_file"] = settings.auth.tokens_file
    keys = {"tls.key": settings.tls.key, "upstream.key": settings.upstream.key, "peers.key": settings.peers.key}
    secret = {**keys, **settings.secret_files}
    for name, path in {**kept, **secret}.items():
        mode = _mode(path)
        if mode & stat.S_IWOTH:
            yield StartWarning(
                "start.file_others_can_write", f"any account can change {name}", f"chmod o-w {path}", path
            )
        if mode & stat.S_IROTH and name in secret:
            yield StartWarning("start.file_others_can_read", f"any account can read {name}", f"chmod o-r {path}", path)


def _mode(path: str) -> int:
    try:
        return Path(path).stat().st_mode if path else 0
    except OSError:  # which whoever opens it will say
        return 0
