"""The parts of a server that settings alone describe, beside doors and core: store, authenticator, rules, readers."""

from __future__ import annotations

from pathlib import Path

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.auth.anonymous import Anonymous
from a2a_server.adapters.auth.static import Secret, StaticAuthenticator
from a2a_server.adapters.memory.store import MemoryStore
from a2a_server.adapters.sqlite.store import SqliteStore
from a2a_server.ports.agent import InternalEvent
from a2a_server.ports.authenticator import Authenticator, Caller
from a2a_server.ports.store import Store
from a2a_server.protocol.v0_3.requests import Options as CompatOptions
from a2a_server.settings import Credential, Settings
from a2a_server.settings.model import MEMORY, SQLITE
from a2a_server.transport.grpc.servicer_v0_3 import LegacyServicer
from a2a_server.transport.pipeline import Pipeline
from a2a_server.transport.steps import DeclaredExtensions, Rules, Tenants
from a2a_server.transport.streams import OpenStreams

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
        credential.owner,
        authenticated=True,
        tenant=credential.tenant,
        extended_card=credential.extended_card,
    )
    return Secret(credential.digest, caller)


def rules_of(settings: Settings, card: pb.AgentCard) -> Rules:
    return Rules(
        tenants=Tenants(frozenset(settings.tenants), settings.default_tenant),
        extensions=DeclaredExtensions.of(card.capabilities.extensions),
        strict_version=settings.strict_version,
        legacy=settings.legacy.enabled,
        require_extensions_everywhere=settings.require_extensions_everywhere,
    )


def streams_of(settings: Settings) -> OpenStreams:
    options = settings.streams
    return OpenStreams(per_caller=options.per_caller, total=options.total, write_timeout=options.write_timeout)


def old_servicer_of(settings: Settings, pipeline: Pipeline) -> LegacyServicer | None:
    if not settings.legacy.enabled:
        return None
    options = spoken_of(settings)
    return LegacyServicer(pipeline, options, peer_names=bool(settings.tls.client_ca))


def spoken_of(settings: Settings) -> CompatOptions:
    """How 0.3 is spoken."""
    legacy = settings.legacy
    return CompatOptions(raw_files=legacy.raw_files, wait_unasked=legacy.wait == "always", grpc_urls=legacy.grpc_urls)


def log_internal(event: InternalEvent) -> None:
    """Agents' internal events are for whoever looks closely (INTL-02)."""
    log.debug(event.kind, task_id=event.task_id, **{f"agent_{name}": value for name, value in event.fields.items()})
