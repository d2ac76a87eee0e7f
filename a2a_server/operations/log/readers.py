"""Gives the durable entries of a task's log, in order, to any number of readers (spec: ORDR, SUBS-02, RPLY-06).

Streams, blocking sends and subscriptions are readers. A task has a channel while somebody reads it. The channel keeps
the latest entries for all its readers. A reader that falls behind them reads from the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from a2a_server.domain.events import stops_turn
from a2a_server.operations.call import Sink
from a2a_server.ports.records import STATUS, Entry
from a2a_server.ports.replicas import Replicas
from a2a_server.ports.store import Store
from a2a_server.ports.wakeups import Wakeups
from a2a_server.protocol.errors import A2AError, Reason

_AT_ONCE = 1000
"""Tasks that are asked for together."""
_RECENT = 512
_BATCH = 256
_BYTES = 1024 * 1024


class EventLog:
    """Opens readers, and gives them the committed entries."""

    def __init__(self, store: Store, wakeups: Wakeups, *, lag: int, shared: bool = False) -> None:
        self.store = store
        self.lag = lag
        self.wakeups = wakeups
        self.shared = shared
        """Whether other servers write to the store, too."""
        self._channels: dict[str, Channel] = {}

    def reader(self, task_id: str, after: int, *, head: int = 0, error: Exception | None = None) -> Reader:
        """Open a reader for the entries after `after`. It misses nothing that is published from now on.

        `head` is the number up to which the log is known to exist. With `error` the log ends there.
        """
        channel = self.channel(task_id)
        if head > channel.head:
            channel.reach(head)
        channel.error = channel.error or error
        return Reader(channel, after)

    def channel(self, task_id: str) -> Channel:
        """What the readers of a task share."""
        channel = self._channels.get(task_id)
        if channel is None:
            channel = self._channels[task_id] = Channel(self, task_id)
            self.wakeups.listen(task_id, channel)
        return channel

    def ask_others(self, task_id: str) -> None:
        """Have the readers of a task told of what other servers write to it."""
        if channel := self._channels.get(task_id):
            self.wakeups.ask_others(task_id, channel)

    async def look(self, replicas: Replicas, is_here: Callable[[str], bool]) -> None:
        """Wake the readers of tasks that others write, as wake-ups may be lost between servers."""
        elsewhere = [task_id for task_id in self._channels if not is_here(task_id)]
        for task_id in elsewhere:
            self.ask_others(task_id)
        for begin in range(0, len(elsewhere), _AT_ONCE):
            numbers = await replicas.numbers(elsewhere[begin : begin + _AT_ONCE])
            for task_id, number in numbers.items():
                channel = self._channels.get(task_id)
                if channel is not None and number > channel.head:
                    channel.woken(number, ())

    def fail(self, task_id: str, error: Exception) -> None:
        """End all readers of a task with an error, after they have read what is pending."""
        if channel := self._channels.get(task_id):
            channel.fail(error)

    def close(self, error: Exception) -> None:
        """End all readers of all tasks, after they have read what is pending."""
        for channel in list(self._channels.values()):
            channel.fail(error)

    @property
    def watched(self) -> int:
        """How many tasks are being read."""
        return len(self._channels)

    def forget(self, channel: Channel) -> None:
        self.wakeups.forget(channel.task_id, channel)
        if self._channels.get(channel.task_id) is channel:  # there may be a newer one already
            del self._channels[channel.task_id]


@dataclass(slots=True, eq=False)
class Channel:
    """The readers of one task, and the latest entries that they share."""

    log: EventLog
    task_id: str
    readers: set[Reader] = field(default_factory=set)
    recent: list[Entry] = field(default_factory=list)
    head: int = 0
    due: int = 0
    """The position that readers should have reached. The latest batch does not count, so that bursts are allowed."""
    error: Exception | None = None
    _ready: Sequence[Entry] = ()
    _ready_after: tuple[int, int] = 0, 0
    _handing_out: bool = False

    def woken(self, number: int, entries: Sequence[Entry]) -> None:
        """Share what is new with all readers, and wake those that wait."""
        recent = self.recent
        if number >= self.head:  # or the hint is late
            if not entries or entries[0].number != self.head + 1:
                recent.clear()  # another writer has written in between; readers get those entries from the store
            recent.extend(entries)
            self.due, self.head = self.head, number
            if len(recent) > 2 * _RECENT:
                del recent[:-_RECENT]
        self._wake()

    def reach(self, head: int) -> None:
        """Note that the store has entries up to `head`."""
        self.recent.clear()
        self.head = head

    def fail(self, error: Exception) -> None:
        self.error = error
        self._wake()

    def _wake(self) -> None:
        for reader in self.readers:
            reader.wake()

    def hand_out_soon(self) -> None:
        """Schedule one call that offers entries to all readers, after everything that is published right now."""
        if not self._handing_out:
            self._handing_out = True
            asyncio.get_running_loop().call_soon(self._hand_out)

    def _hand_out(self) -> None:
        self._handing_out = False
        for reader in tuple(self.readers):
            reader.hand_over()

    def ready(self, position: int) -> Sequence[Entry]:
        """Return the shared entries after `position`, or as many as fit a batch; empty if they do not go back so far.

        All readers at the same position get the same object.
        """
        if self._ready_after != (position, self.head):
            recent = self.recent
            near = bool(recent) and recent[0].number <= position + 1
            self._ready = portion(recent[position + 1 - recent[0].number :]) if near else ()
            self._ready_after = position, self.head
        return self._ready

    async def after(self, position: int) -> Sequence[Entry]:
        """Return the entries after `position`: shared ones, or from the store if the reader has fallen behind."""
        if ready := self.ready(position):
            return ready
        await asyncio.sleep(0)  # let other tasks run while a long log is read
        return portion(await self.log.store.entries(self.task_id, position, _BATCH))


async def _up_to_stop(entries: Sequence[Entry], ask: Callable[[Entry], Awaitable[None]]) -> Sequence[Entry]:
    for count, entry in enumerate(entries, 1):
        if entry.kind == STATUS and stops_turn(entry.event):
            await ask(entry)
            return entries[:count]
    return entries


def portion(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the first of these entries: as many as a slow reader may hold at once."""
    room = _BYTES
    for count, entry in enumerate(entries):
        room -= len(entry.wire)
        if room < 0 and count:
            return entries[:count]
    return entries


class Reader:
    """One reader of one task. Whoever opens it must close it."""

    __slots__ = ("_at_stop", "_catching_up", "_channel", "_sink", "_waiter", "position")

    def __init__(self, channel: Channel, after: int) -> None:
        self._channel = channel
        self._waiter: asyncio.Future[None] | None = None
        self.position = after
        self._catching_up = False
        self._sink: Sink | None = None
        self._at_stop: Callable[[Entry], Awaitable[None]] | None = None
        channel.readers.add(self)

    def catch_up(self, position: int, head: int) -> None:
        """Go back to a position, and read from the store up to `head`. The limit on slow readers applies after that."""
        self.position = position
        self._catching_up = True
        if head > self._channel.head:
            self._channel.reach(head)

    def deliver_to(self, sink: Sink) -> None:
        """Offer to the sink what `next` would return, while the caller waits for it. That saves waking a task."""
        if self._at_stop is None:
            self._sink = sink

    def ask_at_stops(self, ask: Callable[[Entry], Awaitable[None]]) -> None:
        """Call this for each stop of a turn before it is handed out. A sink would not wait for that."""
        self._at_stop = ask

    def close(self) -> None:
        """Stop reading. The last reader of a task removes its channel."""
        channel = self._channel
        channel.readers.discard(self)
        if not channel.readers:
            channel.log.forget(channel)

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            if self._sink is None:
                self._waiter.set_result(None)
            else:
                self._channel.hand_out_soon()

    def hand_over(self) -> None:
        """Give the sink what is ready, or wake the task that waits for it."""
        if self._waiter is None or self._waiter.done():
            return
        while self._delivered():
            if self.position >= self._channel.head:
                return
        self._waiter.set_result(None)

    def _delivered(self) -> bool:
        channel = self._channel
        if channel.error is not None or channel.due - self.position > channel.log.lag or self._sink is None:
            return False
        entries = channel.ready(self.position)
        if not entries or not self._sink(entries):
            return False
        self.position = entries[-1].number
        return True

    async def next(self) -> Sequence[Entry]:
        """Return all entries that are ready, at least one. Raise if the reader is too far behind, or the log has ended.

        While the reader catches up, an empty batch means that the store no longer has the entries.
        """
        channel = self._channel
        while True:
            if channel.head > self.position:
                if channel.due - self.position > channel.log.lag and not self._catching_up:
                    behind = channel.head - self.position
                    text = f"The reader fell {behind} events behind and was cut; subscribe again to go on."
                    raise A2AError(Reason.SLOW_READER, text, metadata={"taskId": channel.task_id}, retry_after=1)
                entries = await channel.after(self.position)
                if self._at_stop is not None:
                    entries = await _up_to_stop(entries, self._at_stop)
                if entries:
                    self.position = entries[-1].number
                if entries or self._catching_up:
                    return entries
            self._catching_up = False
            if channel.error is not None:
                raise channel.error
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    async def created(self) -> Entry:
        """Return the first entry of a new task. Entries of the same batch are read again by `next`."""
        first = (await self.next())[0]
        self.position = first.number
        return first
