"""An agent behind real doors on free loopback ports, over any store, for one test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2_grpc
from a2a_server.adapters.defaults import Anonymous, LocalWakeups, SystemClock
from a2a_server.adapters.memory import MemoryStore
from a2a_server.operations.core import Core
from a2a_server.operations.limits import Limits
from a2a_server.operations.push.push_options import PushOptions
from a2a_server.operations.retention import Ages
from a2a_server.operations.rpc.cards import CardBook
from a2a_server.operations.services import ServedAgents
from a2a_server.ports.agent import AgentPort, Observer
from a2a_server.ports.authenticator import Authenticator, Caller, CardSecurity, Credentials
from a2a_server.ports.clock import Clock
from a2a_server.ports.replicas import Replicas
from a2a_server.ports.store import Store
from a2a_server.ports.wakeups import Wakeups
from a2a_server.protocol.options import LEGACY_DEFAULT, GatewayOptions, LegacyOptions
from a2a_server.transport.address import Address
from a2a_server.transport.grpc.server import GrpcDoor
from a2a_server.transport.grpc.servicer import Servicer
from a2a_server.transport.grpc.servicer_v0_3 import LegacyServicer
from a2a_server.transport.grpc_options import GrpcOptions, StreamOptions
from a2a_server.transport.open_streams import OpenStreams
from a2a_server.transport.pipeline import Pipeline, Step
from a2a_server.transport.steps import CallRules, Extensions, standard
from tests.support.deliveries import Pigeonhole, deliver
from tests.support.doors import OPTIONS, Client, Door, OpenGateway, client_of, http_door, upstream_for

FEW = GrpcOptions(accept_ahead=2)
"""Calls asked for in advance: enough for a test, and each costs every start and stop of a server."""

DOOR: Door = "grpc"
"""The door that clients use where a test names none; tests/bindings runs its tests through each."""


@dataclass
class World:
    """A running server and a client of it."""

    core: Core
    pipeline: Pipeline
    port: int
    channel: grpc.aio.Channel
    stub: Any
    discovery: Any
    door: GrpcDoor
    through: Door = "grpc"
    http: OpenGateway | None = None
    """The gateway, where the client goes through one."""
    old: Any = None
    """A client of 0.3, always over gRPC."""

    def sluggish(self) -> AbstractAsyncContextManager[Client]:
        """Another client, for what it means not to read."""
        base = self.http.base if self.http else ""
        return client_of(self.through, grpc_port=self.port, base=base, sluggish=True)

    async def send(self, request: pb.SendMessageRequest, **kwargs: Any) -> pb.Task:
        """A send that must be answered with a task."""
        response = await self.stub.SendMessage(request, **kwargs)
        assert response.WhichOneof("payload") == "task", response
        task: pb.Task = response.task
        return task

    async def stream(self, request: pb.SendMessageRequest, **kwargs: Any) -> list[pb.StreamResponse]:
        """All items of a stream, to its end."""
        return [item async for item in self.stub.SendStreamingMessage(request, **kwargs)]

    async def get(self, task_id: str, **kwargs: Any) -> pb.Task:
        task: pb.Task = await self.stub.GetTask(pb.GetTaskRequest(id=task_id), **kwargs)
        return task

    async def reaches(self, task_id: str, state: int, **kwargs: Any) -> pb.Task:
        """Wait until the task is in a state."""
        async with asyncio.timeout(30):
            while (task := await self.get(task_id, **kwargs)).status.state != state:  # noqa: ASYNC110 - as a client polls
                await asyncio.sleep(0.005)
        return task


@asynccontextmanager
async def serving(  # noqa: PLR0913 - every part may be replaced
    agent: AgentPort,
    *,
    store: Store | None = None,
    replicas: Replicas | None = None,
    wakeups: Wakeups | None = None,
    session_seconds: float = 10.0,
    clock: Clock | None = None,
    limits: Limits | None = None,
    ages: Ages | None = None,
    authenticator: Authenticator | None = None,
    rules: CallRules | None = None,
    grpc_options: GrpcOptions | None = None,
    streams: StreamOptions | None = None,
    push_notifications: bool = False,
    delivery: PushOptions | None = None,
    observers: Sequence[Observer] = (),
    steps: Sequence[Step] = (),
    keep_open_on_input: bool = False,
    answer_by_reference: bool = False,
    through: Door | None = None,
    http_options: GatewayOptions = OPTIONS,
    old_options: LegacyOptions = LEGACY_DEFAULT,
    old_http: Mapping[str, Any] | None = None,
) -> AsyncIterator[World]:
    """Run a server for the duration of the block; drained and closed afterwards.

    With `replicas`, which is the store, other servers may use it, too. `steps` are taken after the standard ones. With
    `old_http`, which says how, the HTTP door speaks 0.3,
    too. Without a `delivery` push notifications go nowhere.
    """
    through = through or DOOR
    store = store or MemoryStore()
    authenticator = authenticator or Anonymous()
    streams = streams or StreamOptions()
    await store.open()
    door = GrpcDoor(grpc_options or FEW)
    port = door.listen(Address("127.0.0.1", 0)).port
    doors = [("1.0", f"127.0.0.1:{port}"), ("0.3", f"http://127.0.0.1:{port}")]
    interfaces = [pb.AgentInterface(url=url, protocol_binding="GRPC", protocol_version=v) for v, url in doors]
    delivery = delivery or (deliver(Pigeonhole()) if push_notifications else None)
    limits = limits or Limits(drain_grace=0.05, cancel_grace=5.0)
    cards = CardBook(agent, lambda _: interfaces, authenticator.card, delivery is not None, replay=True)
    core = Core(
        agents=ServedAgents(cards.served(limits)),
        store=store,
        wakeups=wakeups or LocalWakeups(),
        clock=clock or SystemClock(),
        limits=limits,
        observers=observers,
        keep_open_on_input=keep_open_on_input,
        answer_by_reference=answer_by_reference,
        delivery=delivery,
        ages=ages,
        replicas=replicas,
        session_seconds=session_seconds,
    )
    await core.start()
    rules = rules or CallRules(extensions=Extensions.of(core.card.capabilities.extensions))
    open_streams = OpenStreams(per_caller=streams.per_caller, total=streams.total, write_timeout=streams.write_timeout)
    pipeline = Pipeline(core.operations, (*standard(authenticator, rules), *steps), open_streams)
    await door.serve(Servicer(pipeline), legacy=LegacyServicer(pipeline, old_options))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        stack.push_async_callback(door.stop, 0.2)
        http = None
        if through != "grpc":
            upstream = await stack.enter_async_context(
                upstream_for(through, pipeline, store, port, keep_open_on_input=keep_open_on_input)
            )
            older = {"old": True, **old_http} if old_http is not None else {}
            http = await stack.enter_async_context(http_door(upstream, http_options, **older))
        stack.push_async_callback(core.drain)
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
        client = await stack.enter_async_context(client_of(through, grpc_port=port, base=http.base if http else ""))
        old = a2a_v0_3_pb2_grpc.A2AServiceStub(channel)
        yield World(core, pipeline, port, channel, client.stub, client.discovery, door, through, http, old)


def say(
    text: str = "hello", *, skill: str = "", task_id: str = "", context_id: str = "", **kwargs: Any
) -> pb.SendMessageRequest:
    """A user's message; further members of SendMessageRequest as keywords, `configuration` as a mapping."""
    message = pb.Message(
        message_id=kwargs.pop("message_id", "m-1"),
        role=pb.ROLE_USER,
        parts=kwargs.pop("parts", None) or [pb.Part(text=text)],
        task_id=task_id,
        context_id=context_id,
        reference_task_ids=kwargs.pop("references", ()),
    )
    configuration: Mapping[str, Any] = kwargs.pop("configuration", {})
    request = pb.SendMessageRequest(message=message, **kwargs)
    if configuration:
        request.configuration.CopyFrom(pb.SendMessageConfiguration(**configuration))
    if skill:
        request.metadata["skill"] = skill
    return request


@dataclass(frozen=True)
class Refusal:
    """An error as a client sees it."""

    code: grpc.StatusCode
    message: str
    reason: str
    domain: str
    metadata: Mapping[str, str]
    fields: Mapping[str, str]
    """BadRequest: field → description."""


def refusal(error: grpc.aio.AioRpcError) -> Refusal:
    """Read the google.rpc.Status in an error's trailers."""
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    for name, value in error.trailing_metadata() or ():
        if name == "grpc-status-details-bin" and isinstance(value, bytes):
            for detail in status_pb2.Status.FromString(value).details:
                for wanted in (info, bad):
                    if detail.TypeName() == wanted.DESCRIPTOR.full_name:
                        detail.Unpack(wanted)
    fields = {fault.field: fault.description for fault in bad.field_violations}
    return Refusal(error.code(), error.details() or "", info.reason, info.domain, dict(info.metadata), fields)


async def refused(call: Awaitable[Any]) -> Refusal:
    """The error of a call that must fail."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        return refusal(error)
    raise AssertionError(f"was not refused: {answer}")


def kinds(items: Sequence[pb.StreamResponse]) -> list[str]:
    """What a stream consisted of: payload names, statuses by their state."""
    return [
        pb.TaskState.Name(item.status_update.status.state).removeprefix("TASK_STATE_")
        if item.HasField("status_update")
        else str(item.WhichOneof("payload"))
        for item in items
    ]


class ByHeader:
    """An authenticator for tests: metadata `x-user` names the caller, `x-tenant` binds it to a tenant."""

    required = True
    card = CardSecurity(
        {"user": pb.SecurityScheme(api_key_security_scheme=pb.APIKeySecurityScheme(location="header", name="x-user"))},
        [pb.SecurityRequirement(schemes={"user": pb.StringList()})],
    )

    async def authenticate(self, credentials: Credentials) -> Caller:
        user = (credentials.metadata.get("x-user") or ("nobody",))[0]
        tenant = (credentials.metadata.get("x-tenant") or ("",))[0]
        return Caller(user, authenticated=True, tenant=tenant, extended_card=user == "root")


def as_user(name: str, **more: str) -> tuple[tuple[str, str], ...]:
    """Call metadata for `ByHeader`."""
    return (("x-user", name), *((key.replace("_", "-"), value) for key, value in more.items()))
