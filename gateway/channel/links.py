"""Channels to the upstream's addresses, and which of them the next call takes (spec: DOOR-01)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from grpc import ChannelConnectivity as State

from gateway.channel.options import ChannelOptions, UnusableOptions, target_of
from gateway.channel.presence import Presence

RENEWAL = 3.0
"""After how many seconds without a connection a channel is made anew.

gRPC asks for a name that is unknown less and less often, in the end every two minutes; and a name is unknown for as
long as the container is down. A new channel asks at once.
"""

_RANKS = {State.READY: 0, State.IDLE: 1, State.CONNECTING: 1}


class Link:
    """A channel to one address, with its callables kept: making one costs as much as half a call."""

    def __init__(self, address: str, options: ChannelOptions) -> None:
        self._target = target_of(address)
        self.presence = Presence(address)
        self._arguments = options.arguments()
        self._credentials = options.credentials()
        self._failing_since = 0.0
        self.channel = self._open()

    def _open(self) -> grpc.aio.Channel:
        self._unary: dict[str, Any] = {}
        self._streaming: dict[str, Any] = {}
        if self._credentials is None:
            return grpc.aio.insecure_channel(self._target, self._arguments)
        return grpc.aio.secure_channel(self._target, self._credentials, self._arguments)

    def unary(self, method: MethodDescriptor) -> Any:  # noqa: ANN401 - bytes in, bytes out; grpc's types want messages
        name = method.full_name
        if (call := self._unary.get(name)) is None:
            call = self._unary[name] = self.channel.unary_unary(path_of(method))
        return call

    def streaming(self, method: MethodDescriptor) -> Any:  # noqa: ANN401 - as above
        name = method.full_name
        if (call := self._streaming.get(name)) is None:
            call = self._streaming[name] = self.channel.unary_stream(path_of(method))
        return call

    def state(self) -> State:
        """Whether calls would go through; a channel that has fallen asleep begins to connect."""
        state = self.channel.get_state(try_to_connect=True)
        if state is not State.TRANSIENT_FAILURE:
            self._failing_since = 0.0
        elif not self._failing_since:
            self._failing_since = time.monotonic()
        elif time.monotonic() - self._failing_since > RENEWAL:
            self._renew()
        return state

    def _renew(self) -> None:
        self.channel = self._open()  # calls on the old channel, if any still live, come to their own end
        self._failing_since = 0.0


class Links:
    """All channels. Within one, gRPC itself goes round the addresses that a name stands for."""

    def __init__(self, options: ChannelOptions) -> None:
        if not options.addresses:
            raise UnusableOptions("upstream: needs the address of at least one server, such as 127.0.0.1:50051")
        self._links = [Link(address, options) for address in options.addresses]
        self._turn = 0

    def pick(self) -> Link:
        """The next channel that is connected; if none is, one that may be soon."""
        links = self._links
        self._turn = (self._turn + 1) % len(links)
        return min((*links[self._turn :], *links[: self._turn]), key=_rank)

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links)

    async def close(self) -> None:
        await asyncio.gather(*(link.channel.close() for link in self._links))


def _rank(link: Link) -> int:
    return _RANKS.get(link.state(), 2)


def path_of(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"
