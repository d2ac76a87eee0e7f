"""Which item of a stream is its last, for versions that say so in the item (spec: CONF-06, CONF-11, LOLD-04)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from gateway.channel.refusals import garbled
from gateway.channel.replay import Item
from generated import a2a_pb2 as pb

IN_BAND_KEY: Final = "inBand"
"""How an a2a-server marks a wish for a credential that it expects in the next message."""

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


async def one_by_one(call: Any, item_of: Callable[[bytes], Item]) -> AsyncGenerator[Sequence[Item], None]:  # noqa: ANN401 - grpc's
    """Batches of a call's items: gRPC hands over each by itself, so there is never a second one to put beside it."""
    while (wire := await _read(call)) is not None:
        yield (item_of(wire),)


async def with_ending(
    call: Any,  # noqa: ANN401 - grpc's
    item_of: Callable[[bytes], Item],
    endings: Endings,
) -> AsyncGenerator[Sequence[Item], None]:
    """The same, and the last one is an `Ending`."""
    ahead: asyncio.Future[bytes | None] | None = None
    try:
        while (wire := await (ahead or _read(call))) is not None:
            ahead, item = None, item_of(wire)
            ends = endings.of(item)
            if ends is None:
                ahead = asyncio.ensure_future(_read(call))
                await asyncio.wait([ahead], timeout=SUSPENSE)
                ends = _has_ended(ahead)
            yield Ending((item,)) if ends else (item,)
    finally:
        if ahead is not None:
            ahead.cancel()


async def _read(call: Any) -> bytes | None:  # noqa: ANN401 - grpc's
    wire = await call.read()
    return None if wire is grpc.aio.EOF else wire


def _has_ended(ahead: asyncio.Future[bytes | None]) -> bool:
    return ahead.done() and not ahead.cancelled() and ahead.exception() is None and ahead.result() is None
