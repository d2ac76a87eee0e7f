"""Agent cards (spec: LCRD, CONF-40, CONF-41)."""

from __future__ import annotations

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.v0_3 import interfaces
from a2a_server.protocol.v0_3.options import DEFAULT, Options
from a2a_server.protocol.v0_3.twins import carry

# Signatures stay behind in both directions: they are computed over one form, and would be wrong over the other.


def upgrade(legacy: v03.AgentCard) -> pb.AgentCard:
    card = pb.AgentCard(
        name=legacy.name,
        description=legacy.description,
        version=legacy.version,
        default_input_modes=legacy.default_input_modes,
        default_output_modes=legacy.default_output_modes,
        documentation_url=legacy.documentation_url or None,
        icon_url=legacy.icon_url or None,
    )
    interfaces.upgrade(card, legacy)
    if legacy.HasField("provider"):
        carry(legacy.provider, card.provider)
    _upgrade_capabilities(card, legacy)
    for name, scheme in legacy.security_schemes.items():
        carry(scheme, card.security_schemes[name])
    for security in legacy.security:
        carry(security, card.security_requirements.add())
    for skill in legacy.skills:
        carry(skill, card.skills.add())
    return card


def _upgrade_capabilities(card: pb.AgentCard, legacy: v03.AgentCard) -> None:
    capabilities = card.capabilities
    if legacy.HasField("capabilities"):
        capabilities.streaming = legacy.capabilities.streaming
        capabilities.push_notifications = legacy.capabilities.push_notifications
        for extension in legacy.capabilities.extensions:
            carry(extension, capabilities.extensions.add())
    capabilities.extended_agent_card = legacy.supports_authenticated_extended_card


def downgrade(card: pb.AgentCard, options: Options = DEFAULT) -> v03.AgentCard:
    """Make the 0.3 form; VERSION_NOT_SUPPORTED if no interface speaks it."""
    legacy = v03.AgentCard(
        name=card.name,
        description=card.description,
        version=card.version,
        default_input_modes=card.default_input_modes,
        default_output_modes=card.default_output_modes,
        documentation_url=card.documentation_url,
        icon_url=card.icon_url,
        supports_authenticated_extended_card=card.capabilities.extended_agent_card,
    )
    interfaces.downgrade(legacy, card, options)
    if card.HasField("provider"):
        carry(card.provider, legacy.provider)
    _downgrade_capabilities(legacy.capabilities, card.capabilities)
    for name, scheme in card.security_schemes.items():
        carry(scheme, legacy.security_schemes[name])
    for requirement in card.security_requirements:
        carry(requirement, legacy.security.add())
    for skill in card.skills:
        carry(skill, legacy.skills.add())
    return legacy


def _downgrade_capabilities(legacy: v03.AgentCapabilities, capabilities: pb.AgentCapabilities) -> None:
    """Present in any case: 0.3 requires them."""
    legacy.streaming = capabilities.streaming
    legacy.push_notifications = capabilities.push_notifications
    for extension in capabilities.extensions:
        carry(extension, legacy.extensions.add())
