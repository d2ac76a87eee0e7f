"""One attempt at one webhook, from the check of its config to the outcome (spec: HOOK-02, DELV-02, DELV-04, SSRF)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp.abc import AbstractResolver
from yarl import URL

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.webhook.challenge import echoes
from a2a_server.adapters.webhook.connections import Connections, spend
from a2a_server.adapters.webhook.headers import Sign, headers_of
from a2a_server.adapters.webhook.outcomes import CLOSED, REFUSED_CONFIG, of_answer, of_failure
from a2a_server.adapters.webhook.sockets import Sockets
from a2a_server.domain.webhooks import Policy, faults_of, target_of
from a2a_server.ports.clock import Clock
from a2a_server.ports.push import Notice, Outcome, PushConfig
from a2a_server.protocol.errors import Violation

_MOST_READ = 16 * 1024
"""Bytes of an answer that are read to keep its connection."""
_SPENDING = 1.0
"""Seconds that the rest of an answer is waited for, once its status has said everything."""


class WebhookSender:
    """Sends over connections that it keeps for a while. Times are seconds."""

    def __init__(  # noqa: PLR0913 - what operators choose, each by its name
        self,
        policy: Policy,
        clock: Clock,
        *,
        timeout: float = 15.0,
        longest_wait: float = 3600.0,
        user_agent: str = "a2ad",
        sign: Sign | None = None,
        trust: str = "",
        resolver: AbstractResolver | None = None,
    ) -> None:
        """`longest_wait` bounds what receivers ask for; `trust` is PEM, added to the authorities of the system."""
        self._policy = policy
        self._clock = clock
        self._timeout = timeout
        self._longest_wait = longest_wait
        self._user_agent = user_agent
        self._sign = sign
        self._trust = trust
        self._resolver = resolver
        self._connections: Connections | None = None

    async def open(self) -> None:
        self._connections = Connections(Sockets(self._policy.addresses), self._trust, self._resolver)

    async def close(self) -> None:
        connections, self._connections = self._connections, None
        if connections:
            await connections.close()

    async def send(self, notice: Notice) -> Outcome:
        """Judge the config again: the policy may have become stricter since it was made."""
        if not self._may_be_called(notice.hook):
            return REFUSED_CONFIG
        try:
            return await self._attempt(notice)
        except Exception as error:  # noqa: BLE001 - nothing that a receiver does may end the relay
            return of_failure(error) if self._connections else CLOSED

    async def challenge(self, hook: PushConfig) -> bool:
        if not self._may_be_called(hook):
            return False
        try:
            return await echoes(self._ready(), target_of(hook.config.url), self._user_agent, self._timeout)
        except Exception:  # noqa: BLE001 - as above; why it failed is nobody's business but the receiver's
            return False

    def faults(self, config: pb.TaskPushNotificationConfig, prefix: str = "") -> Sequence[Violation]:
        return faults_of(config, self._policy, prefix)

    def _may_be_called(self, hook: PushConfig) -> bool:
        return bool(hook.config.url) and not self.faults(hook.config)

    async def _attempt(self, notice: Notice) -> Outcome:
        url = URL(target_of(notice.hook.config.url).url, encoded=True)
        headers = headers_of(notice, self._user_agent, self._sign)
        now = asyncio.get_running_loop().time
        deadline = now() + self._timeout
        async with asyncio.timeout_at(deadline):
            response = await self._ready().request("POST", url, headers, notice.body)
        await spend(response, min(deadline, now() + _SPENDING), _MOST_READ)
        retry_after = response.headers.get("Retry-After")
        return of_answer(response.status, retry_after, self._clock.now_ms(), self._longest_wait)

    def _ready(self) -> Connections:
        if self._connections is None:
            raise RuntimeError("the sender is not open")
        return self._connections
