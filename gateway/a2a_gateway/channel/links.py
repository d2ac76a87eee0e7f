"""The upstream's addresses, and which of them the next call goes to (spec: DOOR-01)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Literal

import grpc
from grpc import ChannelConnectivity as State

from a2a_gateway.channel.lines import Capacity, Line, Pool
from a2a_gateway.channel.options import UnusableOptions, arguments_of, credentials_of
from a2a_gateway.channel.presence import Presence
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import ChannelOptions, target_of

Kind = Literal["reads", "sends", "streams"]
"""Calls that last for different times, on connections of their own: what waits for an agent keeps no read waiting."""

GLANCE = 0.01
"""How many seconds pass before a call that waits for a connection looks again."""

_READY, _HOPED_FOR, _HOPELESS = range(3)
_RANKS = {State.READY: _READY, State.IDLE: _HOPED_FOR, State.CONNECTING: _HOPED_FOR}


class Link:
    """The ways to one address."""

    def __init__(self, address: str, options: ChannelOptions) -> None:
        self._target = target_of(address)
        self.presence = Presence(address)
        self._options = options
        self._credentials = credentials_of(options)
        self.capacity = capacity = Capacity(options.calls_per_connection)
        self.pools: dict[Kind, Pool] = {
            "reads": Pool(self._dial, capacity, options.connections),
            "sends": Pool(self._dial, capacity, options.connections),
            "streams": Pool(self._dial_for_streams, capacity, options.connections),
        }
        for pool in self.pools.values():
            pool.first.state()  # begins to connect

    @property
    def channel(self) -> grpc.aio.Channel:
        """What the upstream is asked about itself on."""
        return self.pools["reads"].first.channel

    def state(self) -> State:
        return self.pools["reads"].first.state()

    def lines(self) -> Iterator[Line]:
        for pool in self.pools.values():
            yield from pool

    def _dial(self, *, streams: bool = False) -> grpc.aio.Channel:
        arguments = arguments_of(self._options, streams=streams)
        if self._credentials is None:
            return grpc.aio.insecure_channel(self._target, arguments)
        return grpc.aio.secure_channel(self._target, self._credentials, arguments)

    def _dial_for_streams(self) -> grpc.aio.Channel:
        return self._dial(streams=True)


class Links:
    """All addresses. Behind one of them, gRPC itself goes round those that a name stands for."""

    def __init__(self, options: ChannelOptions) -> None:
        if not options.addresses:
            raise UnusableOptions("upstream: needs the address of at least one server, such as 127.0.0.1:50051")
        self._options = options
        self._links = [Link(address, options) for address in options.addresses]
        self._turn = 0

    async def line(self, kind: Kind, patience: float) -> tuple[Link, Line]:
        """A line to the next address that is connected; waits while there is none, but one may be soon.

        Without hope it is one that fails, and says why. So nothing is sent where nobody is, and what was not sent may
        still go elsewhere.
        """
        end = 0.0
        links = self._round()
        while True:
            rank, found = self._look(links, kind)
            if found is None:
                raise self._crowded(kind)
            if rank != _HOPED_FOR:
                return found
            end = end or time.monotonic() + patience
            if time.monotonic() >= end:
                return found
            await asyncio.sleep(GLANCE)

    def _round(self) -> Sequence[Link]:
        """All addresses, each time beginning with the next one."""
        links = self._links
        if len(links) == 1:
            return links
        self._turn = (self._turn + 1) % len(links)
        return (*links[self._turn :], *links[: self._turn])

    @staticmethod
    def _look(links: Sequence[Link], kind: Kind) -> tuple[int, tuple[Link, Line] | None]:
        """The best there is now, and how good that is; None when nobody has room."""
        least, best = _HOPELESS + 1, None
        for link in links:
            rank = _RANKS.get(link.state(), _HOPELESS)
            if rank < least and (picked := link.pools[kind].pick()) is not None:
                line, ready = picked
                if rank == _READY and not ready:
                    rank = _HOPED_FOR
                if rank < least:
                    least, best = rank, (link, line)
                if rank == _READY:
                    break
        return least, best

    def _crowded(self, kind: Kind) -> A2AError:
        most = sum(link.capacity.calls for link in self._links) * self._options.connections
        text = f"The gateway has {most} {kind} open to the agent's server, the most it may have."
        return A2AError(Reason.OVERLOADED, text, retry_after=1)

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links)

    async def close(self) -> None:
        await asyncio.gather(*(line.channel.close() for link in self._links for line in link.lines()))
