"""ProtoJSON, compiled from descriptors (spec: JSON; design: §5)."""

from a2a_server.protocol.codec.codec import Codec
from a2a_server.protocol.codec.schema import Dialect
from a2a_server.protocol.codec.text import NotJson, loads

__all__ = ["Codec", "Dialect", "NotJson", "loads"]
