"""Whether an upstream can be reached, as calls find out; the log hears of each change once (spec: DOOR-01, DOOR-07)."""

from __future__ import annotations

from typing import Final

import grpc
import structlog

from a2a_gateway.channel.refusals import is_answer

_LONGEST_REASON: Final = 300

log = structlog.get_logger(__name__)


class Presence:
    """Of what is at one address. For the operator: clients are told neither the address nor gRPC's reasons."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._away = False

    def answered(self) -> None:
        if self._away:
            self._away = False
            log.warning("upstream.back", address=self._address)

    def lost(self, reason: str) -> None:
        if not self._away:
            self._away = True
            log.warning("upstream.unavailable", address=self._address, reason=reason[:_LONGEST_REASON])

    def failed(self, error: grpc.aio.AioRpcError) -> None:
        """Tell a call that nobody has answered from one that was refused, or took too long."""
        if is_answer(error):
            self.answered()
        elif error.code() is grpc.StatusCode.UNAVAILABLE:
            self.lost(error.details() or "")
