"""The HTTP door: REST, JSON-RPC and SSE, derived from the annotations of the protos."""
