"""Calls an upstream in another process, over gRPC channels (design 5; spec: DOOR-01).

1. `channel_upstream` makes a call: it sets the deadline, and repeats a read while the upstream does not answer.
2. `endpoints` chooses the address and one of the connections to it. `arguments` has the options of a channel.
3. `channel_stream` begins a streaming call. If the call changes nothing, it is repeated until the first item arrives.
4. `endings` reads a stream's items, and finds the last one for versions that mark it.
5. `event_numbers` reads the numbers that a2ad puts into events, so that a stream can be resumed.
6. `call_failures` turns the failure of a call into an error for the client and a line in the log.
"""

from a2a_gateway.channel.arguments import UnusableOptions
from a2a_gateway.channel.channel_upstream import ChannelUpstream

__all__ = ["ChannelUpstream", "UnusableOptions"]
