"""1.0: ProtoJSON that reads states in all their spellings, and tells where members of 0.3 belong (CONF-26, CONF-54)."""

from __future__ import annotations

from typing import Final

from a2a_server.protocol.codec import Codec, Dialect
from a2a_server.protocol.enums import STATE, V1_STATES
from a2a_server.protocol.foreign import IN_1_0

V1: Final[Codec] = Codec(Dialect(enums={STATE: V1_STATES}, foreign=IN_1_0))
"""Required members always written, times in milliseconds."""
