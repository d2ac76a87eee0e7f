"""The HTTP doors of A2A 0.3 on the requests of 1.0: REST under /v1, JSON-RPC with a slash in methods (LRES, LRPC)."""
