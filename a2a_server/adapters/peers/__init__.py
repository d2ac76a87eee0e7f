"""Wake-ups between servers over gRPC, with the entries themselves (spec: SCAL-01).

1. Each server has a port for the others (`door`) and says in its session's row where that is. It looks there for the
   others, and has a connection to each (`link`).
2. When a reader here follows a log that others may write to, all of them are asked for it (`wakeups`).
3. Whoever commits entries of it sends them at once: after they are durable, and never before.
4. What does not get through is read from the store, as after any lost wake-up. Entries for which a slow server leaves
   no room are dropped, and it is told their number alone.
5. Both sides of a connection show a certificate (`identity`), which may be made from a key that the servers share.
"""

from a2a_server.adapters.peers.identity import SHARED_NAME, Identity, PeerTls, shared_identity
from a2a_server.adapters.peers.wakeups import PeerWakeups

__all__ = ["SHARED_NAME", "Identity", "PeerTls", "PeerWakeups", "shared_identity"]
