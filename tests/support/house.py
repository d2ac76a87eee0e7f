"""The parts of a server that scenarios choose, limit or look at; the one place where tests know their modules.

A test that drives a server from outside imports from the public packages (tests/README.md lists them) and from here,
so that a part can move to another file without any scenario being touched. What is here is only what several scenarios
need; a test of one part's insides belongs to tests/unit, beside that part, and imports it itself.
"""

from a2a_gateway.app import Gateway
from a2a_gateway.cards.file import WithCard
from a2a_gateway.channel import ChannelUpstream
from a2a_gateway.http.door import HttpDoor
from a2a_server.adapters.auth.anonymous import Anonymous
from a2a_server.adapters.auth.static import Secret, StaticAuthenticator
from a2a_server.adapters.clock import SystemClock
from a2a_server.adapters.memory import MemoryStore
from a2a_server.adapters.sealing import Sealing
from a2a_server.adapters.sqlite import SqliteStore, schema
from a2a_server.adapters.webhook import Signer, WebhookSender
from a2a_server.domain.addresses import Addresses
from a2a_server.domain.checkers import required_violations
from a2a_server.domain.events import artifact_event, millis, status_event, text_part
from a2a_server.domain.input_requests import REDACTED, UNDECLARED, InputRequest, put_request
from a2a_server.domain.lifecycle import INTERRUPTED, MOVES, TERMINAL
from a2a_server.domain.paging import Position, TaskFilter
from a2a_server.domain.reducer import apply_status, fold
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.domain.webhooks import Policy as WebhookPolicy
from a2a_server.operations.call import Call, Entries, UnaryOperation
from a2a_server.operations.core import Core
from a2a_server.operations.ids import Ids
from a2a_server.operations.limits import Limits
from a2a_server.operations.push.config_bound import MOST_CONFIGS
from a2a_server.operations.push.delivery import Delivery
from a2a_server.operations.turns.timeouts import InputTimeouts
from a2a_server.operations.turns.unattended import Unattended
from a2a_server.protocol.names import REPLAY_URI as REPLAY
from a2a_server.protocol.v0_3.requests import Options as OldOptions
from a2a_server.transport.grpc.address import Address, StartError
from a2a_server.transport.grpc.options import GrpcOptions, StreamOptions, Tls
from a2a_server.transport.pipeline import Admission
from a2a_server.transport.steps import DeclaredExtensions, Rules, Tenants

__all__ = [
    "INTERRUPTED",
    "MOST_CONFIGS",
    "MOVES",
    "REDACTED",
    "REPLAY",
    "TERMINAL",
    "UNDECLARED",
    "Address",
    "Addresses",
    "Admission",
    "Anonymous",
    "Call",
    "ChannelUpstream",
    "Core",
    "DeclaredExtensions",
    "Delivery",
    "Entries",
    "Gateway",
    "GrpcOptions",
    "HttpDoor",
    "Ids",
    "InputRequest",
    "InputTimeouts",
    "Limits",
    "MemoryStore",
    "OldOptions",
    "Position",
    "Rules",
    "Scope",
    "Sealing",
    "Secret",
    "Signer",
    "SqliteStore",
    "StartError",
    "StaticAuthenticator",
    "StreamOptions",
    "SystemClock",
    "TaskFilter",
    "Tenants",
    "Tls",
    "Trace",
    "UnaryOperation",
    "Unattended",
    "WebhookPolicy",
    "WebhookSender",
    "WithCard",
    "apply_status",
    "artifact_event",
    "fold",
    "millis",
    "put_request",
    "required_violations",
    "schema",
    "status_event",
    "text_part",
]
