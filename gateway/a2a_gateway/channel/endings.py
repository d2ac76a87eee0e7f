"""Finds the last item of a stream, for versions that mark it (spec: CONF-06, CONF-11, LOLD-04)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from a2a_gateway.channel.call_failures import malformed
from a2a_gateway.channel.event_numbers import NumberedItem
from a2a_proto import a2a_pb2 as pb

IN_BAND_KEY: Final = "inBand"
"""The member that marks a request for a credential which the client sends in its next message."""

END_SECONDS: Final = 0.25
"""How many seconds an event is held to see whether its stream ends. Servers that end the stream there do so at once."""

_OVER: Final = frozenset(
    (pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED, pb.TASK_STATE_CANCELED, pb.TASK_STATE_REJECTED)
)
_OPEN: Final = frozenset((pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING))
_STATUS: Final = pb.StreamResponse(status_update=pb.TaskStatusUpdateEvent()).SerializeToString()[:1]


class FinalBatch(tuple[NumberedItem, ...]):
    """A batch after which the stream ends."""

    __slots__ = ()
    ends: Final = True


EndCheck = Callable[[NumberedItem], bool | None]
"""Says whether a stream ends with an item; None if only the next item can show it."""


def is_end(item: NumberedItem, *, keep_open_on_input: bool) -> bool | None:
    """Whether a stream ends with an item; None if unknown, because a waiting task may have more messages to work on."""
    if not item.wire.startswith(_STATUS):
        return False
    try:
        update = pb.StreamResponse.FromString(item.wire).status_update
    except DecodeError:
        raise malformed(pb.StreamResponse.DESCRIPTOR.full_name) from None
    state = update.status.state
    if state in _OVER:
        return True
    if state in _OPEN or (keep_open_on_input and state == pb.TASK_STATE_INPUT_REQUIRED):
        return False
    return False if state == pb.TASK_STATE_AUTH_REQUIRED and not _in_band(update) else None


def _in_band(update: pb.TaskStatusUpdateEvent) -> bool:
    fields = update.metadata.fields  # reading a missing key would add it
    return IN_BAND_KEY in fields and fields[IN_BAND_KEY].bool_value


@dataclass(slots=True, eq=False)
class BatchReader:
    """Reads a call's items as batches of one, because gRPC delivers them one by one.

    It keeps no reference to an item that it has returned, since the reader may be slow.
    """

    _call: Any
    _item_of: Callable[[bytes], NumberedItem]
    _end_check: EndCheck | None
    """If set, the last batch is a `FinalBatch`."""
    _pending_read: asyncio.Future[bytes | None] | None = None

    async def next(self) -> Sequence[NumberedItem] | None:
        """Return the next batch; None after the last one."""
        pending, self._pending_read = self._pending_read, None
        wire = await (pending or self._read())
        if wire is None:
            return None
        item = self._item_of(wire)
        ends = False if self._end_check is None else self._end_check(item)
        return FinalBatch((item,)) if (await self._is_over() if ends is None else ends) else (item,)

    async def next_within(self, seconds: float) -> Sequence[NumberedItem] | None:
        """Return the next batch if it arrives in time, otherwise an empty one."""
        return await self.next() if await self._arrives_within(seconds) else ()

    async def _is_over(self) -> bool:
        if not await self._arrives_within(END_SECONDS) or (pending := self._pending_read) is None:
            return False
        return not pending.cancelled() and pending.exception() is None and pending.result() is None

    async def _arrives_within(self, seconds: float) -> bool:
        """Read ahead; return whether an item or the end has arrived."""
        self._pending_read = asyncio.ensure_future(self._read())
        await asyncio.wait([self._pending_read], timeout=seconds)
        return self._pending_read.done()

    async def _read(self) -> bytes | None:
        wire = await self._call.read()
        return None if wire is grpc.aio.EOF else wire

    def close(self) -> None:
        """Cancel what is being read ahead."""
        if self._pending_read is not None:
            self._pending_read.cancel()
