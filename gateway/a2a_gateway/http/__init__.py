"""The HTTP server: its connections, answers and streams, and bounds for slow clients.

1. `server.HttpDoor` listens, and serves the application with aiohttp.
2. Each client has a `connection.Connection` between the transport and aiohttp's protocol. It enforces the bounds that
   aiohttp does not have. `backlog` counts the bytes that are held for slow clients.
3. `replies.CatchAllResource` passes every request to the dispatcher, and turns errors into answers.
4. The dispatcher returns a `replies.Reply` or a `streams.StreamReply`. A stream writes each event as SSE or as a JSON
   line (`frames`), through a `body_writer.BodyWriter`.
5. `stream_slots.StreamSlots` counts open streams, keeps idle ones alive, and lets an upstream end them.
6. `cors.Cors` says which web pages may read an answer.
"""
