"""Which item of a stream is its last, for versions that say so in the item (spec: CONF-06, CONF-11, LOLD-04)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from a2a_gateway.channel.refusals import garbled
from a2a_gateway.channel.replay import Item
from a2a_proto import a2a_pb2 as pb

IN_BAND_KEY: Final = "inBand"
"""How an a2ad marks a wish for a credential that it expects in the next message."""

SUSPENSE: Final = 0.25
"""How many seconds an event waits for the end of its stream. Servers that end it there do so at once."""

_OVER: Final = frozenset(
    (pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED, pb.TASK_STATE_CANCELED, pb.TASK_STATE_REJECTED)
)
_OPEN: Final = frozenset((pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING))
_STATUS: Final = pb.StreamResponse(status_update=pb.TaskStatusUpdateEvent()).SerializeToString()[:1]


class Ending(tuple[Item, ...]):
    """A batch after which the stream ends."""

    __slots__ = ()
    ends: Final = True


class Endings:
    """Says of an item whether the stream ends with it, as far as the item itself tells."""

    def __init__(self, *, keep_open_on_input: bool) -> None:
        self._open = _OPEN | {pb.TASK_STATE_INPUT_REQUIRED} if keep_open_on_input else _OPEN

    def of(self, item: Item) -> bool | None:
        """None when only what comes next can tell: a task that waits may have more messages to work on."""
        if not item.wire.startswith(_STATUS):
            return False
        try:
            update = pb.StreamResponse.FromString(item.wire).status_update
        except DecodeError:
            raise garbled(pb.StreamResponse.DESCRIPTOR.full_name) from None
        state = update.status.state
        if state in _OVER:
            return True
        if state in self._open or (state == pb.TASK_STATE_AUTH_REQUIRED and not _in_band(update)):
            return False
        return None


def _in_band(update: pb.TaskStatusUpdateEvent) -> bool:
    fields = update.metadata.fields  # to read a key that is not there would put it there
    return IN_BAND_KEY in fields and fields[IN_BAND_KEY].bool_value


class Batches:
    """A call's items: gRPC hands over each by itself, so there is never a second one to put beside it.

    Nothing here holds an item that it has given away: its reader may take long, and another one still longer.
    """

    def __init__(self, call: Any, item_of: Callable[[bytes], Item], endings: Endings | None) -> None:  # noqa: ANN401 - grpc's
        """With `endings` the last batch is an `Ending`."""
        self._call = call
        self._item_of = item_of
        self._endings = endings
        self._ahead: asyncio.Future[bytes | None] | None = None

    async def next(self) -> Sequence[Item] | None:
        """The next batch; None behind the last one."""
        ahead, self._ahead = self._ahead, None
        wire = await (ahead or self._read())
        if wire is None:
            return None
        item = self._item_of(wire)
        return Ending((item,)) if self._endings is not None and await self._ends(self._endings, item) else (item,)

    async def soon(self, seconds: float) -> Sequence[Item] | None:
        """The next batch if it comes soon, or else an empty one."""
        return await self.next() if await self._has_come(seconds) else ()

    async def _ends(self, endings: Endings, item: Item) -> bool:
        ends = endings.of(item)
        return await self._is_over() if ends is None else ends

    async def _is_over(self) -> bool:
        """Whether the stream ends now."""
        if not await self._has_come(SUSPENSE) or (ahead := self._ahead) is None:
            return False
        return not ahead.cancelled() and ahead.exception() is None and ahead.result() is None

    async def _has_come(self, seconds: float) -> bool:
        """Read ahead; whether something came, be it the end."""
        self._ahead = asyncio.ensure_future(self._read())
        await asyncio.wait([self._ahead], timeout=seconds)
        return self._ahead.done()

    async def _read(self) -> bytes | None:
        wire = await self._call.read()
        return None if wire is grpc.aio.EOF else wire

    def close(self) -> None:
        """Give up what was read ahead."""
        if self._ahead is not None:
            self._ahead.cancel()
