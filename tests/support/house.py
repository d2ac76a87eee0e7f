"""The parts of a server that scenarios choose, limit or look at; the one place where tests know their modules.

A test that drives a server from outside imports from the public packages (tests/README.md lists them) and from here,
so that a part can move to another file without any scenario being touched. What is here is only what several scenarios
need; a test of one part's insides belongs to tests/unit, beside that part, and imports it itself.
"""

from a2a_gateway.app import STREAM_SLOTS, create_app
from a2a_gateway.cards.agent_card import Legacy
from a2a_gateway.cards.card_file import WithCard
from a2a_gateway.channel import ChannelUpstream
from a2a_gateway.dispatcher import A2A, GatewayConfig
from a2a_gateway.http.backlog import PATIENCE as SLOW_READER_PATIENCE
from a2a_gateway.http.server import HttpDoor
from a2a_server.adapters.auth import Secret, StaticAuthenticator
from a2a_server.adapters.defaults import Anonymous, LocalWakeups, SystemClock
from a2a_server.adapters.memory import MemoryStore
from a2a_server.adapters.sealing import Sealing
from a2a_server.adapters.sqlite import SqliteStore, schema
from a2a_server.adapters.sqlite.push_admin import SqlitePushAdmin
from a2a_server.adapters.webhook import Signer, WebhookSender
from a2a_server.agents import text_part
from a2a_server.agents.output import LINGER
from a2a_server.domain.checkers import required_violations
from a2a_server.domain.events import millis
from a2a_server.domain.hosts import Addresses
from a2a_server.domain.input_requests import REDACTED, UNDECLARED, InputRequest, open_request, put_request
from a2a_server.domain.lifecycle import INTERRUPTED, MOVES, TERMINAL
from a2a_server.domain.paging import Position, TaskFilter
from a2a_server.domain.reducer import apply_status, fold
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.domain.webhooks import Policy as WebhookPolicy
from a2a_server.operations.call import Call, Entries, Sink, StreamOperation, UnaryOperation
from a2a_server.operations.core import Core
from a2a_server.operations.limits import Limits
from a2a_server.operations.push.configs import MOST_CONFIGS
from a2a_server.operations.push.push_options import Patience, PushOptions
from a2a_server.operations.push.relay import PushRelay
from a2a_server.operations.rpc.cards import CardBook
from a2a_server.operations.services import Ids
from a2a_server.operations.turns.exchange import TurnInput, recovered
from a2a_server.operations.turns.idempotency import fingerprint
from a2a_server.operations.turns.idle_tasks import IdleTask, InputTimeouts
from a2a_server.protocol.errors import A2AError, Reason, StatusError
from a2a_server.protocol.names import REPLAY_URI as REPLAY
from a2a_server.protocol.options import FORWARDED, ChannelOptions, GatewayOptions, LegacyOptions
from a2a_server.transport.address import Address, StartError
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
    "SLOW_READER_PATIENCE",
    "STREAM_SLOTS",
    "TERMINAL",
    "UNDECLARED",
    "A2AError",
    "Address",
    "Addresses",
    "Admission",
    "Anonymous",
    "Call",
    "CallRules",
    "CardBook",
    "ChannelOptions",
    "ChannelUpstream",
    "Core",
    "Entries",
    "Extensions",
    "GatewayConfig",
    "GatewayOptions",
    "GrpcOptions",
    "HttpDoor",
    "IdleTask",
    "Ids",
    "InputRequest",
    "InputTimeouts",
    "Legacy",
    "LegacyOptions",
    "Limits",
    "LocalWakeups",
    "MemoryStore",
    "Patience",
    "Position",
    "PushOptions",
    "PushRelay",
    "Reason",
    "Scope",
    "Sealing",
    "Secret",
    "Signer",
    "Sink",
    "SqlitePushAdmin",
    "SqliteStore",
    "StartError",
    "StaticAuthenticator",
    "StatusError",
    "StreamOperation",
    "StreamOptions",
    "SystemClock",
    "TaskFilter",
    "Tenants",
    "Tls",
    "Trace",
    "TurnInput",
    "UnaryOperation",
    "WebhookPolicy",
    "WebhookSender",
    "WithCard",
    "apply_status",
    "artifact_event",
    "create_app",
    "fingerprint",
    "fold",
    "millis",
    "open_request",
    "put_request",
    "recovered",
    "required_violations",
    "schema",
    "status_event",
    "text_part",
]
