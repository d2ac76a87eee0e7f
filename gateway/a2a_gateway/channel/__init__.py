"""The gateway's upstream in another process, over gRPC channels (design 5; spec: DOOR-01)."""

from a2a_gateway.channel.options import UnusableOptions
from a2a_gateway.channel.upstream import ChannelUpstream
from a2a_server.protocol.options import ChannelOptions

__all__ = ["ChannelOptions", "ChannelUpstream", "UnusableOptions"]
