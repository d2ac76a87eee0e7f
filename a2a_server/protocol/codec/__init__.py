"""ProtoJSON, compiled from descriptors (spec: JSON; design: §5)."""

from a2a_server.protocol.codec.codec import DEEPEST, Codec, NotJson, loads
from a2a_server.protocol.codec.schema import Dialect

__all__ = ["DEEPEST", "Codec", "Dialect", "NotJson", "loads"]
