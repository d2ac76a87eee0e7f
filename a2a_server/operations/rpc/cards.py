"""The agent card: the author's part, completed with what the server offers (spec: CARD, XCARD, GATE-02)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2
from a2a_server.domain import input_requests
from a2a_server.domain.media_types import UNDECLARED, input_modes
from a2a_server.domain.rights import EXTENDED_CARD, refuse_rights
from a2a_server.domain.validation import check_request
from a2a_server.operations.call import Call
from a2a_server.operations.limits import Limits
from a2a_server.operations.log.task_stream import declaration
from a2a_server.operations.services import Capabilities, ServedAgent, ServedAgents, ask_agent, no_such_agent
from a2a_server.operations.turns.registry import Slots
from a2a_server.ports.agent import AgentPort, HasScopedSkills
from a2a_server.ports.authenticator import CardSecurity
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import INPUT_REQUEST_URI, REPLAY_URI


@dataclass(frozen=True, slots=True)
class CardBook:
    """Makes the cards of one agent."""

    agent: AgentPort
    interfaces: Callable[[str], Sequence[pb.AgentInterface]]
    """Returns the interfaces for a tenant, or for no tenant."""
    security: CardSecurity
    push_notifications: bool = False
    replay: bool = False
    """Whether clients may ask for the numbers of events (RPLY-05, EXTN-10)."""
    input_requests: bool = False
    """Whether agents that do not declare input requests themselves may make some (XTRA-01, EXTN-10)."""
    sign: Callable[[pb.AgentCard], pb.AgentCard] | None = None
    """Adds signatures to a card that is complete (SIGN-06)."""

    def served(self, limits: Limits, slots: Slots | None = None, *, listed: bool = True) -> ServedAgent:
        """Return the agent with what its card declares. It may share `slots` with others."""
        card = self.public()
        return ServedAgent(
            agent=self.agent,
            cards=self,
            card=card,
            input_requests=any(known.uri == INPUT_REQUEST_URI for known in card.capabilities.extensions),
            modes=input_modes(self.agent.card),
            limits=limits,
            slots=Slots(limits) if slots is None else slots,
            listed=listed,
        )

    def public(self, tenant: str = "") -> pb.AgentCard:
        """Return the card that anybody may read. If it was requested for a tenant, its interfaces name that tenant."""
        return self._signed(self._complete(self.agent.card, tenant))

    def extended(self, call: Call, tenant: str = "") -> pb.AgentCard | None:
        """Return the card for this caller. Its version differs from that of the public card (XCARD-05)."""
        own = ask_agent(self.agent.extended_card, call.caller)
        if own is None:
            return None
        card = self._complete(own, tenant)
        if own.version == self.agent.card.version and own != self.agent.card:
            digest = sha256(card.SerializeToString(deterministic=True)).hexdigest()
            card.version = f"{own.version}+extended.{digest[:8]}"
            del card.signatures[:]
        return self._signed(card)

    def _signed(self, card: pb.AgentCard) -> pb.AgentCard:
        return card if self.sign is None else self.sign(card)

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
        # Without a security scheme there are no credentials, so nobody could read an extended card (CARD-08).
        capabilities.extended_agent_card = self.agent.card.capabilities.extended_agent_card and bool(
            self.security.schemes
        )
        if self.input_requests and all(known.uri != INPUT_REQUEST_URI for known in capabilities.extensions):
            capabilities.extensions.append(input_requests.declaration())
        for name, scheme in self.security.schemes.items():
            card.security_schemes[name].CopyFrom(scheme)
        card.security_requirements.extend(self.security.requirements)
        if isinstance(self.agent, HasScopedSkills):
            _show_scopes(card, self.agent.skill_scopes)
        if card != own:
            del card.signatures[:]  # the author's own do not cover what was added
        return card


def _show_scopes(card: pb.AgentCard, scopes: Mapping[str, Collection[str]]) -> None:
    """Add the scopes that a skill needs to its security requirements, for all schemes, unless its author did."""
    for skill in card.skills:
        if (needed := scopes.get(skill.id)) and not skill.security_requirements:
            skill.security_requirements.extend(card.security_requirements)
            for requirement in skill.security_requirements:
                for listed in requirement.schemes.values():
                    listed.list.extend(sorted(set(needed).difference(listed.list)))


@dataclass(frozen=True, slots=True)
class GetAgentCard:
    """Discovery: the public card, without credentials."""

    agents: ServedAgents

    async def __call__(self, call: Call, request: discovery_pb2.GetAgentCardRequest, /) -> pb.AgentCard:
        del call  # the same for everybody
        if not request.tenant:
            return self.agents.root.card
        served = self.agents.of(request.tenant)
        if not served.listed:
            raise no_such_agent()
        return served.cards.public(request.tenant)


@dataclass(frozen=True, slots=True)
class GetExtendedAgentCard:
    """The card for an authenticated caller (XCARD-01, XCARD-03)."""

    capabilities: Capabilities
    agents: ServedAgents

    async def __call__(self, call: Call, request: pb.GetExtendedAgentCardRequest, /) -> pb.AgentCard:
        self.capabilities.require_extended_card(call)
        check_request(request, request.tenant)
        if not call.caller.authenticated:
            raise A2AError(Reason.UNAUTHENTICATED, "The extended card needs credentials.")
        if not call.caller.extended_card:
            refuse_rights((EXTENDED_CARD,), type(self).__name__)
        card = self.agents.of(call.scope.tenant).cards.extended(call, request.tenant)
        if card is None:
            raise A2AError(Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED, "The extended card is not configured.")
        return card
