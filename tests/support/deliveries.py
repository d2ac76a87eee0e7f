"""Deliveries put together as `a2ad serve` does it, with whatever sender a test likes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Violation
from a2a_server.ports.push import Notice, Outcome, PushConfig, PushSender, Sealer
from a2a_server.serve.parts import forms_of
from tests.support.house import Patience, PushOptions, Sealing

DELIVERED = Outcome(delivered=True)


class Pigeonhole:
    """A sender that keeps what it is given, and answers as it is told; nothing leaves the process."""

    def __init__(self, answer: Callable[[Notice], Outcome] = lambda _: DELIVERED) -> None:
        self.answer = answer
        self.notices: list[Notice] = []

    async def open(self) -> None:
        """Nothing to connect."""

    async def close(self) -> None:
        """Nothing to let go."""

    async def send(self, notice: Notice) -> Outcome:
        self.notices.append(notice)
        return self.answer(notice)

    async def challenge(self, hook: PushConfig, owner: str) -> bool:
        return True

    def faults(self, config: pb.TaskPushNotificationConfig, prefix: str = "") -> Sequence[Violation]:
        return ()


def deliver(
    sender: PushSender, *, sealer: Sealer | None = None, challenge: bool = False, **patience: Any
) -> PushOptions:
    """Deliver impatiently: what fails is tried again at once."""
    hasty = {"retry_first": 0.01, "retry_most": 0.05, "timeout": 5.0, **patience}
    return PushOptions(
        sender=sender,
        sealer=sealer or Sealing(),
        forms=forms_of(),
        patience=Patience(**hasty),
        challenge=challenge,
    )
