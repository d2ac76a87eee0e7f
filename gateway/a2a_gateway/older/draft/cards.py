"""The draft's cards: its own doors, each under the path where it is served (spec: DRFT-05, CARD-03)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

from a2a_gateway.calls import Told
from a2a_gateway.cards.agent_card import doors_at, tenants_of
from a2a_gateway.older.v0_3.speech import Ask, Speech
from a2a_proto import a2a_pb2 as pb

CARDS: Final = "GetAgentCard", "GetExtendedAgentCard"
"""The RPCs that answer with one."""


@dataclass(frozen=True, slots=True)
class OwnDoors:
    """Answers for cards that tell of the draft's doors, and of no others: none speaks it."""

    path: str

    async def __call__(self, speech: Speech, ask: Ask) -> Told:
        calls = speech.calls
        answer = await calls.upstream.unary(ask.method, ask.message, calls.context(ask.request, ask.query))
        base = calls.proxies.base(ask.request) or calls.cards.base
        card = self._shown(cast("pb.AgentCard", answer.message), base)
        return Told(speech.card(card), card, calls.fields(ask.request, answer))

    def _shown(self, card: pb.AgentCard, base: str) -> pb.AgentCard:
        shown = pb.AgentCard()
        shown.CopyFrom(card)
        del shown.supported_interfaces[:]
        shown.supported_interfaces.extend(self._doors(card, base))
        return shown

    def _doors(self, card: pb.AgentCard, base: str) -> Iterator[pb.AgentInterface]:
        for tenant in tenants_of(card):
            yield from doors_at(base.rstrip("/") + self.path, tenant)
