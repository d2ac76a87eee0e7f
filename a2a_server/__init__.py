"""The A2A server: domain, ports, operations, adapters and the gRPC door."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from a2a_server.serve import Agents, Server

try:
    __version__ = version("a2ad")
except PackageNotFoundError:  # a copy that was never installed
    __version__ = "0"


def serving(agent: Agents, **settings: Any) -> AbstractAsyncContextManager[Server]:  # noqa: ANN401 - see Settings
    """Serve an agent, or several by their tenants, for as long as the block of an `async with` lasts.

    Without settings both doors listen on free ports of loopback, and tasks are kept in memory.
    """
    from a2a_server.serve import running  # noqa: PLC0415 - gRPC takes its time
    from a2a_server.settings import Settings  # noqa: PLC0415

    given = {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0", "store": "memory:"} | settings
    if isinstance(agent, Mapping):
        given.setdefault("agents", [{"tenant": tenant} for tenant in agent])
    return running(Settings(**given), agent)
