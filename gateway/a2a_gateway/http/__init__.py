"""The HTTP server: connections, replies and streams, and bounds for slow clients."""
