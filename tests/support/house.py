"""The parts of a server that scenarios choose, limit or look at; the one place where tests know their modules.

A test that drives a server from outside imports from the public packages (tests/README.md lists them) and from here,
so that a part can move to another file without any scenario being touched. What is here is only what several scenarios
need; a test of one part's insides belongs to tests/unit, beside that part, and imports it itself.
"""

from collections.abc import Sequence

from a2a_gateway.app import STREAM_SLOTS, create_app
from a2a_gateway.cards.agent_card import LegacyCards
from a2a_gateway.cards.card_file import UpstreamWithCard
from a2a_gateway.channel import ChannelUpstream
from a2a_gateway.dispatcher import A2A, GatewayConfig
from a2a_gateway.http.backlog import STALLED_SECONDS as SLOW_READER_PATIENCE
from a2a_gateway.http.server import HttpDoor
from a2a_server.adapters.auth.guess_limit import GuessLimit
from a2a_server.adapters.auth.schemes import Schemes
from a2a_server.adapters.auth.secrets import ListedSecrets, Secret, api_key_scheme, bearer_scheme
from a2a_server.adapters.buckets import SharedBuckets, TokenBuckets
from a2a_server.adapters.defaults import Anonymous, LocalWakeups, SystemClock
from a2a_server.adapters.memory import MemoryStore
from a2a_server.adapters.peers import SHARED_NAME, Identity, PeerTls, PeerWakeups, shared_identity
from a2a_server.adapters.peers import door as peer_door
from a2a_server.adapters.peers import link as peer_link
from a2a_server.adapters.postgres import (
    DatabaseClock,
    PostgresDatabaseAdmin,
    PostgresKeptAdmin,
    PostgresKeyAdmin,
    PostgresPushAdmin,
    PostgresSealingAdmin,
    PostgresShardAdmin,
    PostgresStore,
    PostgresWakeups,
    ShardedKeptAdmin,
    ShardedPushAdmin,
    ShardedStore,
    ShardOptions,
)
from a2a_server.adapters.postgres import DatabaseOptions as PostgresOptions
from a2a_server.adapters.postgres import copying as postgres_copying
from a2a_server.adapters.postgres import schema as postgres_schema
from a2a_server.adapters.postgres import shard_map as postgres_shard_map
from a2a_server.adapters.postgres import wakeups as postgres_wakeups
from a2a_server.adapters.postgres import writes as postgres_writes
from a2a_server.adapters.postgres.database import Database as PostgresDatabase
from a2a_server.adapters.postgres.journey import Journey
from a2a_server.adapters.sealing import SealedContent, Sealing
from a2a_server.adapters.sqlite import SqliteStore, schema
from a2a_server.adapters.sqlite import copying as sqlite_copying
from a2a_server.adapters.sqlite.api_keys import SqliteKeyAdmin
from a2a_server.adapters.sqlite.database_admin import SqliteDatabaseAdmin
from a2a_server.adapters.sqlite.kept_admin import SqliteKeptAdmin
from a2a_server.adapters.sqlite.push_admin import SqlitePushAdmin
from a2a_server.adapters.sqlite.rekeying import SqliteSealingAdmin
from a2a_server.adapters.webhook import Signer, WebhookSender
from a2a_server.agents import text_part
from a2a_server.agents.output import LINGER
from a2a_server.cli.command_line import main as a2ad
from a2a_server.cli.loading import load_agent
from a2a_server.cli.log_output import configure as configure_log
from a2a_server.demo import agent as demo_agent
from a2a_server.domain.checkers import required_violations
from a2a_server.domain.events import millis
from a2a_server.domain.hosts import Addresses, network_of_client
from a2a_server.domain.input_requests import REDACTED, UNDECLARED, InputRequest, open_request, put_request
from a2a_server.domain.lifecycle import INTERRUPTED, MOVES, TERMINAL
from a2a_server.domain.paging import Position, TaskFilter
from a2a_server.domain.password_hash import PasswordHash
from a2a_server.domain.reducer import apply_status, fold
from a2a_server.domain.scope import Scope
from a2a_server.domain.slots import evenly, place_of, slot_in, slots_in, slots_text
from a2a_server.domain.trace import Trace
from a2a_server.domain.webhooks import Policy as WebhookPolicy
from a2a_server.operations.call import Call, Entries, Sink, StreamOperation, UnaryOperation
from a2a_server.operations.core import Core
from a2a_server.operations.limits import Limits
from a2a_server.operations.push.configs import MOST_CONFIGS
from a2a_server.operations.push.push_options import Patience, PushOptions
from a2a_server.operations.push.relay import PushRelay
from a2a_server.operations.replicas.session import Session
from a2a_server.operations.retention import Ages
from a2a_server.operations.rpc.cards import CardBook
from a2a_server.operations.services import Ids
from a2a_server.operations.turns.exchange import TurnInput, recovered
from a2a_server.operations.turns.idempotency import fingerprint
from a2a_server.operations.turns.idle_tasks import IdleTask, InputTimeouts
from a2a_server.operations.turns.registry import shutting_down
from a2a_server.protocol import signed_cards
from a2a_server.protocol.errors import A2AError, Reason, StatusError
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.names import REPLAY_URI as REPLAY
from a2a_server.protocol.options import FORWARDED, ChannelOptions, GatewayOptions, KeyPlace, LegacyOptions
from a2a_server.transport.address import Address, StartError, reachable
from a2a_server.transport.grpc_options import GrpcOptions, StreamOptions, Tls
from a2a_server.transport.pipeline import Admission
from a2a_server.transport.steps import CallRules, Extensions, Tenants
from tests.support.events import artifact_event, status_event

__all__ = [
    "A2A",
    "FORWARDED",
    "INTERRUPTED",
    "LINGER",
    "MOST_CONFIGS",
    "MOVES",
    "REDACTED",
    "REPLAY",
    "SHARED_NAME",
    "SLOW_READER_PATIENCE",
    "STREAM_SLOTS",
    "TERMINAL",
    "UNDECLARED",
    "V1",
    "A2AError",
    "Address",
    "Addresses",
    "Admission",
    "Ages",
    "Anonymous",
    "Call",
    "CallRules",
    "CardBook",
    "ChannelOptions",
    "ChannelUpstream",
    "Core",
    "DatabaseClock",
    "Entries",
    "Extensions",
    "GatewayConfig",
    "GatewayOptions",
    "GrpcOptions",
    "GuessLimit",
    "HttpDoor",
    "Identity",
    "IdleTask",
    "Ids",
    "InputRequest",
    "InputTimeouts",
    "Journey",
    "KeyPlace",
    "LegacyCards",
    "LegacyOptions",
    "Limits",
    "ListedSecrets",
    "LocalWakeups",
    "MemoryStore",
    "PasswordHash",
    "Patience",
    "PeerTls",
    "PeerWakeups",
    "Position",
    "PostgresDatabase",
    "PostgresDatabaseAdmin",
    "PostgresKeptAdmin",
    "PostgresKeyAdmin",
    "PostgresOptions",
    "PostgresPushAdmin",
    "PostgresSealingAdmin",
    "PostgresShardAdmin",
    "PostgresStore",
    "PostgresWakeups",
    "PushOptions",
    "PushRelay",
    "Reason",
    "Schemes",
    "Scope",
    "SealedContent",
    "Sealing",
    "Secret",
    "Session",
    "ShardOptions",
    "ShardedKeptAdmin",
    "ShardedPushAdmin",
    "ShardedStore",
    "SharedBuckets",
    "Signer",
    "Sink",
    "SqliteDatabaseAdmin",
    "SqliteKeptAdmin",
    "SqliteKeyAdmin",
    "SqlitePushAdmin",
    "SqliteSealingAdmin",
    "SqliteStore",
    "StartError",
    "StatusError",
    "StreamOperation",
    "StreamOptions",
    "SystemClock",
    "TaskFilter",
    "Tenants",
    "Tls",
    "TokenBuckets",
    "Trace",
    "TurnInput",
    "UnaryOperation",
    "UpstreamWithCard",
    "WebhookPolicy",
    "WebhookSender",
    "a2ad",
    "api_key_scheme",
    "apply_status",
    "artifact_event",
    "bearer_scheme",
    "by_secrets",
    "configure_log",
    "create_app",
    "demo_agent",
    "evenly",
    "fingerprint",
    "fold",
    "load_agent",
    "millis",
    "network_of_client",
    "open_request",
    "peer_door",
    "peer_link",
    "place_of",
    "postgres_copying",
    "postgres_schema",
    "postgres_shard_map",
    "postgres_wakeups",
    "postgres_writes",
    "put_request",
    "reachable",
    "recovered",
    "required_violations",
    "schema",
    "shared_identity",
    "shutting_down",
    "signed_cards",
    "slot_in",
    "slots_in",
    "slots_text",
    "sqlite_copying",
    "status_event",
    "text_part",
]


def by_secrets(tokens: Sequence[Secret] = (), api_keys: Sequence[Secret] = (), *, header: str = "x-api-key") -> Schemes:
    """Callers that are known by tokens, or by API keys, if there are any."""
    schemes = [bearer_scheme(ListedSecrets(tokens))] * bool(tokens)
    schemes += [api_key_scheme(KeyPlace("header", header), ListedSecrets(api_keys))] * bool(api_keys)
    return Schemes(schemes)
