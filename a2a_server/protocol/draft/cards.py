"""The agent card of the draft, with the deprecated members of 0.3 (spec: DRFT-05, CONF-40, CONF-41, CONF-47)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from google.protobuf.descriptor import FieldDescriptor

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import Codec, Dialect
from a2a_server.protocol.codec.dialect import json_name
from a2a_server.protocol.spellings import of_1_0

VERSION: Final = "0.3.0"

_NAMES: Final[Mapping[str, str]] = of_1_0(
    {
        "AgentCapabilities.extended_agent_card": "",  # the card itself says so
        "AgentCard.security_requirements": "security",
        "AgentCard.signatures": "",  # of another form
        "AgentInterface.protocol_version": "",
        "AgentSkill.security_requirements": "security",
    }
)
"""Members that are not called as in 1.0; empty: there is none."""


def _member(field: FieldDescriptor) -> str:
    return _NAMES.get(field.full_name, json_name(field))


_CODEC: Final = Codec(Dialect(member=_member, ordered=True))


def written(card: pb.AgentCard) -> dict[str, Any]:
    """The JSON of a card whose interfaces speak the draft; there is at least one."""
    shown = orjson.loads(_CODEC.encode(card))
    main = card.supported_interfaces[0]
    return {
        "protocolVersion": VERSION,
        **shown,
        "capabilities": {**shown["capabilities"], "stateTransitionHistory": False},
        "supportsExtendedAgentCard": card.capabilities.extended_agent_card,
        "url": main.url,
        "preferredTransport": main.protocol_binding,
        "additionalInterfaces": [*_by_url(card).values()],
    }


def _by_url(card: pb.AgentCard) -> dict[str, dict[str, str]]:
    """Once for all tenants, and in the words of 0.3, too: readers of the deprecated member know no others."""
    return {
        door.url: {"url": door.url, "transport": door.protocol_binding, "protocolBinding": door.protocol_binding}
        for door in card.supported_interfaces
    }
