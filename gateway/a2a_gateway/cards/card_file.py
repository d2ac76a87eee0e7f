"""Reads the public card from a file, for upstreams that do not serve it over gRPC (spec: DOOR-01, CARD-01)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message

from a2a_gateway.cards.agent_card import CardMembers
from a2a_gateway.upstream import Answer, CallContext, Upstream, UpstreamAnswer, UpstreamStream
from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec import loads
from a2a_server.protocol.codec.dialect import descriptor_of, is_required, json_name, map_entry
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.json_v1 import V1

log = structlog.get_logger(__name__)


class CardFileError(Exception):
    """The file holds no valid card. The message is for the operator."""


@dataclass(frozen=True, slots=True)
class UpstreamWithCard:
    """An upstream whose public card comes from a file."""

    upstream: Upstream
    card: pb.AgentCard

    async def identify(self, context: CallContext) -> str:
        return await self.upstream.identify(context)

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
        if method.name == "GetAgentCard":
            return Answer(self.card)
        return await self.upstream.unary(method, request, context)

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamStream:
        return await self.upstream.stream(method, request, context)

    async def ready(self) -> bool:
        return await self.upstream.ready()


def read_card(path: str, setting: str = "gateway.card") -> pb.AgentCard:
    """Read a card in ProtoJSON. It may have members of 0.3 too; the interfaces are added later."""
    try:
        written = loads(Path(path).read_bytes())
        card = V1.decode(written, pb.AgentCard)
    except OSError as error:
        raise CardFileError(f"{setting}: cannot read {path!r}: {error.strerror}") from None
    except A2AError as error:
        raise CardFileError(f"{setting}: {path!r} is no agent card: {error.message}") from None
    assert isinstance(written, dict)  # noqa: S101 - otherwise decoding would have failed
    _check(path, setting, written)
    return card


def _check(path: str, setting: str, written: CardMembers) -> None:
    """Refuse a card that lacks required members; log unknown ones, which may be misspelt or from a later version."""
    unknown = sorted(written.keys() - _MEMBERS)
    if missing := [member for member in _missing(_CARD, written) if member != "supportedInterfaces"]:
        strange = f"; cards have no member {', '.join(unknown)}" if unknown else ""
        raise CardFileError(f"{setting}: {path!r} is no agent card: it lacks {', '.join(missing)}{strange}")
    if unknown:
        log.warning("gateway.card_members_unknown", setting=setting, card=path, members=unknown)


def _missing(kind: Descriptor, written: CardMembers, prefix: str = "") -> Iterator[str]:
    """Yield the paths of missing required members, at any depth. An empty list counts as present."""
    for field in kind.fields:
        place, value = prefix + json_name(field), written.get(json_name(field), written.get(field.name))
        if value is None:
            if is_required(field):
                yield place
            continue
        for inner, item, step in _inside(field, value):
            yield from _missing(inner, item, f"{place}{step}.")


def _inside(field: FieldDescriptor, value: Any) -> Iterator[tuple[Descriptor, CardMembers, str]]:  # noqa: ANN401 - JSON
    """Yield the messages in a field and the path to each. Free-form values contain none."""
    entry = map_entry(field)
    kind = entry[1].message_type if entry is not None else field.message_type
    if kind is None or kind.full_name.startswith("google."):
        return
    if entry is not None:
        yield from ((kind, item, f"[{key}]") for key, item in value.items())
    elif field.is_repeated:
        yield from ((kind, item, f"[{index}]") for index, item in enumerate(value))
    else:
        yield kind, value, ""


_CARD: Final = descriptor_of(pb.AgentCard)
_MEMBERS: Final = frozenset(
    name
    for kind in (_CARD, descriptor_of(v03.AgentCard))
    for field in kind.fields
    for name in (json_name(field), field.name)
)
"""The members of 1.0 and 0.3, because the file may be in either version."""
