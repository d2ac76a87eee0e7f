"""Which item of a stream is its last, for versions that mark the last item (spec: CONF-06, CONF-11, LOLD-04)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from a2a_gateway.channel.call_failures import garbled
from a2a_gateway.channel.event_numbers import NumberedItem
from a2a_proto import a2a_pb2 as pb

IN_BAND_KEY: Final = "inBand"
"""How a2ad marks a request for a credential that it expects in the next message."""

SUSPENSE: Final = 0.25
"""How many seconds an event waits for the end of its stream. Servers that end it there do so at once."""

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
"""Tells whether a stream ends with an item; None when only what follows can tell."""


def is_end(item: NumberedItem, *, keep_open_on_input: bool) -> bool | None:
    """As far as the item shows it: a waiting task may have more messages to work on."""
    if not item.wire.startswith(_STATUS):
        return False
    try:
        update = pb.StreamResponse.FromString(item.wire).status_update
    except DecodeError:
        raise garbled(pb.StreamResponse.DESCRIPTOR.full_name) from None
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
    """With it, the last batch is a `FinalBatch`."""
    _ahead: asyncio.Future[bytes | None] | None = None

    async def next(self) -> Sequence[NumberedItem] | None:
        """Return the next batch; None after the last one."""
        ahead, self._ahead = self._ahead, None
        wire = await (ahead or self._read())
        if wire is None:
            return None
        item = self._item_of(wire)
        ends = False if self._end_check is None else self._end_check(item)
        return FinalBatch((item,)) if (await self._is_over() if ends is None else ends) else (item,)

    async def soon(self, seconds: float) -> Sequence[NumberedItem] | None:
        """Return the next batch if it comes soon, otherwise an empty one."""
        return await self.next() if await self._has_come(seconds) else ()

    async def _is_over(self) -> bool:
        if not await self._has_come(SUSPENSE) or (ahead := self._ahead) is None:
            return False
        return not ahead.cancelled() and ahead.exception() is None and ahead.result() is None

    async def _has_come(self, seconds: float) -> bool:
        """Read ahead; return whether something came, even if only the end."""
        self._ahead = asyncio.ensure_future(self._read())
        await asyncio.wait([self._ahead], timeout=seconds)
        return self._ahead.done()

    async def _read(self) -> bytes | None:
        wire = await self._call.read()
        return None if wire is grpc.aio.EOF else wire

    def close(self) -> None:
        """Cancel what is being read ahead."""
        if self._ahead is not None:
            self._ahead.cancel()
