"""The agent card: the agent's own part, completed with what the server really offers (spec: CARD, XCARD, GATE-02)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2
from a2a_server.domain import input_requests
from a2a_server.domain.media_types import UNDECLARED
from a2a_server.domain.validation import check_request
from a2a_server.operations.call import Call
from a2a_server.operations.log.task_stream import declaration
from a2a_server.operations.services import Capabilities, ask_agent
from a2a_server.ports.agent import AgentPort
from a2a_server.ports.authenticator import CardSecurity
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import INPUT_REQUEST_URI, REPLAY_URI


@dataclass(frozen=True, slots=True)
class CardBook:
    """Makes the cards of one agent."""

    agent: AgentPort
    interfaces: Callable[[str], Sequence[pb.AgentInterface]]
    """Where the agent is reached by those who name this tenant, or none."""
    security: CardSecurity
    push_notifications: bool = False
    replay: bool = False
    """Whether clients may ask for the numbers of events (RPLY-05, EXTN-10)."""
    input_requests: bool = False
    """Whether agents that do not declare input requests themselves may make some (XTRA-01, EXTN-10)."""

    def public(self, tenant: str = "") -> pb.AgentCard:
        """The card that anybody may read; whoever found it under a tenant's name is to go on under that name."""
        return self._complete(self.agent.card, tenant)

    def extended(self, call: Call, tenant: str = "") -> pb.AgentCard | None:
        """The card for this caller; its version tells it from the public one (XCARD-05)."""
        own = ask_agent(self.agent.extended_card, call.caller)
        if own is None:
            return None
        card = self._complete(own, tenant)
        if own.version == self.agent.card.version and own != self.agent.card:
            digest = sha256(card.SerializeToString(deterministic=True)).hexdigest()
            card.version = f"{own.version}+extended.{digest[:8]}"
        return card

    def _complete(self, own: pb.AgentCard, tenant: str) -> pb.AgentCard:
        card = pb.AgentCard()
        card.CopyFrom(own)
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(self.interfaces(tenant))
        if not card.default_input_modes:
            card.default_input_modes.extend(UNDECLARED)
        capabilities = card.capabilities
        capabilities.streaming = capabilities.streaming
        capabilities.push_notifications = self.push_notifications
        if self.replay and capabilities.streaming and all(known.uri != REPLAY_URI for known in capabilities.extensions):
            capabilities.extensions.append(declaration())
        # Nobody can prove who they are without a scheme, so nobody could read an extended card (CARD-08).
        capabilities.extended_agent_card = self.agent.card.capabilities.extended_agent_card and bool(
            self.security.schemes
        )
        if self.input_requests and all(known.uri != INPUT_REQUEST_URI for known in capabilities.extensions):
            capabilities.extensions.append(input_requests.declaration())
        for name, scheme in self.security.schemes.items():
            card.security_schemes[name].CopyFrom(scheme)
        card.security_requirements.extend(self.security.requirements)
        return card


@dataclass(frozen=True, slots=True)
class GetAgentCard:
    """Discovery: the public card, without credentials."""

    book: CardBook
    card: pb.AgentCard
    """For those who name no tenant."""

    async def __call__(self, call: Call, request: discovery_pb2.GetAgentCardRequest, /) -> pb.AgentCard:
        del call  # the same for everybody
        return self.book.public(request.tenant) if request.tenant else self.card


@dataclass(frozen=True, slots=True)
class GetExtendedAgentCard:
    """The card for a caller who has proven who they are (XCARD-01, XCARD-03)."""

    capabilities: Capabilities
    book: CardBook

    async def __call__(self, call: Call, request: pb.GetExtendedAgentCardRequest, /) -> pb.AgentCard:
        self.capabilities.require_extended_card()
        check_request(request, request.tenant)
        if not call.caller.authenticated:
            raise A2AError(Reason.UNAUTHENTICATED, "The extended card needs credentials.")
        if not call.caller.extended_card:
            raise A2AError(Reason.PERMISSION_DENIED, "These credentials may not read the extended card.")
        card = self.book.extended(call, request.tenant)
        if card is None:
            raise A2AError(Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED, "The extended card is not configured.")
        return card
