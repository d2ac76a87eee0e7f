"""Wake-ups from server to server: takes their port, and reads what servers know each other by (spec: SCAL-01)."""

from __future__ import annotations

from contextlib import AsyncExitStack

from a2a_server.adapters.defaults import LocalWakeups
from a2a_server.adapters.peers import SHARED_NAME, Identity, PeerTls, PeerWakeups, shared_identity
from a2a_server.ports.replicas import Replicas
from a2a_server.ports.wakeups import Wakeups
from a2a_server.settings.sections import PeerOptions
from a2a_server.transport.address import Address, StartError, reachable
from a2a_server.transport.tls.certificates import PemFile, authorities, identity


async def peer_wakeups_of(options: PeerOptions, replicas: Replicas, stack: AsyncExitStack) -> Wakeups:
    wakeups = PeerWakeups(LocalWakeups(), replicas, peer_tls_of(options))
    stack.push_async_callback(wakeups.close)
    address = Address.parse(options.listen)
    if address.port:
        address.check_free("peers.listen")
    try:
        port = wakeups.listen_at(str(address))
    except RuntimeError:
        raise StartError(f"peers.listen: cannot listen on {address}") from None
    await wakeups.start(options.advertise or str(reachable(Address(address.host, port))))
    return wakeups


def peer_tls_of(options: PeerOptions) -> PeerTls | None:
    if shared := options.shared_key.get_secret_value():
        return PeerTls(shared_identity(shared), SHARED_NAME)
    if not options.cert:
        return None

    def read() -> Identity:
        cert, key = identity(PemFile("peers.cert", options.cert), PemFile("peers.key", options.key))
        return Identity(key, cert, authorities(PemFile("peers.ca", options.ca)))

    def again() -> Identity | None:
        try:
            return read()
        except StartError:
            return None

    return PeerTls(read(), options.server_name, again)
