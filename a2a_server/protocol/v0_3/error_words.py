"""The 1.0 core's complaints in the names and words of 0.3 and the draft (spec: ERRS-05, CONF-26, DRFT-02).

A client that sent `request.content[0]` cannot find `message.parts[0]`. `RENAMED` says where the members of 1.0 stand in
the 0.3 proto; in JSON the dialect has names for those (`in_spelling`). Words are states, roles and what parts hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2 as details
from google.rpc import status_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec.dialect import Dialect, Spellings, descriptor_of
from a2a_server.protocol.codec.faults import Faults, key_path
from a2a_server.protocol.errors import A2AError, Reason, StatusError, Violation, status_of
from a2a_server.protocol.names import COMPAT, EXTENSIONS, OLD_EXTENSIONS
from a2a_server.protocol.spellings import DRAFT_STATES, KEBAB_STATES, PLAIN_ROLES, PROTO_ROLES, PROTO_STATES
from a2a_server.protocol.v0_3.parts import Found

Words = Callable[[str], str]
"""Translates a text of 1.0, or the path of a field, to another version."""
Renames = Sequence[tuple[re.Pattern[str], str]]
"""Rules that rename members of 1.0. Each is applied to the result of the ones before."""


def renames(**fields: str) -> Renames:
    return tuple((re.compile(rf"^{name}\b"), new) for name, new in fields.items())


def config_renames(prefix: str, **places: str) -> Renames:
    """Return the rules for a push config at the path `prefix`; `places` are the names of its ids."""
    inner = f"{prefix}push_notification_config"
    return (
        *renames(**places),
        (re.compile(r"^authentication\.scheme\b"), "authentication.schemes"),
        *renames(**{name: f"{inner}.{name}" for name in ("url", "token", "authentication")}),
    )


def _in_parts(parts: str, media_type: str) -> Renames:
    """Return the rules for files and data in a list of parts at this path."""
    inside = {"raw": "file.file_with_bytes", "url": "file.file_with_uri", "filename": "file.name", "data": "data.data"}
    return tuple(
        (re.compile(rf"^({parts}\[\d+\])\.{old}\b"), rf"\1.{new}")
        for old, new in {**inside, "media_type": f"file.{media_type}"}.items()
    )


def _in_configuration(config: str) -> Renames:
    return (
        (re.compile(r"^configuration\.return_immediately\b"), "configuration.blocking"),
        (re.compile(r"^configuration\.task_push_notification_config\b"), f"configuration.{config}"),
        (re.compile(rf"^(configuration\.{config}\.authentication)\.scheme\b"), r"\1.schemes"),
    )


_SENDS: Final[Renames] = (
    (re.compile(r"^message\.reference_task_ids\b"), f"message.metadata.{COMPAT}.referenceTaskIds"),
    (re.compile(r"^message\.parts\b"), "message.content"),
    *_in_parts(r"message\.content", "mime_type"),
    (re.compile(r"^message\b"), "request"),
    *_in_configuration("push_notification"),
)
KIND_SENDS: Final[Renames] = _SENDS[1:]
"""The same for the `kind` spelling, in which messages have a member for references."""
DRAFT_SENDS: Final[Renames] = (
    *_in_parts(r"message\.parts", "media_type"),
    *_in_configuration("push_notification_config"),
)
_TASK: Final = renames(id="name")
_CONFIG: Final = renames(task_id="name", id="name")

RENAMED: Final[Mapping[str, Renames]] = MappingProxyType(
    {
        "SendMessage": _SENDS,
        "SendStreamingMessage": _SENDS,
        "GetTask": _TASK,
        "CancelTask": _TASK,
        "SubscribeToTask": _TASK,
        "CreateTaskPushNotificationConfig": config_renames("config.", task_id="parent", id="config_id"),
        "GetTaskPushNotificationConfig": _CONFIG,
        "ListTaskPushNotificationConfigs": renames(task_id="parent"),
        "DeleteTaskPushNotificationConfig": _CONFIG,
    }
)
"""The rules by the RPC of 1.0. The fields of other RPCs have the same names."""
IDS: Final[Mapping[str, Renames]] = MappingProxyType(
    {
        "GetTaskPushNotificationConfig": renames(id="push_notification_config_id", task_id="id"),
        "DeleteTaskPushNotificationConfig": renames(id="push_notification_config_id", task_id="id"),
        "ListTaskPushNotificationConfigs": renames(task_id="id"),
        "CreateTaskPushNotificationConfig": config_renames("", id="push_notification_config.id"),
    }
)
"""The same over JSON-RPC, where requests have ids instead of resource names."""
_EXTENSIONS: Final = renames(**{EXTENSIONS: OLD_EXTENSIONS})
"""The rules for metadata, for every RPC over gRPC."""


def renamed(field: str, rules: Renames) -> str:
    for pattern, new in rules:
        field = pattern.sub(new, field)
    return field


_FILES: Final = re.compile(r"file_with_\w+")
_STEP: Final = re.compile(r"\[\d+\]|\[\"(?:[^\"\\]|\\.)*\"\]|[^.\[]+|\.")


def in_spelling(path: str, kind: Descriptor, dialect: Dialect) -> str:
    """Write a path of proto fields, which begins at a message of this type, with the names of a dialect."""
    here: Descriptor | None = kind
    names: list[str] = []
    for step in _STEP.findall(path):
        if step == "." or step.startswith("["):
            names.append(step)
            continue
        field = here.fields_by_name.get(step) if here is not None else None
        if here is not None and here.full_name == "google.protobuf.Struct":  # its members are the client's
            names.append(key_path(step))
        else:
            names.append(_camel(step) if field is None else dialect.member(field))
        here = field.message_type if field is not None else None
    return re.sub(r"\.(?=\.|\[|$)", "", "".join(names))


def in_dialect(found: Found, kind: Descriptor, dialect: Dialect) -> Faults:
    """Return faults of the translation, with the names of the dialect."""
    faults = Faults()
    for fault in found:
        faults.add(
            f".{in_spelling(fault.field, kind, dialect)}", _FILES.sub(partial(_file, dialect), fault.description)
        )
    return faults


def _file(dialect: Dialect, name: re.Match[str]) -> str:
    return dialect.member(descriptor_of(v03.FilePart).fields_by_name[name[0]])


def _camel(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)


# -- words


def _contents(kind: type[Message], oneof: str) -> str:
    """Return the members of a part, as error messages list them."""
    return ", ".join(field.name for field in kind.DESCRIPTOR.oneofs_by_name[oneof].fields)


_STATE: Final = "state"
"""The key of a task's state in the metadata of an error."""


def _words(states: Spellings, roles: Spellings) -> Words:
    words: Mapping[str, str] = {
        **{name: str(states.written(number)) for name, number in pb.TaskState.items()},
        **{name: str(roles.written(number)) for name, number in pb.Role.items()},
        _contents(pb.Part, "content"): _contents(v03.Part, "part"),
    }
    known = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")
    return lambda text: known.sub(lambda found: words[found[0]], text)


KIND: Final = _words(KEBAB_STATES, PLAIN_ROLES)
PROTO: Final = _words(PROTO_STATES, PROTO_ROLES)
DRAFT: Final = _words(DRAFT_STATES, PLAIN_ROLES)


# -- errors


def for_grpc_client(error: A2AError, rpc: str) -> A2AError:
    """Return the error for a client that has called the RPC of 0.3 over gRPC; `rpc` is the name in 1.0."""
    rules = (*RENAMED.get(rpc, ()), *_EXTENSIONS)
    return _translate(error, PROTO, lambda field: renamed(field, rules))


def with_sdk_name(error: A2AError, rpc: str) -> A2AError:
    """Put the official SDKs' name of the error before its message, because their clients of 0.3 recognise it by that.

    0.3 has one error for a card that is not offered and for one that is missing (LCRD-05).
    """
    reason = error.reason
    if rpc == "GetExtendedAgentCard" and reason is Reason.UNSUPPORTED_OPERATION:
        reason = Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED
    kind = f"{reason.sdk_type}: " if reason.sdk_type else ""
    return A2AError(
        reason,
        f"{kind}{error.message}",
        metadata=error.metadata,
        violations=error.violations,
        retry_after=error.retry_after,
        told=error.told,
    )


def translate_error(error: A2AError | StatusError, words: Words, path: Words | None = None) -> A2AError | StatusError:
    """Return the error with its texts translated by `words`, and its field names by `path`."""
    if isinstance(error, StatusError):
        return StatusError(_translate_status(error.status, words, path), error.trailers, error.metadata)
    if path is not None and error.violations:  # shortened to what fits into trailers, as over a channel
        return StatusError(_translate_status(status_of(error), words, path), error.told)
    return _translate(error, words, path)


def _translate(error: A2AError, words: Words, path: Words | None) -> A2AError:
    violations = [
        Violation(path(fault.field) if path else fault.field, words(fault.description)) for fault in error.violations
    ]
    message, head = error.message, error.violations[0].field if violations else ""
    if violations and message.startswith(f"{head}: "):  # the message repeats a single fault
        message = violations[0].field + message.removeprefix(head)
    return A2AError(
        error.reason,
        words(message),
        metadata={name: words(text) if name == _STATE else text for name, text in error.metadata.items()},
        violations=violations,
        retry_after=error.retry_after,
        told=error.told,
    )


def _translate_status(in_dialect: status_pb2.Status, words: Words, path: Words | None) -> status_pb2.Status:
    status = status_pb2.Status()
    status.CopyFrom(in_dialect)
    for packed in status.details:
        try:
            _translate_details(status, packed, words, path)
        except DecodeError:  # whoever writes the status handles it
            continue
    status.message = words(status.message)
    return status


def _translate_details(status: status_pb2.Status, packed: Packed, words: Words, path: Words | None) -> None:
    bad, info = details.BadRequest(), details.ErrorInfo()
    if packed.Unpack(bad):
        for violation in bad.field_violations:
            field = path(violation.field) if path else violation.field
            if status.message.startswith(violation.field):
                status.message = field + status.message[len(violation.field) :]
            violation.field, violation.description = field, words(violation.description)
        packed.Pack(bad)
    elif packed.Unpack(info) and _STATE in info.metadata:
        info.metadata[_STATE] = words(info.metadata[_STATE])
        packed.Pack(info)
