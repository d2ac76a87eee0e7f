"""Speaks 0.3 with agents that know nothing newer: translates around the bindings (spec: LMAP, LRPC; CLI-50)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.client.binding import Binding, CallTerms, NumberedEvent
from a2a_server.client.failures import AgentError
from a2a_server.protocol.codec import Codec
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.v0_3.json import kind_json, proto_json
from a2a_server.protocol.v0_3.outgoing import OUTGOING, OutgoingRpc, upgrade_item, upgrade_task
from a2a_server.protocol.v0_3.upgraded_cards import read_card

_KIND: Final[Codec] = kind_json().codec
_WRAPPED_KIND: Final[Codec] = kind_json(rest=True).codec
_PROTO: Final[Codec] = proto_json().codec
_ITEMS: Final[Mapping[str, tuple[str, type[Message]]]] = {
    "task": ("task", v03.Task),
    "message": ("msg", v03.Message),
    "status-update": ("status_update", v03.TaskStatusUpdateEvent),
    "artifact-update": ("artifact_update", v03.TaskArtifactUpdateEvent),
}


def outgoing(method: MethodDescriptor) -> OutgoingRpc:
    rpc = OUTGOING.get(method.name)
    if rpc is None:
        raise AgentError(f"A2A 0.3 has no {method.name}.", reason=Reason.UNSUPPORTED_OPERATION)
    return rpc


@dataclass(frozen=True, slots=True)
class OlderBinding:
    """A binding whose messages are those of the 0.3 proto: gRPC, and HTTP+JSON."""

    inner: Binding

    async def call(self, method: MethodDescriptor, request: Message, terms: CallTerms) -> Message:
        rpc = outgoing(method)
        return rpc.answer(await self.inner.call(rpc.method, rpc.request(request), terms))

    async def stream(
        self, method: MethodDescriptor, request: Message, terms: CallTerms
    ) -> AsyncGenerator[NumberedEvent, None]:
        rpc = outgoing(method)
        async for number, item in self.inner.stream(rpc.method, rpc.request(request), terms):
            yield NumberedEvent(number, rpc.answer(item))

    async def close(self) -> None:
        await self.inner.close()


# -- HTTP+JSON


def write_proto(message: Message) -> bytes:
    """Write ProtoJSON, as the official SDK's servers read it."""
    return _PROTO.encode(message)


def read_either(value: object, kind: type[Message]) -> Message:
    """Read an answer in whichever spelling of 0.3 it has; only the JSON schema has `kind`."""
    return (_WRAPPED_KIND if _has_kind(value) else _PROTO).decode(value, kind)


def _has_kind(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    return "kind" in value or any(isinstance(held, dict) and "kind" in held for held in value.values())


# -- JSON-RPC


class OldForm:
    """Calls and results in 0.3's JSON schema."""

    def name(self, method: MethodDescriptor) -> str:
        return outgoing(method).jsonrpc

    def params(self, method: MethodDescriptor, request: Message) -> bytes:
        """Requests that only name a task or a config have ids, as in 1.0."""
        if isinstance(request, pb.GetExtendedAgentCardRequest):
            return b""
        if isinstance(request, pb.SendMessageRequest):
            return _spelled_out(_KIND.encode(outgoing(method).request(request)), request)
        return _KIND.encode(request)

    def result(self, method: MethodDescriptor, value: object) -> Message:
        rpc, read = outgoing(method), _READERS.get(method.output_type.name)
        return rpc.answer(value) if read is None else read(value)


def _spelled_out(params: bytes, request: pb.SendMessageRequest) -> bytes:
    """Say that no history is wanted, which the message of 0.3 cannot, and `blocking: false`, which it leaves out."""
    asked = request.configuration
    said: dict[str, Any] = {"blocking": False} if asked.return_immediately else {}
    if asked.HasField("history_length") and not asked.history_length:
        said["historyLength"] = 0
    if not said:
        return params
    value: dict[str, Any] = orjson.loads(params)
    value["configuration"] = {**value.get("configuration", {}), **said}
    return orjson.dumps(value)


def _read_item(value: object) -> pb.StreamResponse:
    """Read what stands bare in a result, told apart by its `kind`, or by what it holds."""
    kind = str(value.get("kind", _guessed(value))) if isinstance(value, dict) else ""
    if kind not in _ITEMS:
        raise A2AError(Reason.INVALID_AGENT_RESPONSE, f"kind: must be one of {', '.join(_ITEMS)}")
    name, message = _ITEMS[kind]
    return upgrade_item(v03.StreamResponse(**{name: _KIND.decode(value, message)}))  # type: ignore[arg-type]


def _guessed(value: Mapping[str, Any]) -> str:
    if "artifact" in value:
        return "artifact-update"
    if "parts" in value:
        return "message"
    return "status-update" if "taskId" in value else "task"


def _read_answer(value: object) -> pb.SendMessageResponse:
    item, answer = _read_item(value), pb.SendMessageResponse()
    if item.HasField("message"):
        answer.message.CopyFrom(item.message)
    elif item.HasField("task"):
        answer.task.CopyFrom(item.task)
    else:
        raise A2AError(Reason.INVALID_AGENT_RESPONSE, "kind: must be task or message")
    return answer


def _read_configs(value: object) -> pb.ListTaskPushNotificationConfigsResponse:
    listed = value if isinstance(value, list) else [value]
    return pb.ListTaskPushNotificationConfigsResponse(
        configs=[_KIND.decode(one, pb.TaskPushNotificationConfig) for one in listed]
    )


_READERS: Final[Mapping[str, Callable[[Any], Message]]] = {
    "SendMessageResponse": _read_answer,
    "StreamResponse": _read_item,
    "Task": lambda task: upgrade_task(_KIND.decode(task, v03.Task)),
    "TaskPushNotificationConfig": lambda config: _KIND.decode(config, pb.TaskPushNotificationConfig),
    "ListTaskPushNotificationConfigsResponse": _read_configs,
    "AgentCard": lambda card: read_card(card if isinstance(card, dict) else {}),
}
"""By what the RPC of 1.0 returns."""
