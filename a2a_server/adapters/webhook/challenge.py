"""Whether somebody who listens at a URL wants webhooks: it echoes a one-time token (spec: SSRF-05).

`GET <url>?validationToken=<token>` is answered with 200, the token and nothing else.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from http import HTTPStatus

from yarl import URL

from a2a_server.adapters.webhook.connections import Connections, spend
from a2a_server.domain.webhooks import Target
from a2a_server.protocol.names import TEXT

PARAMETER = "validationToken"
_MOST = 512
"""Bytes of an answer that are looked at: the token, and what editors put behind it."""


async def echoes(connections: Connections, target: Target, user_agent: str, timeout: float) -> bool:  # noqa: ASYNC109
    """Ask once. The config's secrets are not sent: it is not known yet who gets them."""
    token = secrets.token_urlsafe(32)
    deadline = asyncio.get_running_loop().time() + timeout
    glue = "&" if "?" in target.path else "?"
    url = URL(f"{target.url}{glue}{PARAMETER}={token}", encoded=True)
    headers = {"User-Agent": user_agent, "Accept": TEXT, "Accept-Encoding": "identity"}
    async with asyncio.timeout_at(deadline):
        response = await connections.request("GET", url, headers)
    answer = await spend(response, deadline, _MOST)
    return response.status == HTTPStatus.OK and hmac.compare_digest(answer.strip(), token.encode())
