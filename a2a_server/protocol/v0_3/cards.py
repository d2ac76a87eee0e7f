"""Agent cards for clients of 0.3: one main URL and others beside it (spec: LCRD, CONF-40, CONF-41, CONF-46, CONF-69).

Signatures stay behind: they are computed over one form, and would be wrong over the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.v0_3.requests import DEFAULT, Options

_CARD_VERSION: Final = "0.3.0"
"""What 0.3 cards call it: with a patch, which 1.0 never writes (CONF-17)."""
_IS_LEGACY: Final = re.compile(r"0\.3(\.\d+)?").fullmatch


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
    _add_interfaces(legacy, card, options)
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


def carry(source: Message, target: Message) -> None:
    """Copy a message that has the same members under the same numbers in both versions, as bytes.

    What only one version knows (PKCE, the device flow) is an unknown field of the other, and discarded. The empty
    `target` is present afterwards even if `source` is empty.
    """
    known = type(source)()
    known.CopyFrom(source)
    known.DiscardUnknownFields()  # they would get a meaning
    target.MergeFromString(known.SerializeToString())  # of nothing, too, which makes it present
    target.DiscardUnknownFields()


def _add_interfaces(legacy: v03.AgentCard, card: pb.AgentCard, options: Options) -> None:
    """Name the interfaces that speak 0.3, in order of preference; of two with one URL the first (LCRD-04)."""
    doors: dict[str, str] = {}
    for url, transport in _interfaces(card, options):
        doors.setdefault(url, transport)
    if not doors:
        raise A2AError(Reason.VERSION_NOT_SUPPORTED, "This agent has no interface that speaks A2A 0.3.")
    legacy.protocol_version = _CARD_VERSION
    legacy.url, legacy.preferred_transport = next(iter(doors.items()))
    for url, transport in doors.items():
        legacy.additional_interfaces.add(url=url, transport=transport)


def _interfaces(card: pb.AgentCard, options: Options) -> Iterable[tuple[str, str]]:
    for interface in card.supported_interfaces:
        if _IS_LEGACY(interface.protocol_version):
            bare = options.grpc_urls and interface.protocol_binding == "GRPC" and "://" not in interface.url
            yield f"https://{interface.url}" if bare else interface.url, interface.protocol_binding
