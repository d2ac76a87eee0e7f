"""ProtoJSON, compiled from descriptors (spec: JSON; design: §5)."""

from gateway.codec.codec import Codec
from gateway.codec.schema import Dialect
from gateway.codec.text import NotJson, loads

__all__ = ["Codec", "Dialect", "NotJson", "loads"]
