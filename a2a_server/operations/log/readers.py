"""Readers of task logs: what is durable, in order, for any number of followers (spec: ORDR, SUBS-02, RPLY-06).

Streams, blocking sends and subscribers are all readers. A task's channel exists only while somebody reads; it keeps the
latest entries for all of them together, and a reader that falls behind them goes back to the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from a2a_server.operations.call import Sink
from a2a_server.ports.records import Entry
from a2a_server.ports.store import Store
from a2a_server.ports.wakeups import Wakeups
from a2a_server.protocol.errors import A2AError, Reason

_RECENT = 512
_BATCH = 256
_BYTES = 1024 * 1024


class EventLog:
    """Hands what was committed to whoever follows the task."""

    def __init__(self, store: Store, wakeups: Wakeups, *, lag: int) -> None:
        self.store = store
        self.lag = lag
        self.wakeups = wakeups
        self._channels: dict[str, Channel] = {}

    def reader(self, task_id: str, after: int, *, head: int = 0, error: Exception | None = None) -> Reader:
        """A reader of what follows `after`; it misses nothing that is published from now on.

        `head` says up to where the log is known to reach already, and `error` that it goes no further.
        """
        channel = self._channels.get(task_id)
        if channel is None:
            channel = self._channels[task_id] = Channel(self, task_id)
            self.wakeups.listen(task_id, channel)
        if head > channel.head:
            channel.reach(head)
        channel.error = channel.error or error
        return Reader(channel, after)

    def fail(self, task_id: str, error: Exception) -> None:
        """End all readers of a task: there will be nothing more to read here."""
        if channel := self._channels.get(task_id):
            channel.fail(error)

    def close(self, error: Exception) -> None:
        """End all readers of all tasks, once they have read what is pending."""
        for channel in list(self._channels.values()):
            channel.fail(error)

    @property
    def watched(self) -> int:
        """How many tasks are being read; 0 when nobody waits."""
        return len(self._channels)

    def forget(self, channel: Channel) -> None:
        self.wakeups.forget(channel.task_id, channel)
        if self._channels.get(channel.task_id) is channel:  # not a newer one, of readers that came since
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
    """Where a reader ought to be: what came last does not count, or a burst would make everybody slow."""
    error: Exception | None = None
    _ready: Sequence[Entry] = ()
    _ready_after: tuple[int, int] = 0, 0
    _handing_out: bool = False

    def woken(self, number: int, entries: Sequence[Entry]) -> None:
        """Share what is new with all readers, and wake those that wait."""
        recent = self.recent
        if number >= self.head:  # or the hint is late
            if not entries or entries[0].number != self.head + 1:
                recent.clear()  # another writer was in between; the store has what is missing
            recent.extend(entries)
            self.due, self.head = self.head, number
            if len(recent) > 2 * _RECENT:
                del recent[:-_RECENT]
        self._wake()

    def reach(self, head: int) -> None:
        """Entries were written before anybody followed; they are in the store."""
        self.recent.clear()
        self.head = head

    def fail(self, error: Exception) -> None:
        self.error = error
        self._wake()

    def _wake(self) -> None:
        for reader in self.readers:
            reader.wake()

    def hand_out_soon(self) -> None:
        """Offer entries to their readers in one go, after whatever else is published right now."""
        if not self._handing_out:
            self._handing_out = True
            asyncio.get_running_loop().call_soon(self._hand_out)

    def _hand_out(self) -> None:
        self._handing_out = False
        for reader in tuple(self.readers):
            reader.hand_over()

    def ready(self, position: int) -> Sequence[Entry]:
        """What follows `position`, or the first of it, if the shared entries go back that far.

        It is the same object for all who are there.
        """
        if self._ready_after != (position, self.head):
            recent = self.recent
            near = bool(recent) and recent[0].number <= position + 1
            self._ready = portion(recent[position + 1 - recent[0].number :]) if near else ()
            self._ready_after = position, self.head
        return self._ready

    async def after(self, position: int) -> Sequence[Entry]:
        """What follows `position`: from the shared entries, or from the store for a reader that fell behind them."""
        if ready := self.ready(position):
            return ready
        await asyncio.sleep(0)  # a long log is not read in one go while everybody else waits
        return portion(await self.log.store.entries(self.task_id, position, _BATCH))


def portion(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The first of these: as many as a reader may hold that takes long. More come when it has taken them."""
    room = _BYTES
    for count, entry in enumerate(entries):
        room -= len(entry.wire)
        if room < 0 and count:
            return entries[:count]
    return entries


class Reader:
    """One follower of one task. Whoever opens it closes it, so that nothing of it outlives its stream."""

    __slots__ = ("_catching_up", "_channel", "_sink", "_waiter", "position")

    def __init__(self, channel: Channel, after: int) -> None:
        self._channel = channel
        self._waiter: asyncio.Future[None] | None = None
        self.position = after
        self._catching_up = False
        self._sink: Sink | None = None
        channel.readers.add(self)

    def catch_up(self, position: int, head: int) -> None:
        """Go back to a position: read from the store, however far back, and only then count as a reader.

        `head` says up to where the log is known to reach.
        """
        self.position = position
        self._catching_up = True
        if head > self._channel.head:
            self._channel.reach(head)

    def deliver_to(self, sink: Sink) -> None:
        """Offer to the sink what `next` would return, while that is being waited for: to wake a task costs more."""
        self._sink = sink

    def close(self) -> None:
        """Stop following; the last reader of a task takes its channel along."""
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
        """Have the sink take what is ready, or wake whoever waits for it."""
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
        """At least one entry, all that is ready. Raises when the reader is too far behind, or the log ends here.

        While it catches up, an empty batch says that the store no longer has what should be there.
        """
        channel = self._channel
        while True:
            if channel.head > self.position:
                if channel.due - self.position > channel.log.lag and not self._catching_up:
                    behind = channel.head - self.position
                    text = f"The reader fell {behind} events behind and was cut; subscribe again to go on."
                    raise A2AError(Reason.SLOW_READER, text, metadata={"taskId": channel.task_id}, retry_after=1)
                entries = await channel.after(self.position)
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
        """The first entry of a new task; what came with it is read again by `next`."""
        first = (await self.next())[0]
        self.position = first.number
        return first
