"""A real gRPC door on a loopback port, in front of operations that a test makes up."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc, a2a_v0_3_pb2_grpc, discovery_pb2_grpc
from a2a_server.adapters.defaults import Anonymous
from a2a_server.operations.call import Call, Operation
from a2a_server.ports.authenticator import Authenticator
from a2a_server.ports.records import Entry
from a2a_server.protocol.errors import ErrorCodes
from a2a_server.protocol.names import STATUS_DETAILS
from a2a_server.transport.address import Address
from a2a_server.transport.grpc.server import SERVICES, GrpcDoor
from a2a_server.transport.grpc.servicer import Servicer
from a2a_server.transport.grpc.servicer_v0_3 import LegacyServicer
from a2a_server.transport.grpc_options import GrpcOptions, Tls
from a2a_server.transport.open_streams import OpenStreams
from a2a_server.transport.pipeline import Pipeline
from a2a_server.transport.steps import CallRules, standard
from a2a_server.transport.tls.files import TlsFiles
from tests.support.yielding import Batches, yielding


@dataclass(slots=True)
class Seen:
    """What reached the operations."""

    calls: list[Call] = field(default_factory=list)
    requests: list[Message] = field(default_factory=list)

    def answering(self, answer: Message) -> Operation:
        async def operation(call: Call, request: Message) -> Message:
            self.calls.append(call)
            self.requests.append(request)
            return answer

        return operation

    def streaming(self, *texts: str) -> Operation:
        @yielding
        async def operation(call: Call, request: Message) -> Batches:
            self.calls.append(call)
            for number, text in enumerate(texts, 1):
                yield (item(number, text),)

        return operation


def item(number: int, text: str) -> Entry:
    part = pb.Part(text=text)
    update = pb.TaskArtifactUpdateEvent(artifact=pb.Artifact(artifact_id="a", parts=[part]))
    return Entry.of(number, pb.StreamResponse(artifact_update=update))


def failing(error: BaseException) -> Operation:
    async def operation(call: Call, request: Message) -> Message:
        raise error

    return operation


def failing_stream(error: BaseException, *, after: int = 0) -> Operation:
    @yielding
    async def operation(call: Call, request: Message) -> Batches:
        for number in range(after):
            yield (item(number, "x"),)
        raise error

    return operation


@dataclass(slots=True, kw_only=True)
class Door:
    """An open door, and a client in front of it."""

    seen: Seen
    address: Address
    pipeline: Pipeline
    server: GrpcDoor
    channel: grpc.aio.Channel

    @property
    def stub(self) -> Any:
        return a2a_pb2_grpc.A2AServiceStub(self.channel)

    @property
    def old(self) -> Any:
        """0.3's."""
        return a2a_v0_3_pb2_grpc.A2AServiceStub(self.channel)

    @property
    def discovery(self) -> Any:
        return discovery_pb2_grpc.DiscoveryStub(self.channel)


@asynccontextmanager
async def open_door(  # noqa: PLR0913 - every test varies one of them
    operations: dict[str, Operation] | None = None,
    *,
    rules: CallRules | None = None,
    authenticator: Authenticator | None = None,
    codes: ErrorCodes = "1.0.1",
    options: GrpcOptions | None = None,
    tls: Tls | None = None,
    streams: OpenStreams | None = None,
    credentials: grpc.ChannelCredentials | None = None,
    services: Sequence[ServiceDescriptor] = SERVICES,
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    port: int = 0,
) -> AsyncIterator[Door]:
    seen = Seen()
    served: dict[str, Operation] = {
        "GetTask": seen.answering(pb.Task(id="t")),
        "SendMessage": seen.answering(pb.SendMessageResponse(task=pb.Task(id="t"))),
        "SendStreamingMessage": seen.streaming("a", "b"),
        "GetAgentCard": seen.answering(pb.AgentCard(name="Echo")),
        **(operations or {}),
    }
    registry = streams or OpenStreams()
    registry.start()
    pipeline = Pipeline(served, standard(authenticator or Anonymous(), rules or CallRules()), registry)
    servicer = Servicer(pipeline, codes, mutual=bool(tls and tls.client_ca))
    door = GrpcDoor(options or GrpcOptions(), TlsFiles.of(tls or Tls()), interceptors)
    address = door.listen(Address("127.0.0.1", port))
    await door.serve(servicer, services, legacy=LegacyServicer(pipeline, mutual=servicer.mutual))
    target = f"localhost:{address.port}"
    channel = grpc.aio.secure_channel(target, credentials) if credentials else grpc.aio.insecure_channel(target)
    try:
        yield Door(seen=seen, address=address, pipeline=pipeline, server=door, channel=channel)
    finally:
        await channel.close()
        await door.stop(None)
        await registry.close()


@dataclass(frozen=True, slots=True)
class Refusal:
    """A failed call, taken apart."""

    code: grpc.StatusCode
    message: str
    info: error_details_pb2.ErrorInfo | None
    fields: dict[str, str]
    retry_after: float | None
    trailers: dict[str, str | bytes]

    @property
    def reason(self) -> str:
        return self.info.reason if self.info else ""


async def refused(call: Callable[[], Awaitable[object]]) -> Refusal:
    """Make a call that must fail."""
    try:
        answer = await call()
    except grpc.aio.AioRpcError as error:
        return refusal_of(error)
    raise AssertionError(f"was not refused but answered {answer}")


def refusal_of(error: grpc.aio.AioRpcError) -> Refusal:
    trailers = dict(cast("Any", error.trailing_metadata()))
    status = status_pb2.Status.FromString(cast("bytes", trailers.get(STATUS_DETAILS, b"")))
    info, fields, retry_after = None, {}, None
    for detail in status.details:
        match detail.type_url.removeprefix("type.googleapis.com/google.rpc."):
            case "ErrorInfo":
                info = error_details_pb2.ErrorInfo.FromString(detail.value)
            case "BadRequest":
                bad = error_details_pb2.BadRequest.FromString(detail.value)
                fields = {violation.field: violation.description for violation in bad.field_violations}
            case "RetryInfo":
                retry_after = error_details_pb2.RetryInfo.FromString(detail.value).retry_delay.ToMilliseconds() / 1000
    return Refusal(error.code(), error.details() or "", info, fields, retry_after, trailers)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what nobody announces."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - as said
            await asyncio.sleep(0.01)
