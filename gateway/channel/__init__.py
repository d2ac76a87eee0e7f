"""The gateway's upstream in another process, over gRPC channels (design 5; spec: DOOR-01)."""

from gateway.channel.options import ChannelOptions, UnusableOptions
from gateway.channel.upstream import ChannelUpstream

__all__ = ["ChannelOptions", "ChannelUpstream", "UnusableOptions"]
