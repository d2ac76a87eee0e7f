"""Names are looked up in threads of their own: slow name servers hold up nothing but webhooks (spec: DELV-04)."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from aiohttp.abc import AbstractResolver, ResolveResult

_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class Lookups(AbstractResolver):
    """The system's resolver. What it answers is judged later, for each socket."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, "webhook-names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        ask = partial(
            socket.getaddrinfo, host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        return [
            ResolveResult(
                hostname=host, host=str(address[0]), port=port, family=family, proto=proto, flags=int(_NUMERIC)
            )
            for family, _, proto, _, address in found
        ]

    async def close(self) -> None:
        """Wait for nobody: a name server may take its time."""
        self._threads.shutdown(wait=False, cancel_futures=True)
