"""The A2A server: domain, ports, operations, adapters and the gRPC door."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from a2a_server.serve import Agents, Server

try:
    __version__ = version("a2ad")
except PackageNotFoundError:  # a copy that was never installed
    __version__ = "0"


def serving(agent: object, **settings: Any) -> AbstractAsyncContextManager[Server]:  # noqa: ANN401 - see Settings
    """Serve an agent, or several by their tenants, for as long as the block of an `async with` lasts.

    It may be an agent of another library, as for `a2ad serve`.
    Without settings both doors listen on free ports of loopback, and tasks are kept in memory.
    """
    from a2a_server.serve import recognised, running  # noqa: PLC0415 - gRPC takes its time
    from a2a_server.settings import Settings  # noqa: PLC0415

    given = {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0", "store": "memory:"} | settings
    if not isinstance(agent, Mapping):
        return running(Settings(**given), recognised(agent) or cast("Agents", agent))
    given.setdefault("agents", [{"tenant": tenant} for tenant in agent])
    return running(Settings(**given), {tenant: recognised(one) or one for tenant, one in agent.items()})
