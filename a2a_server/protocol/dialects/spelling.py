"""The codecs of one way to spell (spec: CONF-11)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import Codec, Dialect

FINAL: Final = "final"

_EVENT: Final = pb.TaskStatusUpdateEvent.DESCRIPTOR.full_name
_MEMO_BYTES: Final = 8 * 2**20
_MEMO_BYTES_OF_LAST: Final = 2**20


class Spelling(NamedTuple):
    codec: Codec
    """Requests, answers, and all items of a stream but the one that ends it."""
    last: Codec
    """The item that ends a stream: its `final` is true. In 1.0, which has none, the same codec."""


def spelling(dialect: Dialect) -> Spelling:
    """Make the codecs of a dialect whose status updates say that they are not final."""
    ending = {**dialect.constants[_EVENT], FINAL: True}
    last = replace(dialect, constants={**dialect.constants, _EVENT: ending})
    return Spelling(Codec(dialect, memo_bytes=_MEMO_BYTES), Codec(last, memo_bytes=_MEMO_BYTES_OF_LAST))
