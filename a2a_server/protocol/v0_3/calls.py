"""The ten RPCs of 0.3, and what stands behind each in 1.0 (spec: LGRP-01, TENA-03, TENA-05)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.v0_3 import cards, messages, requests
from a2a_server.protocol.v0_3.requests import Options

Translate = Callable[[Any, Options], Message]


def _none(_: Message) -> Sequence[str]:
    return ()


class OldCall(NamedTuple):
    rpc: str
    """The RPC of 1.0."""
    request: Translate
    """From 0.3; raises INVALID_PARAMS with all that cannot be mapped."""
    answer: Translate | None
    """To 0.3. None: a stream, whose items go through `messages.downgrade_item`, which has to know the last one."""
    tenant: int
    """The number of the draft's member `tenant` in the request."""
    schemes: Callable[[Any], Sequence[str]] = _none
    """All that the request's push config offers, of which 1.0's has room for one (CONF-34)."""


def _plain(translate: Callable[[Any], Message]) -> Translate:
    """Nothing to choose there."""
    return lambda message, _: translate(message)


def _answer(answer: pb.SendMessageResponse, options: Options) -> Message:
    return messages.downgrade_answer(answer, raw_files=options.raw_files)


def _task(task: pb.Task, options: Options) -> Message:
    return messages.downgrade_task(task, raw_files=options.raw_files)


def _nothing(empty: Empty) -> Empty:
    return empty


CALLS: Final[Mapping[str, OldCall]] = MappingProxyType(
    {
        "SendMessage": OldCall("SendMessage", requests.upgrade_send, _answer, 4, requests.schemes_of_send),
        "SendStreamingMessage": OldCall(
            "SendStreamingMessage", requests.upgrade_send, None, 4, requests.schemes_of_send
        ),
        "GetTask": OldCall("GetTask", _plain(requests.upgrade_get), _task, 3),
        "CancelTask": OldCall("CancelTask", _plain(requests.upgrade_cancel), _task, 2),
        "TaskSubscription": OldCall("SubscribeToTask", _plain(requests.upgrade_subscribe), None, 2),
        "CreateTaskPushNotificationConfig": OldCall(
            "CreateTaskPushNotificationConfig",
            _plain(requests.upgrade_create_config),
            _plain(requests.downgrade_config),
            4,
            requests.schemes_of_create,
        ),
        "GetTaskPushNotificationConfig": OldCall(
            "GetTaskPushNotificationConfig", _plain(requests.upgrade_get_config), _plain(requests.downgrade_config), 2
        ),
        "ListTaskPushNotificationConfig": OldCall(
            "ListTaskPushNotificationConfigs",
            _plain(requests.upgrade_list_configs),
            _plain(requests.downgrade_configs),
            4,
        ),
        "DeleteTaskPushNotificationConfig": OldCall(
            "DeleteTaskPushNotificationConfig", _plain(requests.upgrade_delete_config), _plain(_nothing), 2
        ),
        "GetAgentCard": OldCall("GetExtendedAgentCard", _plain(requests.upgrade_card), cards.downgrade, 1),
    }
)
"""By the name of the RPC of 0.3."""

_TEXT: Final = 2
"""protobuf's number for what has a length."""


def refuse_tenant(rpc: str, request: Message) -> None:
    """Refuse a request that names a tenant, for which 0.3 has no member.

    The draft has 0.3's package, service and numbers, so that nothing but such a member tells its clients apart. To drop
    the tenant would be to act in somebody else's space.
    """
    number, unknown = CALLS[rpc].tenant, UnknownFieldSet(request)
    for index in range(len(unknown)):
        field = unknown[index]
        if field.field_number == number and field.wire_type == _TEXT and field.data:
            text = "0.3 has none over gRPC; call lf.a2a.v1, or REST or JSON-RPC under the tenant's path"
            refuse([Violation("tenant", text)])
