"""The part of the composition root that is about webhooks: settings → sender, sealer, forms, operators' books."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar

import orjson
import structlog
from pydantic import SecretStr

from a2a_server.adapters.sealing import Sealing, sealing_keys
from a2a_server.adapters.sqlite.push_books import PushBooks
from a2a_server.adapters.webhook import Signer, WebhookSender, jwks, signing_keys
from a2a_server.operations.push.delivery import Delivery, Form
from a2a_server.ports.clock import Clock
from a2a_server.ports.hooks import Books
from a2a_server.ports.store import StoreRefused
from a2a_server.protocol.draft.json import DRAFT as DRAFT_JSON
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.names import A2A_JSON, CURRENT, DRAFT, JSON, LEGACY
from a2a_server.protocol.v0_3.json import kind_json
from a2a_server.settings import Settings
from a2a_server.settings.model import MEMORY, SQLITE
from a2a_server.settings.push import Push

JWKS_PATH = "/.well-known/jwks.json"

_A2A, _JSON = A2A_JSON, JSON

K = TypeVar("K")

log = structlog.get_logger(__name__)


class UnusableKeys(Exception):  # noqa: N818 - a verdict on the settings
    """A key in the settings is none; the message names the setting."""


def forms_of() -> Mapping[str, Form]:
    """How webhooks look to the clients of each version (CONF-36)."""
    return {
        CURRENT: Form(_A2A, V1.encode),
        LEGACY: Form(_JSON, kind_json().codec.encode, whole=True),
        DRAFT: Form(_A2A, DRAFT_JSON.codec.encode, DRAFT_JSON.last.encode),
    }


def delivery_of(settings: Settings, clock: Clock, issuer: str) -> Delivery | None:
    """None where webhooks are switched off. `issuer` signs them unless the settings name another."""
    push = settings.push
    if not push.enabled:
        return None
    if push.allow_loopback:
        log.warning("push.loopback_allowed", why="for development only: callers can reach what listens on this machine")
    return Delivery(
        sender=sender_of(push, clock, push.issuer or issuer),
        sealer=Sealing(_keys(sealing_keys, push.secret_keys)),
        forms=forms_of(),
        patience=push.patience,
        challenge=push.challenge,
    )


def sender_of(push: Push, clock: Clock, issuer: str) -> WebhookSender:
    keys = _keys(signing_keys, push.signing_keys)
    return WebhookSender(
        push.policy,
        clock,
        timeout=push.timeout,
        longest_wait=push.retry_most,
        user_agent=_user_agent(),
        sign=Signer(keys, issuer, clock) if keys else None,
        # Words between certificates may be in any alphabet.
        trust=Path(push.trust).read_text("ascii", "ignore") if push.trust else "",
    )


def books_of(settings: Settings) -> Books:
    """What operators look into; a server may be using the same file."""
    if settings.store == MEMORY:
        raise StoreRefused("store = 'memory:': what it holds is known to the server's own process alone")
    return PushBooks(Path(settings.store.removeprefix(SQLITE)))


def documents_of(settings: Settings) -> Mapping[str, bytes]:
    """What the HTTP door shows to whoever verifies signatures (PAID-05)."""
    keys = _keys(signing_keys, settings.push.signing_keys) if settings.push.enabled else ()
    return {JWKS_PATH: orjson.dumps(jwks(keys))} if keys else {}


def _keys(read: Callable[[Sequence[str]], Sequence[K]], texts: Sequence[SecretStr]) -> Sequence[K]:
    try:
        return read([text.get_secret_value() for text in texts])
    except ValueError as error:
        raise UnusableKeys(str(error)) from None


def _user_agent() -> str:
    try:
        return f"a2ad/{version('a2ad')}"
    except PackageNotFoundError:  # run from a checkout
        return "a2ad"
