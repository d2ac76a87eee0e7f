"""A public card from a file, for upstreams that do not tell theirs over gRPC (spec: DOOR-01, CARD-01)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message

from a2a_gateway.upstream import Answer, CallContext, Upstream, UpstreamAnswer, UpstreamStream
from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec import loads
from a2a_server.protocol.codec.schema import descriptor_of, is_required, json_name, map_entry
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.json_v1 import V1

Json = Mapping[str, Any]

log = structlog.get_logger(__name__)


class CardFileError(Exception):
    """The file holds no card; the message is for the operator."""


@dataclass(frozen=True, slots=True)
class WithCard:
    """An upstream, but for the card."""

    upstream: Upstream
    card: pb.AgentCard

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
        if method.name == "GetAgentCard":
            return Answer(self.card)
        return await self.upstream.unary(method, request, context)

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamStream:
        return await self.upstream.stream(method, request, context)

    async def ready(self) -> bool:
        return await self.upstream.ready()


def read_card(path: str) -> pb.AgentCard:
    """Read a card as clients get it: ProtoJSON. Members of 0.3 may be among its own; doors are the gateway's to add."""
    try:
        written = loads(Path(path).read_bytes())
        card = V1.decode(written, pb.AgentCard)
    except OSError as error:
        raise CardFileError(f"gateway.card: cannot read {path!r}: {error.strerror}") from None
    except A2AError as error:
        raise CardFileError(f"gateway.card: {path!r} is no agent card: {error.message}") from None
    assert isinstance(written, dict)  # noqa: S101 - or it could not have been decoded
    _check(path, written)
    return card


def _check(path: str, written: Json) -> None:
    """Refuse what lacks members, and name those that say nothing: they may be a later version's, or misspelt."""
    unknown = sorted(written.keys() - _MEMBERS)
    if missing := [member for member in _missing(_CARD, written) if member != "supportedInterfaces"]:
        strange = f"; cards have no member {', '.join(unknown)}" if unknown else ""
        raise CardFileError(f"gateway.card: {path!r} is no agent card: it lacks {', '.join(missing)}{strange}")
    if unknown:
        log.warning("gateway.card_members_unknown", card=path, members=unknown)


def _missing(kind: Descriptor, written: Json, prefix: str = "") -> Iterator[str]:
    """Name required members that are not there, here and further inside; an empty list is one that is there."""
    for field in kind.fields:
        place, value = prefix + json_name(field), written.get(json_name(field), written.get(field.name))
        if value is None:
            if is_required(field):
                yield place
            continue
        for inner, item, step in _inside(field, value):
            yield from _missing(inner, item, f"{place}{step}.")


def _inside(field: FieldDescriptor, value: Any) -> Iterator[tuple[Descriptor, Json, str]]:  # noqa: ANN401 - JSON
    """The messages in a field, and the steps to them; free-form values hold none."""
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
"""Cards that servers tell may have the members of both versions."""
