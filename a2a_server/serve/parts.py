"""The parts of a server that settings alone describe: adapters, rules, webhooks, and where clients find the doors."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import orjson
import structlog
from pydantic import SecretStr

from a2a_gateway.cards.agent_card import doors_at, old_doors_at
from a2a_proto import a2a_pb2 as pb
from a2a_server import __version__
from a2a_server.adapters.auth import Secret, StaticAuthenticator
from a2a_server.adapters.defaults import Anonymous
from a2a_server.adapters.memory.store import MemoryStore
from a2a_server.adapters.sealing import Sealing, sealing_keys
from a2a_server.adapters.sqlite.push_admin import SqlitePushAdmin
from a2a_server.adapters.sqlite.store import SqliteStore
from a2a_server.adapters.webhook import Signer, WebhookSender, jwks, signing_keys
from a2a_server.operations.push.push_options import PushOptions, WebhookForm
from a2a_server.ports.agent import InternalEvent
from a2a_server.ports.authenticator import Authenticator, Caller
from a2a_server.ports.clock import Clock
from a2a_server.ports.push import PushAdmin
from a2a_server.ports.store import Store, StoreRefused
from a2a_server.protocol.draft.json import DRAFT as DRAFT_JSON
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.names import A2A_JSON, CURRENT, DRAFT, JSON, LEGACY
from a2a_server.protocol.v0_3.json import kind_json
from a2a_server.settings import Credential, Settings
from a2a_server.settings.model import MEMORY, SQLITE
from a2a_server.settings.sections import Push
from a2a_server.transport.address import Address
from a2a_server.transport.grpc.servicer_v0_3 import LegacyServicer
from a2a_server.transport.pipeline import Pipeline
from a2a_server.transport.steps import CallRules, Extensions, Tenants

JWKS_PATH = "/.well-known/jwks.json"
WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - to be recognised

K = TypeVar("K")

log = structlog.get_logger(__name__)


def store_of(settings: Settings) -> Store:
    if settings.store == MEMORY:
        return MemoryStore()
    return SqliteStore(Path(settings.store.removeprefix(SQLITE)))


def authenticator_of(settings: Settings) -> Authenticator:
    auth = settings.auth
    if not auth.credentials:
        return Anonymous()
    tokens, keys = ([_secret(credential) for credential in listed] for listed in (auth.tokens, auth.api_keys))
    return StaticAuthenticator(tokens=tokens, api_keys=keys, api_key_header=auth.api_key_header)


def _secret(credential: Credential) -> Secret:
    caller = Caller(
        credential.owner, authenticated=True, tenant=credential.tenant, extended_card=credential.extended_card
    )
    return Secret(credential.digest, caller)


def rules_of(settings: Settings, card: pb.AgentCard) -> CallRules:
    return CallRules(
        tenants=Tenants(frozenset(settings.tenants), settings.default_tenant),
        extensions=Extensions.of(card.capabilities.extensions, everywhere=settings.require_extensions_everywhere),
        strict_version=settings.strict_version,
        legacy=settings.legacy.enabled,
    )


def old_servicer_of(settings: Settings, pipeline: Pipeline) -> LegacyServicer | None:
    if not settings.legacy.enabled:
        return None
    return LegacyServicer(pipeline, settings.legacy, peer_names=bool(settings.tls.client_ca))


def log_internal(event: InternalEvent) -> None:
    """Log the internal events of agents, at debug level (INTL-02)."""
    log.debug(event.kind, task_id=event.task_id, **{f"agent_{name}": value for name, value in event.fields.items()})


class UnusableKeys(Exception):  # noqa: N818 - a verdict on the settings
    """A key in the settings cannot be used; the message names the setting."""


def forms_of() -> Mapping[str, WebhookForm]:
    """How webhooks look to the clients of each version (CONF-36)."""
    return {
        CURRENT: WebhookForm(A2A_JSON, V1.encode),
        LEGACY: WebhookForm(JSON, kind_json().codec.encode, whole=True),
        DRAFT: WebhookForm(A2A_JSON, DRAFT_JSON.codec.encode, DRAFT_JSON.last.encode),
    }


def delivery_of(settings: Settings, clock: Clock, issuer: str) -> PushOptions | None:
    """How webhooks are sent; None if they are switched off. `issuer` signs them unless the settings name another."""
    push = settings.push
    if not push.enabled:
        return None
    if push.allow_loopback:
        log.warning("push.loopback_allowed", why="for development only: callers can reach what listens on this machine")
    return PushOptions(
        sender=sender_of(push, clock, push.issuer or issuer),
        sealer=Sealing(_keys(sealing_keys, push.secret_keys)),
        forms=forms_of(),
        patience=push,
        challenge=push.challenge,
    )


def sender_of(push: Push, clock: Clock, issuer: str) -> WebhookSender:
    keys = _keys(signing_keys, push.signing_keys)
    return WebhookSender(
        push.policy,
        clock,
        timeout=push.timeout,
        user_agent=f"a2ad/{__version__}",
        sign=Signer(keys, issuer, clock) if keys else None,
        # Words between certificates may be in any alphabet.
        trust=Path(push.trust).read_text("ascii", "ignore") if push.trust else "",
    )


def push_admin_of(settings: Settings) -> PushAdmin:
    """What `a2ad push` works on; a server may be using the same file."""
    if settings.store == MEMORY:
        raise StoreRefused("store = 'memory:': only the server's own process can read it")
    return SqlitePushAdmin(Path(settings.store.removeprefix(SQLITE)))


def documents_of(settings: Settings) -> Mapping[str, bytes]:
    """What the HTTP door publishes for receivers that verify signatures (PAID-05)."""
    keys = _keys(signing_keys, settings.push.signing_keys) if settings.push.enabled else ()
    return {JWKS_PATH: orjson.dumps(jwks(keys))} if keys else {}


def _keys(read: Callable[[Sequence[str]], Sequence[K]], texts: Sequence[SecretStr]) -> Sequence[K]:
    try:
        return read([text.get_secret_value() for text in texts])
    except ValueError as error:
        raise UnusableKeys(str(error)) from None


def interfaces_at(settings: Settings, grpc_at: Address, base: str, tenant: str = "") -> list[pb.AgentInterface]:
    """All doors at which this tenant, or none, can be named: 0.3 knows tenants of its URLs only (CONF-50)."""
    interfaces = [interface_of(settings, grpc_at, tenant), *(doors_at(base, tenant) if base else ())]
    if settings.legacy.enabled:
        if base and (not tenant or settings.tenants):  # whichever: the public card tells nobody who is one (TENA-04)
            interfaces += old_doors_at(base, tenant)
        if not tenant:
            interfaces.append(old_interface_of(settings, grpc_at))
    return interfaces


def base_of(settings: Settings, address: Address) -> str:
    """Say where clients find the HTTP door (CARD-03, CARD-07, DOOR-05)."""
    scheme = "https" if settings.tls.cert else "http"
    return settings.public_url.rstrip("/") or f"{scheme}://{reachable(address)}"


def hosts_of(settings: Settings, address: Address, *, anonymous: bool) -> frozenset[str] | None:
    """Say by which names clients may call the HTTP door: any, unless a stranger's web page could use it (DOOR-04)."""
    further = settings.gateway.hosts
    if "*" in further or not (anonymous or address.loopback):
        return None
    names = address.host, reachable(address).host, urlsplit(settings.public_url).hostname or "", *further
    return frozenset(name.lower().strip("[]").removesuffix(".") for name in names if name)


def issuer_of(settings: Settings, base: str, grpc: Address) -> str:
    """Say who signs webhooks: what receivers know the server by, also where its HTTP door is another process."""
    return base or settings.public_url.rstrip("/") or interface_of(settings, grpc).url


def reachable(address: Address) -> Address:
    """Replace a wildcard, which no client can connect to, by the name of this host."""
    return Address(socket.gethostname(), address.port) if address.host in WILDCARDS else address


def old_interface_of(settings: Settings, address: Address) -> pb.AgentInterface:
    """0.3 writes the address of the gRPC door as a URL; what a proxy in front of it speaks, `public_url` tells."""
    secure = settings.tls.cert or (settings.public_grpc and settings.public_url.startswith("https:"))
    scheme = f"{'https' if secure else 'http'}://" if settings.legacy.grpc_urls else ""
    url = f"{scheme}{settings.public_grpc or reachable(address)}"
    return pb.AgentInterface(url=url, protocol_binding="GRPC", protocol_version=LEGACY)


def interface_of(settings: Settings, address: Address, tenant: str = "") -> pb.AgentInterface:
    """Say where clients find the gRPC door: `host:port`, and no wildcard (CARD-03, CARD-07, CONF-69)."""
    url = settings.public_grpc or str(reachable(address))
    return pb.AgentInterface(url=url, protocol_binding="GRPC", protocol_version="1.0", tenant=tenant)
