"""Other agents, called with the client library (spec: AGNT-03, SSRF-04, TRAC-01).

1. `connections` finds the card, which is remembered as long as HTTP allows. The operator's policy must allow its URL,
   and that of the chosen interface; every address is checked again when a connection is opened.
2. `calls` follows a task until it stops: by a stream where the agent has streams, and otherwise by asking again and
   again.
"""

from a2a_server.adapters.remote_agents.calls import RemoteAgents
from a2a_server.adapters.remote_agents.connections import HostCredentials, OutgoingRules, RemoteConnections

__all__ = ["HostCredentials", "OutgoingRules", "RemoteAgents", "RemoteConnections"]
