"""Fetches documents with the HTTP client of webhooks, so that the same addresses are refused (spec: SSRF-04)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from a2a_server.adapters.webhook.connections import Connections, Sockets, spend
from a2a_server.domain.webhooks import Policy, target_of
from a2a_server.ports.fetching import FetchError
from a2a_server.protocol.names import AUTHORIZATION_HEADER, JSON

MOST = 256 * 1024
"""Bytes of a document."""
_FORM = "application/x-www-form-urlencoded"


class GuardedFetcher:
    """Fetches from wherever the policy allows. It opens with its first request."""

    def __init__(self, policy: Policy, *, trust: str, timeout: float, user_agent: str) -> None:
        self._policy = policy
        self._trust = trust
        self._timeout = timeout
        self._user_agent = user_agent
        self._connections: Connections | None = None

    async def fetch(
        self, url: str, *, form: Mapping[str, str] | None = None, json: bytes = b"", credentials: str = ""
    ) -> bytes:
        try:
            target = target_of(url)
        except ValueError as error:
            raise FetchError(f"the URL {error}") from None
        if refusal := self._policy.refusal(target):
            raise FetchError(f"the URL {refusal}")
        deadline = asyncio.get_running_loop().time() + self._timeout
        kind, body = (JSON, json) if form is None else (_FORM, urlencode(form).encode())
        response = await self._request(URL(target.url, encoded=True), kind, body, credentials, deadline)
        if response.status != HTTPStatus.OK:
            response.close()
            raise FetchError(f"the answer has the status {response.status}")
        document = await spend(response, deadline, MOST + 1)
        if not 0 < len(document) <= MOST:
            raise FetchError(f"the answer is empty, has more than {MOST} bytes, or took over {self._timeout:g} seconds")
        return document

    async def close(self) -> None:
        if self._connections is not None:
            await self._connections.close()

    async def _request(
        self, url: URL, kind: str, body: bytes, credentials: str, deadline: float
    ) -> aiohttp.ClientResponse:
        if self._connections is None:
            self._connections = Connections(Sockets(self._policy.addresses), self._trust)
        headers = {"User-Agent": self._user_agent, "Accept": JSON, "Accept-Encoding": "identity"}
        if credentials:
            headers[AUTHORIZATION_HEADER] = credentials
        if body:
            headers["Content-Type"] = kind
        try:
            async with asyncio.timeout_at(deadline):
                return await self._connections.request("POST" if body else "GET", url, headers, "", body or None)
        except TimeoutError:
            raise FetchError(f"there was no answer within {self._timeout:g} seconds") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise FetchError(f"{type(error).__name__}: {error}"[:200]) from None
