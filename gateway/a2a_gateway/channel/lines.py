"""Connections to one address: as many as its calls need, because one carries only so many at once (spec: DOOR-01).

HTTP/2 lets a server say how many calls a connection may have open. gRPC keeps further ones waiting in silence, so that
a thousand streams that sleep would keep every other call from the server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from grpc import ChannelConnectivity as State

RENEWAL = 3.0
"""After how many seconds without a connection a channel is made anew.

gRPC asks for a name that is unknown less and less often, in the end every two minutes; and a name is unknown for as
long as the container is down. A new channel asks at once.
"""

LESSON = 60.0
"""How many seconds the gateway believes that an upstream takes fewer calls than it was told."""

_READY, _FAILING = State.READY, State.TRANSIENT_FAILURE

Dial = Callable[[], grpc.aio.Channel]


class Capacity:
    """How many calls at once a connection to an address carries."""

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._learned = calls
        self._until = 0.0

    @property
    def calls(self) -> int:
        """What the operator says, or less where the upstream has shown less lately."""
        return self._learned if time.monotonic() < self._until else self._calls

    def learn(self, calls: int) -> None:
        """Note how many a connection had when it took no more; not for ever, since servers also falter."""
        self._learned = max(min(calls, self.calls), 1)
        self._until = time.monotonic() + LESSON


class Line:
    """A channel with a connection of its own, and its callables kept: making one costs as much as half a call."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._failing_since = 0.0
        self.calls = 0
        """How many are under way."""
        self.taken = 0
        """How many of them are known to have been taken by the upstream."""
        self._open()

    def _open(self) -> None:
        self._unary: dict[str, Any] = {}
        self._streaming: dict[str, Any] = {}
        self.channel = self._dial()

    def unary(self, method: MethodDescriptor) -> Any:  # noqa: ANN401 - bytes in, bytes out; grpc's types want messages
        name = method.full_name
        if (call := self._unary.get(name)) is None:
            call = self._unary[name] = self.channel.unary_unary(path_of(method))
        return call

    def streaming(self, method: MethodDescriptor) -> Any:  # noqa: ANN401 - as above
        """To the server it looks the same; here only a call with a stream of requests says when it is taken."""
        name = method.full_name
        if (call := self._streaming.get(name)) is None:
            call = self._streaming[name] = self.channel.stream_stream(path_of(method))
        return call

    def state(self) -> State:
        """Whether calls would go through; a channel that has fallen asleep begins to connect."""
        state = self.channel.get_state(try_to_connect=True)
        if state is not _FAILING:
            self._failing_since = 0.0
        elif not self._failing_since:
            self._failing_since = time.monotonic()
        elif time.monotonic() - self._failing_since > RENEWAL:
            self._failing_since = 0.0
            self._open()  # calls on the old channel, if any still live, come to their own end
        return state


class Pool:
    """The lines to one address for calls of one kind."""

    def __init__(self, dial: Dial, capacity: Capacity, most: int) -> None:
        self._dial = dial
        self._capacity = capacity
        self._most = most
        self.first = Line(dial)
        self._lines = [self.first]

    def pick(self) -> tuple[Line, bool] | None:
        """A line with room, connected if possible, and whether it is; None when there may be no more.

        Another one is opened when all carry enough. The first ones are filled first: what is not needed for half an
        hour gRPC lets go by itself.
        """
        spare: Line | None = None
        most = self._capacity.calls
        for line in self._lines:
            if line.calls < most:
                if line.state() is _READY:
                    return line, True
                spare = spare or line
        if spare is None and len(self._lines) < self._most:
            spare = Line(self._dial)
            self._lines.append(spare)
        return None if spare is None else (spare, False)

    def __iter__(self) -> Iterator[Line]:
        return iter(self._lines)


def path_of(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"
