"""Connections to other agents: whom this server may call, with which credentials, and for how long they are kept.

Serves SSRF-04 and AGNT-03.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.client import (
    CallerCredentials,
    Discovery,
    FoundCard,
    Network,
    Remote,
    UnreachableError,
    connect,
)
from a2a_server.client.discovery import card_url
from a2a_server.client.grpc_binding import target_of as grpc_target_of
from a2a_server.client.interfaces import choose
from a2a_server.domain.hosts import Host, HostList, host_of
from a2a_server.domain.webhooks import Policy, Target, target_of
from a2a_server.ports.calling import AgentCall, CallFailed

Verify = Callable[[Network, FoundCard], Awaitable[str]]
"""Says why the signatures of a card are not to be trusted; empty = one of them is valid."""

_KEPT_SECONDS: Final = 300.0
"""How long a connection is used before the card is looked at again."""
_MOST_CONNECTIONS: Final = 256


@dataclass(frozen=True, slots=True)
class HostCredentials:
    """What this server shows to agents on some hosts."""

    hosts: HostList
    credentials: CallerCredentials


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRules:
    """The operator's choices."""

    policy: Policy
    credentials: Sequence[HostCredentials] = ()
    versions: Sequence[str] = ("1.0", "0.3")
    transports: Sequence[str] = ()
    signed: bool = False
    """Whether every card must have a valid signature."""
    timeout: float = 60.0
    """Seconds for an answer to begin. A task may take longer."""
    trust: str = ""


@dataclass(slots=True, eq=False)
class KeptConnection:
    """A connection, and who uses it."""

    remote: Remote
    stack: AsyncExitStack
    until: float
    users: int = 0


@dataclass(slots=True, eq=False)
class RemoteConnections:
    """Opens connections as the operator allows. A connection stays for further calls."""

    rules: OutgoingRules
    verify: Verify
    _discovery: Discovery = field(init=False)
    _kept: dict[tuple[str, bool], KeptConnection] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._discovery = Discovery(timeout=self.rules.timeout, network=self._network, redirects=0)

    async def close(self) -> None:
        for kept in [*self._kept.values()]:
            await kept.stack.aclose()
        self._kept.clear()
        await self._discovery.close()

    @asynccontextmanager
    async def to(self, call: AgentCall) -> AsyncIterator[Remote]:
        key = call.agent, call.signed
        kept = self._kept.get(key)
        if kept is None or time.monotonic() > kept.until:
            kept = await self._open(call)
            await self._retire(self._kept.pop(key, None))
            self._kept[key] = kept
            if len(self._kept) > _MOST_CONNECTIONS:
                await self._retire(self._kept.pop(next(iter(self._kept))))
        kept.users += 1
        try:
            yield kept.remote
        except UnreachableError:
            kept.until = 0.0  # the agent may have moved
            self._discovery.forget(call.agent)
            raise
        finally:
            kept.users -= 1
            if self._kept.get(key) is not kept:
                await self._retire(kept)

    @staticmethod
    async def _retire(kept: KeptConnection | None) -> None:
        """Close a connection that nobody uses; the last user closes one that is still in use."""
        if kept is not None and not kept.users:
            await kept.stack.aclose()

    async def _open(self, call: AgentCall) -> KeptConnection:
        url = card_url(call.agent)
        self._check(call.agent, _target_of(url))
        found = await self._discovery.find(url)
        if (call.signed or self.rules.signed) and (fault := await self.verify(self._network, found)):
            raise CallFailed(f"The card of {call.agent} cannot be trusted: {fault}")
        interface = choose(found.card, self.rules.transports, self.rules.versions)
        target = _called(interface, found)
        self._check(call.agent, target)
        stack = AsyncExitStack()
        remote = await stack.enter_async_context(
            connect(
                found,
                credentials=self._credentials(_target_of(url).host, target.host),
                transports=self.rules.transports,
                version=self.rules.versions,
                timeout=self.rules.timeout,
                network=self._network,
            )
        )
        return KeptConnection(remote, stack, time.monotonic() + _KEPT_SECONDS)

    @property
    def _network(self) -> Network:
        return Network(trust=self.rules.trust, refusal=self._refusal)

    def _refusal(self, address: str) -> str:
        try:
            return self.rules.policy.addresses.refusal(ip_address(address))
        except ValueError:  # not an address in its normal spelling
            return "an unknown"

    def _check(self, agent: str, target: Target) -> None:
        if refusal := self.rules.policy.refusal(target):
            raise CallFailed(f"{agent} may not be called: its URL {refusal}. The settings of [calls] decide.")

    def _credentials(self, *hosts: Host) -> CallerCredentials | None:
        """Return what is meant for the host of the card and for the host that is called, so that no card lends it."""
        known = self.rules.credentials
        return next((one.credentials for one in known if all(host in one.hosts for host in hosts)), None)


def _target_of(url: str) -> Target:
    try:
        return target_of(url)
    except ValueError as error:
        raise CallFailed(f"The URL of an agent {error}.") from None


def _called(interface: pb.AgentInterface, found: FoundCard) -> Target:
    if interface.protocol_binding != "GRPC":
        return _target_of(interface.url)
    target = grpc_target_of(interface.url, found.url)
    try:
        return Target("https" if target.is_secure else "http", host_of(target.named_host), target.port, "/")
    except ValueError as error:
        raise CallFailed(f"The card's gRPC interface {error}.") from None
