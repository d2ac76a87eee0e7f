"""HTTP itself: the server, its connections, replies and streams, and bounds for slow clients.

1. `server.HttpDoor` listens, and serves the application with aiohttp.
2. Each client has a `connection.Connection` between the transport and aiohttp's protocol. It enforces the bounds that
   aiohttp does not have; what clients have not taken is counted in `backlog.Backlog`.
3. Doors answer with a `replies.Reply`, or with a `streams.StreamReply` whose events `frames` puts into SSE or lines.
4. `stream_slots.StreamSlots` counts open streams, keeps idle ones alive, and lets an upstream end them.
5. `cors.Cors` says which pages may read an answer.
"""
