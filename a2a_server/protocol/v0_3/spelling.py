"""The 1.0 core's complaints in the field names and words of 0.3 (spec: ERRS-05, CONF-26).

A client that sent `request.content[0]` cannot find `message.parts[0]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import A2AError, Reason, Violation
from a2a_server.protocol.names import COMPAT, EXTENSIONS, OLD_EXTENSIONS


def _contents(kind: type[Message], oneof: str) -> str:
    """What complaints of parts list."""
    return ", ".join(field.name for field in kind.DESCRIPTOR.oneofs_by_name[oneof].fields)


Rules = Sequence[tuple[re.Pattern[str], str]]


def _rules(**renamed: str) -> Rules:
    return tuple((re.compile(rf"^{name}\b"), new) for name, new in renamed.items())


_PUSH: Final = "configuration.push_notification"
_SENDS: Final[Rules] = (
    (re.compile(r"^message\.reference_task_ids\b"), f"message.metadata.{COMPAT}.referenceTaskIds"),
    (re.compile(r"^message\.parts\b"), "message.content"),
    (re.compile(r"^(message\.content\[\d+\])\.raw\b"), r"\1.file.file_with_bytes"),
    (re.compile(r"^(message\.content\[\d+\])\.url\b"), r"\1.file.file_with_uri"),
    (re.compile(r"^(message\.content\[\d+\])\.media_type\b"), r"\1.file.mime_type"),
    (re.compile(r"^(message\.content\[\d+\])\.filename\b"), r"\1.file.name"),
    (re.compile(r"^(message\.content\[\d+\])\.data\b"), r"\1.data.data"),
    (re.compile(r"^message\b"), "request"),
    (re.compile(r"^configuration\.return_immediately\b"), "configuration.blocking"),
    (re.compile(r"^configuration\.task_push_notification_config\b"), _PUSH),
    (re.compile(rf"^({_PUSH}\.authentication)\.scheme\b"), r"\1.schemes"),
)
_TASK: Final = _rules(id="name")
_CONFIG: Final = _rules(task_id="name", id="name")
_NEW: Final = "config.push_notification_config"
_CREATE: Final[Rules] = (
    *_rules(task_id="parent", id="config_id", url=f"{_NEW}.url", token=f"{_NEW}.token"),
    (re.compile(r"^authentication\.scheme\b"), "authentication.schemes"),
    *_rules(authentication=f"{_NEW}.authentication"),
)

_RULES: Final[Mapping[str, Rules]] = MappingProxyType(
    {
        "SendMessage": _SENDS,
        "SendStreamingMessage": _SENDS,
        "GetTask": _TASK,
        "CancelTask": _TASK,
        "TaskSubscription": _TASK,
        "CreateTaskPushNotificationConfig": _CREATE,
        "GetTaskPushNotificationConfig": _CONFIG,
        "ListTaskPushNotificationConfig": _rules(task_id="parent"),
        "DeleteTaskPushNotificationConfig": _CONFIG,
        "GetAgentCard": (),
    }
)


_EXTENSIONS: Final = _rules(**{EXTENSIONS: OLD_EXTENSIONS})
"""Of metadata, which every RPC has."""


_STATE: Final = "state"
"""What metadata calls the state of a task."""
_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        pb.TaskState.Name(pb.TASK_STATE_CANCELED): v03.TaskState.Name(v03.TASK_STATE_CANCELLED),
        _contents(pb.Part, "content"): _contents(v03.Part, "part"),
    }
)
_KNOWN: Final = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b")


def respell(error: A2AError, rpc: str) -> A2AError:
    """Return the same error for a client that called this RPC of 0.3."""
    rules = (*_RULES[rpc], *_EXTENSIONS)
    violations = [Violation(_respell(fault.field, rules), _retell(fault.description)) for fault in error.violations]
    return A2AError(
        reason_of(error, rpc),
        _retell(_message(error, violations)),
        metadata={name: _retell(text) if name == _STATE else text for name, text in error.metadata.items()},
        violations=violations,
        retry_after=error.retry_after,
    )


def named(error: A2AError) -> A2AError:
    """The same, named in its message as the official SDKs do: by nothing else do their clients of 0.3 know it."""
    kind = error.reason.sdk_type
    if not kind:
        return error
    return A2AError(
        error.reason,
        f"{kind}: {error.message}",
        metadata=error.metadata,
        violations=error.violations,
        retry_after=error.retry_after,
    )


def reason_of(error: A2AError, rpc: str) -> Reason:
    """0.3 has one error for a card that is not offered and for one that is missing (LCRD-05)."""
    if rpc == "GetAgentCard" and error.reason is Reason.UNSUPPORTED_OPERATION:
        return Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED
    return error.reason


def _message(error: A2AError, violations: Sequence[Violation]) -> str:
    """A single fault is told in the message, too."""
    head = error.violations[0].field if violations else ""
    if violations and error.message.startswith(f"{head}: "):
        return violations[0].field + error.message.removeprefix(head)
    return error.message


def _retell(text: str) -> str:
    return _KNOWN.sub(lambda found: _WORDS[found[0]], text)


def _respell(field: str, rules: Rules) -> str:
    for pattern, new in rules:
        field = pattern.sub(new, field)
    return field
