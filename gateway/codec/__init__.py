"""ProtoJSON, compiled from descriptors (spec: JSON; design: §5)."""

from typing import Final

from gateway.codec.codec import Codec
from gateway.codec.schema import Dialect
from gateway.codec.text import NotJson, loads

V1: Final = Codec(Dialect())
"""A2A 1.0: ProtoJSON, required members always written, times in milliseconds."""

__all__ = ["V1", "Codec", "Dialect", "NotJson", "loads"]
