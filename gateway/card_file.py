"""A public card from a file, for upstreams that do not tell theirs over gRPC (spec: DOOR-01, CARD-01)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_server.errors import A2AError
from gateway.codec import loads
from gateway.dialects.v1 import V1
from gateway.upstream import Answer, Context, Stream, Upstream
from generated import a2a_pb2 as pb


class CardFileError(Exception):
    """The file holds no card; the message is for the operator."""


@dataclass(frozen=True, slots=True)
class WithCard:
    """An upstream, but for the card."""

    upstream: Upstream
    card: pb.AgentCard

    async def unary(self, method: MethodDescriptor, request: Message, context: Context) -> Answer:
        if method.name == "GetAgentCard":
            return Answer(self.card)
        return await self.upstream.unary(method, request, context)

    async def stream(self, method: MethodDescriptor, request: Message, context: Context) -> Stream:
        return await self.upstream.stream(method, request, context)

    async def ready(self) -> bool:
        return await self.upstream.ready()


def read_card(path: str) -> pb.AgentCard:
    """Read a card as clients get it: ProtoJSON."""
    try:
        card = V1.decode(loads(Path(path).read_bytes()), pb.AgentCard)
    except OSError as error:
        raise CardFileError(f"gateway.card: cannot read {path!r}: {error.strerror}") from None
    except A2AError as error:
        raise CardFileError(f"gateway.card: {path!r} is no agent card: {error.message}") from None
    assert isinstance(card, pb.AgentCard)  # noqa: S101 - what decode was asked for
    return card
