"""Whatever a card says, its superset says it to readers of both versions (spec: CONF-42)."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given

from a2a_gateway.cards.agent_card import Legacy
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.json_v1 import V1
from tests.property.messages import messages

LEGACY = Legacy()
DOOR = pb.AgentInterface(url="u:x", protocol_binding="JSONRPC", protocol_version="0.3")


def missing(whole: Any, part: Any, path: str = "card") -> list[str]:
    """Where the part has what the whole has not."""
    if isinstance(part, dict) and isinstance(whole, dict):
        absent = [f"{path}.{name}" for name in part if name not in whole]
        return absent + [
            fault for name in part if name in whole for fault in missing(whole[name], part[name], f"{path}.{name}")
        ]
    if isinstance(part, list) and isinstance(whole, list) and len(whole) == len(part):
        pairs = enumerate(zip(whole, part, strict=True))
        return [fault for at, (mine, theirs) in pairs for fault in missing(mine, theirs, f"{path}[{at}]")]
    return [] if whole == part else [f"{path} is {whole!r}, not {part!r}"]


@given(messages(pb.AgentCard))
def test_the_superset_has_every_member_of_both_forms_and_no_other(card: pb.AgentCard) -> None:
    card.supported_interfaces.append(DOOR)
    both, new, old = (orjson.loads(text) for text in (LEGACY.both(card), V1.encode(card), LEGACY.card_0_3(card)))
    assert missing(both, new) == []
    flags = [f"card.capabilities.{flag}" for flag in ("streaming", "pushNotifications")]
    assert set(missing(both, old)) <= set(flags)  # which are off where they are absent
    assert set(both) == set(new) | set(old)
    assert V1.decode(both, pb.AgentCard) == V1.decode(new, pb.AgentCard)
