"""The draft between 0.3 and 1.0 over HTTP, under a path of its own, on the requests of 1.0 (spec: DRFT).

`doors` has its routes, card and profile; `bindings` reads its REST and JSON-RPC and answers through the doors of 1.0.
"""
