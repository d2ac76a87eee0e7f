"""The parts of a server that settings alone describe: store, rules, webhooks, and what signs and encrypts."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from importlib import import_module
from ipaddress import ip_network
from math import inf
from pathlib import Path
from types import ModuleType
from typing import TypeVar, cast

import orjson
import structlog
from joserfc.errors import SecurityWarning
from pydantic import SecretStr

from a2a_proto import a2a_pb2 as pb
from a2a_server import __version__
from a2a_server.adapters.buckets import MOST_BUCKETS, SharedBuckets, TokenBuckets
from a2a_server.adapters.cards import CardReport, JwsSigner, card_jwks, card_keys, check_card
from a2a_server.adapters.defaults import LocalWakeups, SystemClock
from a2a_server.adapters.http_policy import HttpPolicy
from a2a_server.adapters.memory.store import MemoryStore
from a2a_server.adapters.sealing import SealedContent, Sealing, sealing_keys
from a2a_server.adapters.sqlite.store import SqliteStore
from a2a_server.adapters.webhook import Signer, WebhookSender, jwks, signing_keys
from a2a_server.adapters.webhook.fetching import GuardedFetcher
from a2a_server.domain.hosts import Addresses
from a2a_server.domain.slots import slots_in
from a2a_server.domain.webhooks import Policy, ports_of
from a2a_server.operations.limits import Limits
from a2a_server.operations.push.push_options import PushOptions, WebhookForm
from a2a_server.operations.services import ServedAgent, ServedAgents, plan_of
from a2a_server.ports.access import BucketStore, Limiter
from a2a_server.ports.agent import InternalEvent
from a2a_server.ports.clock import Clock
from a2a_server.ports.keys import KeyStore
from a2a_server.ports.replicas import Replicas
from a2a_server.ports.sealing import UNSEALED, ContentSealing
from a2a_server.ports.store import Store, StoreRefused
from a2a_server.ports.wakeups import Wakeups
from a2a_server.protocol.draft.json import DRAFT as DRAFT_JSON
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.names import A2A_JSON, CURRENT, DRAFT, JSON, JWKS_PATH, LEGACY
from a2a_server.protocol.options import LEGACY_DEFAULT, LegacyOptions
from a2a_server.protocol.v0_3.json import kind_json
from a2a_server.serve.peers import peer_wakeups_of
from a2a_server.settings import Settings
from a2a_server.settings.model import MEMORY, POSTGRES, SQLITE
from a2a_server.settings.sections import Push
from a2a_server.transport.permissions import AccessCheck, Permissions
from a2a_server.transport.pipeline import Step
from a2a_server.transport.rates import CallsUnderWay, Rates
from a2a_server.transport.steps import CallRules, Extensions, ExtensionsOfTenants, Tenants

_PRIVATE = ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
_POLICY_HOSTS = Policy(
    addresses=Addresses.of(map(ip_network, _PRIVATE), loopback=True), https_only=False, ports=ports_of(["1-65535"])
)
"""The operator's own service may be anywhere: no caller chooses the address, and no redirect is followed."""
_MOST_ADDRESSES = 10_000
"""Of anonymous callers that servers share buckets of. Anybody can have many, and each is a row in the database."""

K = TypeVar("K")

log = structlog.get_logger(__name__)


def store_of(settings: Settings) -> Store:
    if settings.store == MEMORY:
        return MemoryStore()
    if settings.postgresql.shards:
        sharded: Store = postgres().ShardedStore(
            shards_of(settings), sealing_of(settings), upgrade=settings.upgrade_store
        )
        return sharded
    if settings.store.startswith(POSTGRES):
        store: Store = postgres().PostgresStore(
            database_of(settings), sealing_of(settings), upgrade=settings.upgrade_store
        )
        return store
    return SqliteStore(file_of(settings.store), sealing_of(settings), upgrade=settings.upgrade_store)


def file_of(store: str) -> Path:
    if store == MEMORY:
        raise StoreRefused("store = 'memory:': only the server's own process can read it")
    return Path(store.removeprefix(SQLITE))


def clock_of(settings: Settings, store: Store) -> Clock:
    """The server's clock. Servers that share a store must agree on what is due (SCAL-03)."""
    own = SystemClock()
    if not settings.store.startswith(POSTGRES):
        return own
    clock: Clock = postgres().DatabaseClock(own, store)
    return clock


def sealing_of(settings: Settings) -> ContentSealing:
    """What seals the content of a store that is a file; one in memory leaves nothing behind."""
    keys = _keys(partial(sealing_keys, setting="store_keys"), settings.store_keys)
    return SealedContent(keys) if keys else UNSEALED


def postgres() -> ModuleType:
    """The adapter, which needs a package that not every installation has."""
    try:
        return import_module("a2a_server.adapters.postgres")
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise StoreRefused("a PostgreSQL store needs the package asyncpg: pip install 'a2ad[postgres]'") from None


def database_of(settings: Settings, dsn: str = "") -> object:
    options = settings.postgresql
    return postgres().DatabaseOptions(
        dsn=dsn or settings.store,
        password=options.password.get_secret_value(),
        **options.model_dump(exclude={"password", "session", "shards", "wakeup_dsn"}),
    )


def shards_of(settings: Settings) -> Sequence[object]:
    """The databases of the store, the home first."""
    make = postgres().ShardOptions
    shards = sorted(settings.postgresql.shards, key=lambda shard: shard.dsn != settings.store)
    return [make(shard.name, database_of(settings, shard.dsn), slots_in(shard.slots)) for shard in shards]


def replicas_of(settings: Settings, store: Store) -> Replicas | None:
    """The store, if other servers may use it, too."""
    if not settings.store.startswith(POSTGRES):
        return None
    shared: Replicas = cast("Replicas", store)
    return shared


async def wakeups_of(settings: Settings, store: Store, stack: AsyncExitStack) -> Wakeups:
    """What tells readers of new events: in this process, and on other servers if they share the store."""
    replicas = replicas_of(settings, store)
    if replicas is None:
        return LocalWakeups()
    if settings.wakeups == "none":
        log.info("wakeups.polling", why="wakeups = 'none'", store=settings.store_name)
        return LocalWakeups()
    if settings.wakeups == "peers":
        return await peer_wakeups_of(settings.peers, replicas, stack)
    wakeups = postgres().PostgresWakeups(database_of(settings, settings.postgresql.wakeup_dsn), LocalWakeups())
    stack.push_async_callback(wakeups.close)
    await wakeups.start()
    carried: Wakeups = wakeups
    return carried


def key_store_of(settings: Settings, store: Store) -> KeyStore | None:
    """The store, if its API keys are accepted."""
    return store if settings.auth.stored_keys and isinstance(store, KeyStore) else None


def rates_of(settings: Settings, store: Store, stack: AsyncExitStack) -> Iterator[Step]:
    """Yield the steps that limit callers, and log at the start what is counted, and where (GATE-05)."""
    rates = settings.rates
    if rates.on:
        callers = _limiter_of(store, stack, whose="callers", most=MOST_BUCKETS)
        addresses = _limiter_of(store, stack, whose="addresses", most=_MOST_ADDRESSES)
        log.info("rates.limited", per_caller=rates.per_caller, counted_by=callers.reach)
        yield Rates(callers, addresses, rates.quotas("caller"), rates.caller_classes)
    if rates.calls_per_caller:
        yield CallsUnderWay(rates.calls_per_caller)


def _limiter_of(store: Store, stack: AsyncExitStack, *, whose: str, most: int) -> Limiter:
    """Buckets that all servers of the store share, if it can keep them."""
    if not isinstance(store, BucketStore):
        return TokenBuckets()
    shared = SharedBuckets(store, whose=whose, most=most)
    stack.push_async_callback(shared.close)
    return shared


def access_steps(settings: Settings, agents: ServedAgents, stack: AsyncExitStack) -> Iterator[Step]:
    """Yield the step that asks the operator's own policy, if there is one."""
    told = settings.policy
    if not told.url:
        return
    fetcher = GuardedFetcher(
        _POLICY_HOSTS, trust=trust_of(told.trust), timeout=told.timeout, user_agent=f"a2ad/{__version__}"
    )
    token = told.token.get_secret_value()
    policy = HttpPolicy(fetcher, told.url, credentials=f"Bearer {token}" if token else "", cache=told.cache)
    stack.push_async_callback(policy.close)
    yield AccessCheck(policy, lambda tenant, request: plan_of(agents.of(tenant).agent, request, b"").skill)


def limits_of(settings: Settings) -> Limits:
    """No receipt is valid for longer than it may be kept."""
    limits, most = settings.limits, settings.retention.receipts or inf
    return replace(
        limits,
        idempotency_window=min(limits.idempotency_window, most),
        idempotency_key_window=min(limits.idempotency_key_window, most),
    )


def rules_of(settings: Settings, agents: ServedAgents, rates: Iterable[Step]) -> CallRules:
    return CallRules(
        tenants=tenants_of(settings),
        permissions=Permissions({role.name: role.scopes for role in settings.auth.roles}),
        extensions=extensions_of(settings, agents),
        strict_version=settings.strict_version,
        legacy=settings.legacy.enabled,
        rates=tuple(rates),
    )


def tenants_of(settings: Settings) -> Tenants:
    served = {*settings.served_tenants, *([""] if settings.directory else ())}
    needs = {table.tenant: frozenset(table.scopes) for table in settings.agents if table.scopes}
    return Tenants(frozenset(served), settings.root_tenant, needs)


def extensions_of(settings: Settings, agents: ServedAgents) -> Step:
    def declared(served: ServedAgent) -> Extensions:
        return Extensions.of(served.card.capabilities.extensions, everywhere=settings.require_extensions_everywhere)

    if not settings.agents:
        return declared(agents.root)
    return ExtensionsOfTenants({tenant: declared(agents.of(tenant)) for tenant in ("", *settings.served_tenants)})


def log_internal(event: InternalEvent) -> None:
    """Log the internal events of agents, at debug level (INTL-02)."""
    log.debug(event.kind, task_id=event.task_id, **{f"agent_{name}": value for name, value in event.fields.items()})


class UnusableKeys(Exception):  # noqa: N818 - a verdict on the settings
    """A key in the settings cannot be used; the message names the setting."""


def forms_of(legacy: LegacyOptions = LEGACY_DEFAULT) -> Mapping[str, WebhookForm]:
    """How webhooks look to the clients of each version (CONF-36)."""
    return {
        CURRENT: WebhookForm(A2A_JSON, V1.encode),
        LEGACY: WebhookForm(JSON, kind_json(extras=legacy.writes_members).codec.encode, whole=True),
        DRAFT: WebhookForm(A2A_JSON, DRAFT_JSON.codec.encode, DRAFT_JSON.last.encode),
    }


def delivery_of(settings: Settings, clock: Clock, issuer: str) -> PushOptions | None:
    """How webhooks are sent; None if they are switched off. `issuer` signs them unless the settings name another."""
    push = settings.push
    if not push.enabled or (settings.agents and not any(table.push for table in settings.agents)):
        return None
    if push.allow_loopback:
        log.warning("push.loopback_allowed", why="for development only: callers can reach what listens on this machine")
    return PushOptions(
        sender=sender_of(push, clock, push.issuer or issuer),
        sealer=Sealing(_keys(sealing_keys, push.secret_keys)),
        forms=forms_of(settings.legacy),
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
        trust=trust_of(push.trust),
    )


def trust_of(path: str) -> str:
    """The certificates of a file. Comments between them may be in any alphabet."""
    return Path(path).read_text("ascii", "ignore") if path else ""


def documents_of(settings: Settings) -> Mapping[str, bytes]:
    """What the HTTP door publishes for those who verify signatures of webhooks and cards (PAID-05, SIGN-04)."""
    keys = _keys(signing_keys, settings.push.signing_keys) if settings.push.enabled else ()
    found = [*jwks(keys)["keys"], *card_jwks(_keys(card_keys, settings.card.signing_keys))]
    distinct = [key for number, key in enumerate(found) if key not in found[:number]]
    return {JWKS_PATH: orjson.dumps({"keys": distinct})} if distinct else {}


def card_signer_of(settings: Settings) -> JwsSigner | None:
    """What signs cards; None without keys."""
    keys = _keys(card_keys, settings.card.signing_keys)
    return JwsSigner(keys) if keys else None


def signing_below(settings: Settings, base: str) -> Callable[[pb.AgentCard], pb.AgentCard] | None:
    """What signs the cards that leave over gRPC; their keys are below the HTTP door's URL, where that is known."""
    signer = card_signer_of(settings)
    return partial(signer.signed, base=base or settings.public_url) if signer else None


def card_report(url: str, *, jwks: str, version: str, patience: float) -> CardReport:
    """What `a2ad card verify` finds out; an `OSError` says what could not be fetched, and why."""
    warnings.simplefilter("ignore", SecurityWarning)  # that clients prefer other algorithms
    return asyncio.run(check_card(url, jwks=jwks, version=version, patience=patience))


def _keys(read: Callable[[Sequence[str]], Sequence[K]], texts: Sequence[SecretStr]) -> Sequence[K]:
    try:
        return read([text.get_secret_value() for text in texts])
    except ValueError as error:
        raise UnusableKeys(str(error)) from None
