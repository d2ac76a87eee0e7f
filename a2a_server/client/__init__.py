"""A client for A2A agents: over gRPC, JSON-RPC and HTTP+JSON, in 1.0 and 0.3.

    async with connect("https://agent.example") as remote:
        answer = await remote.send("hello")

1. `connection` has `connect`, `remote` the calls. `messages` makes requests of texts, data and files.
2. `discovery` finds the agent card, `interfaces` chooses how to call, `credentials` what to prove oneself with.
3. `grpc_binding`, `rest` and `jsonrpc` each make any call of the service by its descriptor; `binding` says what they
   have in common, and `http` is what the last two share.
   `older` translates around them for agents of 0.3.
4. `network` opens connections. `failures` has the errors. `wire` shows what is sent and received, without secrets.
"""

from a2a_server.client.binding import ClientLimits
from a2a_server.client.connection import connect
from a2a_server.client.credentials import CallerCredentials
from a2a_server.client.discovery import Discovery, FoundCard
from a2a_server.client.failures import (
    AgentError,
    AuthenticationError,
    CallError,
    CallTimeoutError,
    CardInvalidError,
    CardNotFoundError,
    CredentialsMissingError,
    NoTransportError,
    UnreachableError,
)
from a2a_server.client.messages import data_part, file_part, message_of, text_part
from a2a_server.client.network import Network
from a2a_server.client.remote import Remote, RemoteStream
from a2a_server.client.wire import WireMessage
from a2a_server.protocol.errors import Reason

__all__ = [
    "AgentError",
    "AuthenticationError",
    "CallError",
    "CallTimeoutError",
    "CallerCredentials",
    "CardInvalidError",
    "CardNotFoundError",
    "ClientLimits",
    "CredentialsMissingError",
    "Discovery",
    "FoundCard",
    "Network",
    "NoTransportError",
    "Reason",
    "Remote",
    "RemoteStream",
    "UnreachableError",
    "WireMessage",
    "connect",
    "data_part",
    "file_part",
    "message_of",
    "text_part",
]
