"""The A2A server: domain, ports, operations, adapters and the gRPC door."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("a2ad")
except PackageNotFoundError:  # a copy that was never installed
    __version__ = "0"
