"""The gRPC doors of 1.0 and 0.3."""
