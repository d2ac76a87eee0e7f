"""The ten RPCs of 0.3, and what stands behind each in 1.0 (spec: LGRP-01)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from a2a_server.protocol.v0_3 import cards, events, push, push_requests, requests, sends, tasks
from a2a_server.protocol.v0_3.options import Options

Translate = Callable[[Any, Options], Message]


def _none(_: Message) -> Sequence[str]:
    return ()


class Call(NamedTuple):
    rpc: str
    """The RPC of 1.0."""
    request: Translate
    """From 0.3; raises INVALID_PARAMS with all that cannot be mapped."""
    answer: Translate | None
    """To 0.3; None = a stream, whose items go through `events.downgrade`: that has to know which one is the last."""
    schemes: Callable[[Any], Sequence[str]] = _none
    """All that the request's push config offers, of which 1.0's has room for one (CONF-34)."""


def _plain(translate: Callable[[Any], Message]) -> Translate:
    """Nothing to choose there."""
    return lambda message, _: translate(message)


def _nothing(empty: Empty, _: Options) -> Empty:
    return empty


CALLS: Final[Mapping[str, Call]] = MappingProxyType(
    {
        "SendMessage": Call("SendMessage", sends.upgrade, events.downgrade_answer, sends.schemes_of),
        "SendStreamingMessage": Call("SendStreamingMessage", sends.upgrade, None, sends.schemes_of),
        "GetTask": Call("GetTask", _plain(requests.upgrade_get), tasks.downgrade),
        "CancelTask": Call("CancelTask", _plain(requests.upgrade_cancel), tasks.downgrade),
        "TaskSubscription": Call("SubscribeToTask", _plain(requests.upgrade_subscribe), None),
        "CreateTaskPushNotificationConfig": Call(
            "CreateTaskPushNotificationConfig",
            push_requests.upgrade_create,
            _plain(push.downgrade),
            push_requests.schemes_of,
        ),
        "GetTaskPushNotificationConfig": Call(
            "GetTaskPushNotificationConfig", _plain(push_requests.upgrade_get), _plain(push.downgrade)
        ),
        "ListTaskPushNotificationConfig": Call(
            "ListTaskPushNotificationConfigs", _plain(push_requests.upgrade_list), _plain(push.downgrade_list)
        ),
        "DeleteTaskPushNotificationConfig": Call(
            "DeleteTaskPushNotificationConfig", _plain(push_requests.upgrade_delete), _nothing
        ),
        "GetAgentCard": Call("GetExtendedAgentCard", _plain(requests.upgrade_card), cards.downgrade),
    }
)
"""By the name of the RPC of 0.3."""
