"""`python -m a2a_server` and the command `a2ad`."""

from __future__ import annotations

import os

# gRPC reads it when it is imported. Its older listener costs the server 14 % less CPU per GetTask and 5 % less per send
# and streamed event (grpcio 1.85.1, uvloop); whoever sets the variable decides otherwise.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_listener")

# gRPC's core would write lines of its own to stderr, and anybody can cause some. What matters is in our log.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from a2a_server.cli.command_line import main

__all__ = ["main"]

if __name__ == "__main__":
    main(prog_name="a2ad")
