"""An upstream's complaints in the words of the client: it cannot find `message.parts[0].raw` (spec: ERRS-05)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from google.rpc import error_details_pb2 as details
from google.rpc import status_pb2

from a2a_gateway.errors import json_path, respelled
from a2a_server.protocol.errors import A2AError, StatusError, status_of

_BAD: Final = details.BadRequest.DESCRIPTOR.full_name


class Rule(NamedTuple):
    """Where a member of 1.0 stands in 0.3; both are beginnings of paths."""

    pattern: re.Pattern[str]
    replacement: str


Rules = Sequence[Rule]
"""The first one that fits is used."""


def _rules(**renamed: str) -> Rules:
    return tuple(Rule(re.compile(rf"{old}\b"), new) for old, new in renamed.items())


_PART: Final = r"message\.parts(\[\d+\])"
_PUSH: Final = r"configuration\.taskPushNotificationConfig"


def _sends(parts: str, push: str, **file: str) -> Rules:
    """Of sends: what lists parts, a push config, and the members of a file are called."""
    return (
        *(Rule(re.compile(rf"{_PART}\.{old}\b"), rf"message.{parts}\1.file.{new}") for old, new in file.items()),
        Rule(re.compile(r"message\.parts\b"), f"message.{parts}"),
        Rule(re.compile(r"configuration\.returnImmediately\b"), "configuration.blocking"),
        Rule(re.compile(rf"{_PUSH}\.authentication\.scheme\b"), f"configuration.{push}.authentication.schemes"),
        Rule(re.compile(rf"{_PUSH}\b"), f"configuration.{push}"),
    )


def config(prefix: str, **places: str) -> Rules:
    """Of a config by itself, which stands at the end of `prefix`; `places` are those of its ids."""
    inner = f"{prefix}pushNotificationConfig"
    return (
        *_rules(**places),
        Rule(re.compile(r"authentication\.scheme\b"), f"{inner}.authentication.schemes"),
        *_rules(**{name: f"{inner}.{name}" for name in ("id", "url", "token", "authentication")}),
    )


_KIND: Final = _sends("parts", "pushNotificationConfig", raw="bytes", url="uri", mediaType="mimeType", filename="name")
_PROTO: Final = (
    Rule(re.compile(r"message\.referenceTaskIds\b"), r'message.metadata["x-a2a-compat"].referenceTaskIds'),
    Rule(re.compile(rf"{_PART}\.data\b"), r"message.content\1.data.data"),
    *_sends(
        "content", "pushNotification", raw="fileWithBytes", url="fileWithUri", mediaType="mimeType", filename="name"
    ),
)
_CONFIG: Final = _rules(taskId="id", id="pushNotificationConfigId")
_NAME: Final = _rules(taskId="name", id="name")

JSONRPC: Final[Mapping[str, Rules]] = MappingProxyType(
    {
        "SendMessage": _KIND,
        "SendStreamingMessage": _KIND,
        "CreateTaskPushNotificationConfig": config(""),
        "GetTaskPushNotificationConfig": _CONFIG,
        "DeleteTaskPushNotificationConfig": _CONFIG,
        "ListTaskPushNotificationConfigs": _rules(taskId="id"),
    }
)
"""By the RPC of 1.0; what is not here is called the same."""

REST: Final[Mapping[str, Rules]] = MappingProxyType(
    {
        "GetTask": _NAME,
        "CancelTask": _NAME,
        "SubscribeToTask": _NAME,
        "GetTaskPushNotificationConfig": _NAME,
        "DeleteTaskPushNotificationConfig": _NAME,
        "ListTaskPushNotificationConfigs": _rules(taskId="parent"),
    }
)
REST_KIND: Final = MappingProxyType({**REST, "SendMessage": _KIND, "SendStreamingMessage": _KIND})
REST_PROTO: Final = MappingProxyType({**REST, "SendMessage": _PROTO, "SendStreamingMessage": _PROTO})


def respell(error: A2AError | StatusError, rules: Rules) -> A2AError | StatusError:
    """The same error, for a client that has sent what the rules make of 1.0's members."""
    if isinstance(error, StatusError):
        return StatusError(_respelled(error.status, rules), error.trailers, error.metadata)
    return StatusError(_respelled(status_of(error), rules)) if error.violations else error


def _respelled(told: status_pb2.Status, rules: Rules) -> status_pb2.Status:
    status = status_pb2.Status()
    status.CopyFrom(told)
    for packed in status.details:
        bad = details.BadRequest()
        if packed.TypeName() == _BAD and packed.Unpack(bad):
            status.message = respelled(bad, status.message, partial(_renamed, rules=rules))
            packed.Pack(bad)
    return status


def _renamed(field: str, rules: Rules) -> str:
    field = json_path(field)
    for pattern, replacement in rules:
        if pattern.match(field):
            return pattern.sub(replacement, field, count=1)
    return field
