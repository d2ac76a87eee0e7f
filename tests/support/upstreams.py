"""Both upstreams in front of one server, and what comes out of them in a form that can be compared."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing, asynccontextmanager
from typing import Any, Literal

from google.protobuf.descriptor import MethodDescriptor
from google.rpc import status_pb2

from a2a_gateway.channel import ChannelUpstream
from a2a_gateway.upstream import CallContext, Upstream, UpstreamStream
from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2
from a2a_server.protocol.errors import A2AError, StatusError, status_of
from a2a_server.protocol.options import ChannelOptions
from a2a_server.transport.local import LocalUpstream
from tests.support.world import World

Kind = Literal["local", "channel"]
KINDS: tuple[Kind, ...] = ("local", "channel")

SERVICE = pb.DESCRIPTOR.services_by_name["A2AService"]
CARD: MethodDescriptor = discovery_pb2.DESCRIPTOR.services_by_name["Discovery"].methods_by_name["GetAgentCard"]

PLAIN = CallContext({})


def rpc(name: str) -> MethodDescriptor:
    method: MethodDescriptor = SERVICE.methods_by_name[name]
    return method


@asynccontextmanager
async def channel_to(*ports: int, host: str = "127.0.0.1", **options: Any) -> AsyncIterator[ChannelUpstream]:
    upstream = ChannelUpstream(ChannelOptions(addresses=tuple(f"{host}:{port}" for port in ports), **options))
    try:
        yield upstream
    finally:
        await upstream.close()


@asynccontextmanager
async def upstream_of(kind: Kind, world: World) -> AsyncIterator[Upstream]:
    if kind == "local":
        yield LocalUpstream(world.pipeline, world.core.services.store)
    else:
        async with channel_to(world.port) as upstream:
            yield upstream


async def get(upstream: Upstream, context: CallContext = PLAIN) -> str:
    """The id of the task that a server gives for any id."""
    answer = (await upstream.unary(rpc("GetTask"), pb.GetTaskRequest(id="t"), context)).message
    assert isinstance(answer, pb.Task)
    return answer.id


def status(error: A2AError | StatusError) -> status_pb2.Status:
    """What a client is told, whoever says it."""
    return error.status if isinstance(error, StatusError) else status_of(error)


async def refused(call: Awaitable[object]) -> status_pb2.Status:
    try:
        answer = await call
    except (A2AError, StatusError) as error:
        return status(error)
    raise AssertionError(f"was not refused but answered {answer}")


async def items(stream: UpstreamStream) -> list[tuple[int, pb.StreamResponse]]:
    """All numbered items, to the end."""
    async with aclosing(stream.items) as batches:  # type: ignore[type-var]
        return [(item.number, pb.StreamResponse.FromString(item.wire)) async for batch in batches for item in batch]
