"""The upstream's addresses, the connections to each, and which one the next call uses (spec: DOOR-01).

One HTTP/2 connection carries only as many calls as the server allows. gRPC lets further calls wait silently, so a
thousand idle streams could keep every other call from the server. Each address therefore has as many connections as
its calls need.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, Literal, get_args

import grpc
from google.protobuf.descriptor import MethodDescriptor
from grpc import ChannelConnectivity as State

from a2a_gateway.channel.arguments import UnusableOptions, arguments_of, credentials_of
from a2a_gateway.channel.call_failures import Reachability
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import ChannelOptions, target_of

RENEW_SECONDS = 3.0
"""After how many seconds without a connection a channel is replaced.

gRPC resolves an unknown name less and less often, in the end every two minutes. The name of a container is unknown
while the container is down. A new channel resolves the name at once.
"""

REMEMBER_SECONDS = 60.0
"""How many seconds the gateway remembers that an upstream accepted fewer calls than configured."""

_READY, _FAILING = State.READY, State.TRANSIENT_FAILURE

Dial = Callable[[], grpc.aio.Channel]
CallKind = Literal["reads", "sends", "streams"]
"""Each kind has its own connections, so that a send that waits for an agent cannot delay a read."""

POLL_SECONDS = 0.01
"""How many seconds a call sleeps between two checks while it waits for a connection."""

_CONNECTED, _CONNECTING, _DISCONNECTED = range(3)
_RANKS = {State.READY: _CONNECTED, State.IDLE: _CONNECTING, State.CONNECTING: _CONNECTING}


class Capacity:
    """How many calls one connection to an address carries at once."""

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._learned = calls
        self._until = 0.0

    @property
    def calls(self) -> int:
        """The configured number, or less if the upstream has recently accepted less."""
        return self._learned if time.monotonic() < self._until else self._calls

    def learn(self, calls: int) -> None:
        """Remember how many calls a full connection had. Only for a while, because the server may have been slow."""
        self._learned = max(min(calls, self.calls), 1)
        self._until = time.monotonic() + REMEMBER_SECONDS


class ChannelConnection:
    """A channel with its own connection. It keeps its callables, because making one is expensive."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._failing_since = 0.0
        self.calls = 0
        """How many calls are open."""
        self.accepted = 0
        """How many of them the upstream is known to have accepted."""
        self._open()

    def _open(self) -> None:
        self.channel = channel = self._dial()
        # Requests and answers are bytes, although grpc's types say messages.
        self.unary: Callable[[MethodDescriptor], Any] = cache(lambda method: channel.unary_unary(path_of(method)))
        # Every streaming call is stream-stream, because only such calls report when they are accepted.
        self.streaming: Callable[[MethodDescriptor], Any] = cache(lambda method: channel.stream_stream(path_of(method)))

    def state(self) -> State:
        """Return the channel's state; an idle channel begins to connect."""
        state = self.channel.get_state(try_to_connect=True)
        if state is not _FAILING:
            self._failing_since = 0.0
        elif not self._failing_since:
            self._failing_since = time.monotonic()
        elif time.monotonic() - self._failing_since > RENEW_SECONDS:
            self._failing_since = 0.0
            self._open()  # calls that are still open on the old channel end by themselves
        return state


class ConnectionPool:
    """The connections to one address for one kind of calls."""

    def __init__(self, dial: Dial, capacity: Capacity, most: int) -> None:
        self._dial = dial
        self._capacity = capacity
        self._most = most
        self.first = ChannelConnection(dial)
        self.connections = [self.first]

    def pick(self) -> tuple[ChannelConnection, bool] | None:
        """Return a connection with room and whether it is connected; None when all are full and no more are allowed.

        If all are full, a new one is opened. The first ones are filled first, so that later ones become idle, and gRPC
        closes a connection after half an hour without calls.
        """
        spare: ChannelConnection | None = None
        most = self._capacity.calls
        for connection in self.connections:
            if connection.calls < most:
                if connection.state() is _READY:
                    return connection, True
                spare = spare or connection
        if spare is None and len(self.connections) < self._most:
            spare = ChannelConnection(self._dial)
            self.connections.append(spare)
        return None if spare is None else (spare, False)


def path_of(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


class Endpoint:
    """One address of the upstream, and the connections to it."""

    def __init__(self, address: str, options: ChannelOptions) -> None:
        self._target = target_of(address)
        self.reachability = Reachability(address)
        self._options = options
        self._credentials = credentials_of(options)
        self.capacity = capacity = Capacity(options.calls_per_connection)
        self.pools: dict[CallKind, ConnectionPool] = {
            kind: ConnectionPool(partial(self._dial, streams=kind == "streams"), capacity, options.connections)
            for kind in get_args(CallKind)
        }
        for pool in self.pools.values():
            pool.first.state()  # begins to connect

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel for health checks."""
        return self.pools["reads"].first.channel

    def state(self) -> State:
        return self.pools["reads"].first.state()

    def _dial(self, *, streams: bool) -> grpc.aio.Channel:
        arguments = arguments_of(self._options, streams=streams)
        if self._credentials is None:
            return grpc.aio.insecure_channel(self._target, arguments)
        return grpc.aio.secure_channel(self._target, self._credentials, arguments)


class Endpoints:
    """All addresses of the upstream. If a name has several hosts, gRPC itself uses them in turn."""

    def __init__(self, options: ChannelOptions) -> None:
        if not options.addresses:
            raise UnusableOptions("upstream: needs the address of at least one server, such as 127.0.0.1:50051")
        self._options = options
        self._endpoints = [Endpoint(address, options) for address in options.addresses]
        self._turn = 0

    async def connection(self, kind: CallKind, patience: float) -> tuple[Endpoint, ChannelConnection]:
        """Return a connection to the next connected address; wait while an address may still connect.

        If none can connect, return one whose call will fail with the reason. Waiting here instead of in gRPC keeps the
        call free to use another address.
        """
        end = 0.0
        endpoints = self._rotated()
        while True:
            rank, found = self._best_connection(endpoints, kind)
            if found is None:
                raise self._too_many_calls(kind)
            if rank != _CONNECTING:
                return found
            end = end or time.monotonic() + patience
            if time.monotonic() >= end:
                return found
            await asyncio.sleep(POLL_SECONDS)

    def _rotated(self) -> Sequence[Endpoint]:
        """Return all addresses. Each call starts with the next one."""
        endpoints = self._endpoints
        if len(endpoints) == 1:
            return endpoints
        self._turn = (self._turn + 1) % len(endpoints)
        return (*endpoints[self._turn :], *endpoints[: self._turn])

    @staticmethod
    def _best_connection(
        endpoints: Sequence[Endpoint], kind: CallKind
    ) -> tuple[int, tuple[Endpoint, ChannelConnection] | None]:
        """Return the rank of the best connection, and the connection; None if all are full."""
        least, best = _DISCONNECTED + 1, None
        for endpoint in endpoints:
            rank = _RANKS.get(endpoint.state(), _DISCONNECTED)
            if rank < least and (picked := endpoint.pools[kind].pick()) is not None:
                connection, ready = picked
                if rank == _CONNECTED and not ready:
                    rank = _CONNECTING
                if rank < least:
                    least, best = rank, (endpoint, connection)
                if rank == _CONNECTED:
                    break
        return least, best

    def _too_many_calls(self, kind: CallKind) -> A2AError:
        most = sum(endpoint.capacity.calls for endpoint in self._endpoints) * self._options.connections
        text = f"The gateway has {most} {kind} open to the agent's server, the most it may have."
        return A2AError(Reason.OVERLOADED, text, retry_after=1)

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints)

    async def close(self) -> None:
        pools = [pool for endpoint in self._endpoints for pool in endpoint.pools.values()]
        await asyncio.gather(*(connection.channel.close() for pool in pools for connection in pool.connections))
