"""The gateway's upstream in another process, called over gRPC channels (design 5; spec: DOOR-01).

1. `channel_upstream` makes a call: it sets the deadline, and repeats a read while the upstream is away.
2. `endpoints` picks a connection for it, one of several to each address, with the channel arguments from `arguments`.
3. `channel_stream` begins a streaming call, and repeats it until the first item has arrived if it changes nothing.
4. `endings` reads a stream's items, and finds the last one for versions that mark it.
5. `event_numbers` reads the numbers that a2ad puts into events, so that a stream can be resumed.
6. `call_failures` says what a failed call means: for the client, for the log, and whether to try again.
"""

from a2a_gateway.channel.arguments import UnusableOptions
from a2a_gateway.channel.channel_upstream import ChannelUpstream

__all__ = ["ChannelUpstream", "UnusableOptions"]
