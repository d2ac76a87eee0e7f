"""1.0: ProtoJSON that reads states in all their spellings, and tells where members of 0.3 belong (CONF-26, CONF-54)."""

from __future__ import annotations

from typing import Final

from gateway.codec import Codec, Dialect
from gateway.dialects.enums import STATE, V1_STATES
from gateway.dialects.foreign_in_v1 import IN_V1
from gateway.dialects.members import full

V1: Final[Codec] = Codec(Dialect(enums={STATE: V1_STATES}, foreign=full(IN_V1)))
"""Required members always written, times in milliseconds."""
