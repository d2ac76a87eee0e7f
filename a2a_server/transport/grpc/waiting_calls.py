"""Ends calls whose message does not come, and bounds what has arrived of messages that are not complete (LIMT-01).

gRPC's core holds what has arrived of them. It has no common bound for that, and does not tell how much it is.

1. A call that has waited for a tenth of a second is slow. While the slow ones are few, nothing else happens.
2. Otherwise Linux says how many bytes each connection has brought. A connection counts with these, but with no more
   than its calls may hold. Where the system does not say, it counts with what they may hold.
3. Beyond the bound, the oldest slow calls of the address or caller with most end.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import islice, takewhile
from typing import Final, TypeAlias

from a2a_server.protocol.errors import A2AError, ErrorCodes, Reason
from a2a_server.protocol.options import SMALL
from a2a_server.transport.grpc.peers import bytes_from
from a2a_server.transport.grpc.servicer import Context, refuse_call
from a2a_server.transport.grpc_options import GrpcOptions

_SLOW: Final = 0.1
"""After how many seconds without its message a call is slow."""
_REST: Final = 9
"""How much longer than a look at the connections took, the next one is put off."""
_ALL: Final = ""

Brought: TypeAlias = Mapping[int, int] | None
"""How many bytes have come from the clients' ports; None where the system does not say."""
CallerOf = Callable[[Context], Awaitable[str]]
"""Names an authenticated caller, and raises an `A2AError` when it has no valid credentials."""


class WaitingCalls:
    """The calls that wait for their message."""

    def __init__(self, options: GrpcOptions) -> None:
        self._options = options
        self.since: dict[Context, float] = {}
        """Since when each has been waiting; the oldest stands first."""
        self.later: dict[Context, float] = {}
        """The same of calls that wait for a further message, for which there is no hurry."""
        self.few = options.max_unfinished_bytes // 2 // options.max_message_bytes
        """So many cannot hold too much."""
        self._more = asyncio.Event()
        self._callers: dict[Context, str] = {}
        self._farewells: set[asyncio.Task[None]] = set()

    async def keep(self, port: int, caller_of: CallerOf) -> None:
        """Keep the bounds for as long as this runs."""
        while True:
            await self._crowd()
            await asyncio.sleep(_SLOW)
            self._end_late()
            if len(self._slow_ones()) > self.few:
                began = time.monotonic()
                brought = await asyncio.to_thread(bytes_from, port)
                took = time.monotonic() - began
                await self._identify(brought, caller_of)
                self._end_beyond(brought)
                await asyncio.sleep(_REST * took)

    async def _crowd(self) -> None:
        """Wait until there are more than a few, or somebody might be late."""
        if len(self.since) + len(self.later) <= self.few:
            self._more.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._options.message_timeout / 4):
                    await self._more.wait()

    def grow(self) -> None:
        """Take note that there are more than a few."""
        self._more.set()
        if len(self.since) >= self._options.max_concurrent_calls:
            self._make_room()

    def _make_room(self) -> None:
        """End the oldest; several at once, so that this is not done for each new one."""
        text = "The server has too many calls open that wait for their message."
        for context in list(islice(self.since, len(self.since) // 8 + 1)):
            self._end(context, A2AError(Reason.OVERLOADED, text, retry_after=1))

    def _slow_ones(self) -> list[Context]:
        return _older(self.since, _SLOW) + _older(self.later, _SLOW)

    def _waits(self, context: Context) -> bool:
        return context in self.since or context in self.later

    def _end_late(self) -> None:
        patience = self._options.message_timeout
        text = f"The message did not arrive within {patience:g} seconds."
        for context in _older(self.since, patience):
            self._end(context, A2AError(Reason.REQUEST_TIMEOUT, text))

    async def _identify(self, brought: Brought, caller_of: CallerOf) -> None:
        """Find out who makes the slow calls that may hold much; strangers count by their address alone."""
        self._callers = {context: name for context, name in self._callers.items() if self._waits(context)}
        for context in self._slow_ones():
            if self._waits(context) and context not in self._callers and _most_of(context.peer(), brought) > SMALL:
                self._callers[context] = ""
                with suppress(Exception):  # its end is told when its message has come
                    self._callers[context] = await caller_of(context)
                await asyncio.sleep(0)

    def _end_beyond(self, brought: Brought) -> None:
        bound, largest = self._options.max_unfinished_bytes, self._options.max_message_bytes
        held = _Held(brought, largest)
        for context in (*self.since, *self.later):
            held.add(context, self._callers.get(context, ""))
        text = f"Too much is being sent at once: at most {bound} bytes (transport.max_unfinished_bytes)"
        error = A2AError(Reason.OVERLOADED, f"{text}, and half of them from one address or caller.", retry_after=1)
        slow = sorted(self._slow_ones(), key=held.on_its_connection, reverse=True)
        most, half = max(bound, largest), max(bound // 2, largest)  # one alone always fits
        while sender := held.beyond(most, half):
            ending = [context for context in slow if self._waits(context) and sender in held.senders[context]]
            for context in ending[: len(ending) // 8 + 1]:
                held.drop(context)
                self._end(context, error)
            if not ending:
                return

    def _end(self, context: Context, error: A2AError) -> None:
        del (self.since if context in self.since else self.later)[context]
        farewell = asyncio.get_running_loop().create_task(_say_farewell(context, error))
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)


def _older(waiting: Mapping[Context, float], seconds: float) -> list[Context]:
    line = time.monotonic() - seconds
    return [context for context, _ in takewhile(lambda item: item[1] < line, waiting.items())]


class _Held:
    """What calls may hold at most: all together, and those of each sender, which is an address or a caller."""

    def __init__(self, brought: Brought, largest: int) -> None:
        self._brought = brought
        self._largest = largest
        self._bytes: Counter[str] = Counter()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._connections: dict[Context, str] = {}
        self.senders: dict[Context, tuple[str, ...]] = {}

    def add(self, context: Context, caller: str) -> None:
        self._connections[context] = peer = context.peer()
        address = peer.rpartition(":")[0]
        self.senders[context] = (_ALL, address, f"caller {caller}") if caller else (_ALL, address)
        self._change(context, 1)

    def drop(self, context: Context) -> None:
        self._change(context, -1)

    def _change(self, context: Context, number: int) -> None:
        peer = self._connections[context]
        for sender in self.senders[context]:
            before = self._on(sender, peer)
            self._calls[sender, peer] += number
            self._bytes[sender] += self._on(sender, peer) - before

    def _on(self, sender: str, peer: str) -> int:
        return min(_most_of(peer, self._brought), self._calls[sender, peer] * self._largest)

    def on_its_connection(self, context: Context) -> int:
        return self._on(_ALL, self._connections[context])

    def beyond(self, most: int, half: int) -> str:
        """Return the sender with most if there is too much; empty otherwise."""
        sender = max((sender for sender in self._bytes if sender), key=self._bytes.__getitem__, default="")
        return sender if self._bytes[_ALL] > most or self._bytes[sender] > half else ""


def _most_of(peer: str, brought: Brought) -> int:
    """Return how much a connection has brought; two of the same port count together."""
    port = peer.rpartition(":")[2]
    return sys.maxsize if brought is None or not port.isdigit() else brought.get(int(port), 0)


async def refuse(context: Context, error: A2AError, codes: ErrorCodes) -> None:
    """Refuse a call, unless it has been ended meanwhile. The traceback would keep what may be large."""
    if not context.done():
        await refuse_call(context, error.with_traceback(None), codes)


async def _say_farewell(context: Context, error: A2AError) -> None:
    with suppress(Exception):  # the client may be gone, and abort raises by design
        await refuse(context, error, "1.0.1")
