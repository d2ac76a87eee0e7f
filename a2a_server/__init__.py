"""The A2A server: domain, ports, operations, adapters and the gRPC door."""
