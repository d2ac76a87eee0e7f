"""Serves A2A 0.3 over HTTP, by calls of 1.0 (spec: LRES, LRPC).

1. `doors` finds the handler of a path: REST under /v1, also below a tenant, and the cards of 0.3 and 0.2.
2. `rest` and `jsonrpc` are the bindings. `requests` turns REST's path, query and body into a request of 1.0.
3. `answers` makes the call, and translates the answer or the error to the client's spelling.
"""
