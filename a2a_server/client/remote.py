"""A connection to another agent, and all calls that can be made over it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast
from weakref import WeakSet

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.client.binding import Binding, CallTerms, NumberedEvent, Pairs
from a2a_server.client.discovery import FoundCard
from a2a_server.client.messages import Content, send_request
from a2a_server.protocol.names import CURSOR_HEADER

_METHODS: Final[Mapping[str, MethodDescriptor]] = pb.DESCRIPTOR.services_by_name["A2AService"].methods_by_name
AS_CONNECTED: Final = -1.0
"""Stands for the timeout that was given to `connect`."""


class RemoteStream(AsyncIterator[pb.StreamResponse]):
    """The events of one stream, each yielded as soon as it comes."""

    def __init__(self, events: AsyncGenerator[NumberedEvent, None]) -> None:
        self._events = events
        self.number = 0
        """Of the last event in the task's log, to resume after it; 0 if the agent does not tell."""

    async def __anext__(self) -> pb.StreamResponse:
        number, event = await anext(self._events)
        self.number = number or self.number
        return cast("pb.StreamResponse", event)

    async def aclose(self) -> None:
        """End the call. A stream that was read to its end is closed already."""
        with suppress(RuntimeError):  # somebody waits for an event, who gets the error when the connection closes
            await self._events.aclose()


@dataclass(slots=True, eq=False)
class Remote:
    """A connection to an agent. Every call raises `CallError` if it fails."""

    found: FoundCard
    interface: pb.AgentInterface
    """The one that is called."""
    version: str
    unused_credentials: tuple[str, ...]
    """Kinds of credentials that were given, and that no scheme of the card asks for. They are not sent."""
    _binding: Binding
    _metadata: Pairs
    _stream_metadata: Pairs
    _timeout: float | None
    _streams: WeakSet[RemoteStream] = field(default_factory=WeakSet)

    @property
    def card(self) -> pb.AgentCard:
        return self.found.card

    @property
    def document(self) -> Mapping[str, Any]:
        """The card's JSON as it was received."""
        return self.found.document

    # -- any RPC

    async def call(
        self,
        rpc: str,
        request: Message,
        *,
        timeout: float | None = AS_CONNECTED,  # noqa: ASYNC109 - also told to the agent
        headers: Pairs = (),
    ) -> Message:
        """Call an RPC that has one answer, by its name in the service."""
        seconds = self._timeout if timeout == AS_CONNECTED else timeout
        terms = CallTerms((*self._metadata, *headers), seconds)
        return await self._binding.call(_METHODS[rpc], self._for_tenant(request), terms)

    def call_stream(
        self, rpc: str, request: Message, *, timeout: float | None = None, headers: Pairs = ()
    ) -> RemoteStream:
        """Call an RPC that answers with a stream. `timeout` is for the whole of it."""
        terms = CallTerms((*self._stream_metadata, *headers), timeout, self._timeout)
        stream = RemoteStream(self._binding.stream(_METHODS[rpc], self._for_tenant(request), terms))
        self._streams.add(stream)
        return stream

    def _for_tenant(self, request: Message) -> Message:
        """Set the tenant of the interface, exactly as the card declares it."""
        if "tenant" not in request.DESCRIPTOR.fields_by_name:
            return request
        addressed: Any = type(request)()
        addressed.CopyFrom(request)
        addressed.tenant = self.interface.tenant
        return cast("Message", addressed)

    async def close(self) -> None:
        """End all calls and streams."""
        for stream in list(self._streams):
            await stream.aclose()
        await self._binding.close()

    # -- messages

    async def send(
        self,
        content: Content | pb.SendMessageRequest,
        *,
        configuration: pb.SendMessageConfiguration | None = None,
        metadata: Mapping[str, Any] | None = None,
        timeout: float | None = AS_CONNECTED,  # noqa: ASYNC109 - also told to the agent
        **parts: Any,  # noqa: ANN401 - see `message_of`
    ) -> pb.SendMessageResponse:
        """Send a message and return the task, or the message, that answers it. Keywords are those of `message_of`."""
        request = send_request(content, configuration, metadata, parts)
        return cast("pb.SendMessageResponse", await self.call("SendMessage", request, timeout=timeout))

    def stream(
        self,
        content: Content | pb.SendMessageRequest,
        *,
        configuration: pb.SendMessageConfiguration | None = None,
        metadata: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        **parts: Any,  # noqa: ANN401 - see `message_of`
    ) -> RemoteStream:
        """Do the same, and iterate over the events as they come."""
        request = send_request(content, configuration, metadata, parts)
        return self.call_stream("SendStreamingMessage", request, timeout=timeout)

    # -- tasks

    async def get_task(self, task_id: str, *, history_length: int | None = None) -> pb.Task:
        request = pb.GetTaskRequest(id=task_id, history_length=history_length)
        return cast("pb.Task", await self.call("GetTask", request))

    async def list_tasks(self, request: pb.ListTasksRequest | None = None) -> pb.ListTasksResponse:
        """Return one page of the caller's tasks."""
        return cast("pb.ListTasksResponse", await self.call("ListTasks", request or pb.ListTasksRequest()))

    async def cancel_task(
        self,
        task_id: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        timeout: float | None = AS_CONNECTED,  # noqa: ASYNC109 - also told to the agent
    ) -> pb.Task:
        request = pb.CancelTaskRequest(id=task_id)
        if metadata:
            request.metadata.update(dict(metadata))
        return cast("pb.Task", await self.call("CancelTask", request, timeout=timeout))

    def subscribe(self, task_id: str, *, after: int | None = None, timeout: float | None = None) -> RemoteStream:
        """Follow a task. With `after`, resume behind the event of this number, where the agent can."""
        headers = () if after is None else ((CURSOR_HEADER, str(after)),)
        request = pb.SubscribeToTaskRequest(id=task_id)
        return self.call_stream("SubscribeToTask", request, timeout=timeout, headers=headers)

    # -- push notification configs

    async def create_push_config(self, config: pb.TaskPushNotificationConfig) -> pb.TaskPushNotificationConfig:
        return cast("pb.TaskPushNotificationConfig", await self.call("CreateTaskPushNotificationConfig", config))

    async def get_push_config(self, task_id: str, config_id: str) -> pb.TaskPushNotificationConfig:
        request = pb.GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        return cast("pb.TaskPushNotificationConfig", await self.call("GetTaskPushNotificationConfig", request))

    async def list_push_configs(
        self, task_id: str, *, page_size: int = 0, page_token: str = ""
    ) -> pb.ListTaskPushNotificationConfigsResponse:
        request = pb.ListTaskPushNotificationConfigsRequest(task_id=task_id, page_size=page_size, page_token=page_token)
        answer = await self.call("ListTaskPushNotificationConfigs", request)
        return cast("pb.ListTaskPushNotificationConfigsResponse", answer)

    async def delete_push_config(self, task_id: str, config_id: str) -> None:
        request = pb.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        await self.call("DeleteTaskPushNotificationConfig", request)

    # -- the card for callers with credentials

    async def get_extended_agent_card(self) -> pb.AgentCard:
        return cast("pb.AgentCard", await self.call("GetExtendedAgentCard", pb.GetExtendedAgentCardRequest()))
