"""`python -m a2a_server` and the command `a2a-server`."""

from __future__ import annotations

from a2a_server.cli.commands import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
