"""The connection to one other server: what is asked of it, and what it tells."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

import grpc
import structlog

from a2a_proto.peers_pb2 import Asked, Told
from a2a_proto.peers_pb2_grpc import PeerStub
from a2a_server.adapters.peers.door import LONGEST_MESSAGE
from a2a_server.adapters.peers.identity import PeerTls
from a2a_server.ports.records import Entry

log = structlog.get_logger(__name__)

Tell = Callable[[str, int, Sequence[Entry]], None]

_AT_ONCE: Final = 1_000
"""Logs that are asked for in one message."""
_PING: Final = 3.0
"""Seconds between two pings."""
_SILENCE: Final = 10.0
"""After so many seconds without an answer the connection is given up."""
_CONNECT: Final = 5.0
"""Seconds in which a new connection must have its first answer."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_UNSAID: Final = 2.0
"""Seconds without a connection that was there before, until the log has it. One that stops is forgotten by then."""
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", LONGEST_MESSAGE),
    ("grpc.use_local_subchannel_pool", 1),  # or a new channel would use the connection of the old one
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
)
_FAILURES: Final = {
    "CERTIFICATE_VERIFY_FAILED": "its certificate is of another authority: peers.shared_key or peers.ca differ",
    "Hostname Verification Check failed": "its certificate does not name it: check peers.advertise, peers.server_name",
    "Connection refused": "nothing listens there",
    "DNS resolution failed": "the host name is not known",
    "WRONG_VERSION_NUMBER": "it does not use TLS",
    "UNAVAILABLE: ipv4": "it ends connections at once: it uses TLS, or does not accept this server's certificate",
    "UNAVAILABLE: ipv6": "it ends connections at once: it uses TLS, or does not accept this server's certificate",
}
"""What gRPC says of a connection that fails, and what that means."""


class PeerLink:
    """Keeps a connection to another server for as long as possible."""

    def __init__(
        self, address: str, tls: PeerTls | None, wanted: Iterable[str], tell: Tell, not_id: str | None
    ) -> None:
        """`wanted` are the logs to follow, as they are at each time. `not_id` is who must not be at the address."""
        self.address = address
        self.round_trip: float | None = None
        """Seconds that a ping took, at last; None while there is no connection."""
        self.tried = asyncio.Event()
        self._tls = tls
        self._wanted = wanted
        self._tell = tell
        self._not_id = not_id
        self._changes: dict[str, bool] = {}
        self._changed = asyncio.Event()
        self._ping_at = 0.0
        self._lost_at = -_UNSAID
        self._logged: bool | None = None
        """Whether the log has it that the other server is reached; None if it says nothing yet."""

    def change(self, task_id: str, *, follow: bool) -> None:
        """Follow a log, or no more."""
        if self._changes.pop(task_id, follow) is follow:  # otherwise it was not asked for yet, and nothing has changed
            self._changes[task_id] = follow
            self._changed.set()

    async def keep(self) -> None:
        """Have a connection, and after each failure another one, later and later."""
        pause = _FIRST_PAUSE
        while True:
            try:
                why = await self._follow()
            except Exception:
                log.exception("peers.failed", address=self.address)
                why = "an error"
            if self.round_trip is not None:
                pause, self._lost_at = _FIRST_PAUSE, time.monotonic()
            self.round_trip = None
            if self._logged is not False and time.monotonic() >= self._lost_at + _UNSAID:
                self._logged = False
                log.warning("peers.unreachable", address=self.address, why=why)
            self.tried.set()
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - so that servers part
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _follow(self) -> str:
        """Use one connection until it fails; says why it has."""
        async with await self._channel() as channel:
            call = PeerStub(channel).Follow(self._asks())
            try:
                while True:
                    async with asyncio.timeout(_CONNECT if self.round_trip is None else _SILENCE):
                        told = await call.read()
                    if not isinstance(told, Told):
                        return "it has ended the connection"
                    if told.server == self._not_id:
                        return "the address leads to this very server"
                    self._take(told)
            except TimeoutError:
                return "it does not answer"
            except grpc.aio.AioRpcError as error:
                return _meaning(error.code(), error.details())
            finally:
                call.cancel()

    async def _channel(self) -> grpc.aio.Channel:
        if self._tls is None:
            return grpc.aio.insecure_channel(self.address, _OPTIONS)
        credentials = await asyncio.to_thread(self._tls.channel_credentials)
        named = (("grpc.ssl_target_name_override", self._tls.name),) if self._tls.name else ()
        return grpc.aio.secure_channel(self.address, credentials, (*_OPTIONS, *named))

    async def _asks(self) -> AsyncIterator[Asked]:
        """First everything that is wanted, then what changes, and a ping every few seconds."""
        self._changes = dict.fromkeys(self._wanted, True)
        self._ping_at = 0.0
        while True:
            yield self._question()
            if not self._changes:
                self._changed.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(self._ping_at - time.monotonic(), 0)):
                        await self._changed.wait()

    def _question(self) -> Asked:
        asked = Asked()
        for task_id in tuple(islice(self._changes, _AT_ONCE)):
            (asked.follow if self._changes.pop(task_id) else asked.forget).append(task_id)
        if time.monotonic() >= self._ping_at:
            self._ping_at = time.monotonic() + _PING
            asked.ping = time.monotonic_ns()
        return asked

    def _take(self, told: Told) -> None:
        if told.pong:
            self.round_trip = (time.monotonic_ns() - told.pong) / 1e9
            if not self._logged:
                self._logged = True
                log.info("peers.connected", address=self.address, round_trip_ms=round(1000 * self.round_trip, 2))
                self.tried.set()
        for one in told.logs:
            first_number = one.number - len(one.entries) + 1
            entries = [Entry(number, wire) for number, wire in enumerate(one.entries, first_number)]
            self._tell(one.task_id, one.number, entries)


def _meaning(code: grpc.StatusCode, details: str | None) -> str:
    said = details or ""
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return said
    if code is not grpc.StatusCode.UNAVAILABLE:
        return f"gRPC says {code.name}"
    return next((why for words, why in _FAILURES.items() if words in said), "the connection was lost")
