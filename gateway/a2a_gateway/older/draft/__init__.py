"""Serves the draft between 0.3 and 1.0 over HTTP, under its own path, by calls of 1.0 (spec: DRFT).

`doors` has its routes, card and profile. `bindings` translates its REST and JSON-RPC.
"""
