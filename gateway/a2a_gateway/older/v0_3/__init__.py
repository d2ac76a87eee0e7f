"""A2A 0.3 over HTTP, on the requests of 1.0 (spec: LRES, LRPC).

1. `doors` finds the door: REST under /v1, also below a tenant, and the cards of 0.3 and 0.2.
2. `rest` and `jsonrpc` are the bindings; `requests` makes a request of 1.0 of a path, a query and a body.
3. `answers` makes the call, and writes what comes back, errors too, in the client's spelling.
"""
