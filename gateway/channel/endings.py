"""Which item of a channel's stream is its last, told by the item: nobody else says so in time (CONF-06, CONF-11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from gateway.channel.refusals import garbled
from gateway.channel.replay import Item
from generated import a2a_pb2 as pb

IN_BAND_KEY: Final = "inBand"
"""How an a2a-server marks a wish for a credential that it expects in the next message."""

_ENDS: Final = frozenset(
    (pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED, pb.TASK_STATE_CANCELED, pb.TASK_STATE_REJECTED)
)
_STATUS: Final = pb.StreamResponse(status_update=pb.TaskStatusUpdateEvent()).SerializeToString()[:1]


class Ending(tuple[Item, ...]):
    """A batch after which the stream ends."""

    __slots__ = ()
    ends: Final = True


def alone(item: Item) -> Sequence[Item]:
    """An item as a batch, whatever it is."""
    return (item,)


class Endings:
    """Makes batches of items, and says which is the last."""

    def __init__(self, *, keep_open_on_input: bool) -> None:
        self._states = _ENDS if keep_open_on_input else _ENDS | {pb.TASK_STATE_INPUT_REQUIRED}

    def __call__(self, item: Item) -> Sequence[Item]:
        if not item.wire.startswith(_STATUS):
            return (item,)
        try:
            update = pb.StreamResponse.FromString(item.wire).status_update
        except DecodeError:
            raise garbled(pb.StreamResponse.DESCRIPTOR.full_name) from None
        return Ending((item,)) if self._ends(update) else (item,)

    def _ends(self, update: pb.TaskStatusUpdateEvent) -> bool:
        state = update.status.state
        return state in self._states or (state == pb.TASK_STATE_AUTH_REQUIRED and _in_band(update))


def _in_band(update: pb.TaskStatusUpdateEvent) -> bool:
    fields = update.metadata.fields  # to read a key that is not there would put it there
    return IN_BAND_KEY in fields and fields[IN_BAND_KEY].bool_value
