"""The two spellings of 0.3's JSON, both over the descriptors of 0.3 (LRES-04, LRES-05, LRPC-02, CONF-27, -71).

`proto` is ProtoJSON of the 0.3 proto. `kind` is 0.3's JSON schema: `kind` on everything, words in kebab-case. What
differs is data: names of members, words of enums, and forms of a few types.

Codecs take and return messages of 1.0. Those that carry content are translated by `messages` and `configs` on the
way; requests that only name a task have ids in JSON, as in 1.0, and are read as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from google.protobuf import timestamp_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec import Codec, Dialect, times
from a2a_server.protocol.codec.compiler import Compiler, Function
from a2a_server.protocol.codec.dialect import Form, descriptor_of, json_name
from a2a_server.protocol.spellings import (
    KEBAB_STATES,
    OLD_ROLE,
    OLD_STATE,
    PLAIN_ROLES,
    PROTO_ROLES,
    PROTO_STATES,
    ROLE,
    STATE,
    is_required_by_1_0,
    snake,
)
from a2a_server.protocol.v0_3 import configs, kind, messages
from a2a_server.protocol.v0_3.error_words import KIND_SENDS, RENAMED, Renames, Words, in_dialect, in_spelling, renamed
from a2a_server.protocol.v0_3.foreign import IN_KIND, IN_PROTO, TENANT
from a2a_server.protocol.v0_3.parts import Found

_SEND: Final = descriptor_of(v03.SendMessageRequest)
_MEMO_BYTES: Final = 8 * 2**20
_MEMO_BYTES_OF_LAST: Final = 2**20


class Spelling(NamedTuple):
    """The codecs of one way to spell."""

    codec: Codec
    """Requests, answers, and all items of a stream but the one that ends it."""
    last: Codec
    """The item that ends a stream: its `final` is true."""
    sent: Words
    """What a field of a send of 1.0 is called, by its path."""


_IDS: Final = {
    "lf.a2a.v1.GetTaskPushNotificationConfigRequest.task_id": "id",
    "lf.a2a.v1.GetTaskPushNotificationConfigRequest.id": "pushNotificationConfigId",
    "lf.a2a.v1.DeleteTaskPushNotificationConfigRequest.task_id": "id",
    "lf.a2a.v1.DeleteTaskPushNotificationConfigRequest.id": "pushNotificationConfigId",
    "lf.a2a.v1.ListTaskPushNotificationConfigsRequest.task_id": "id",
}
_UNPAGED: Final = {
    "lf.a2a.v1.ListTaskPushNotificationConfigsRequest.page_size": "",
    "lf.a2a.v1.ListTaskPushNotificationConfigsRequest.page_token": "",
}
"""JSON-RPC lists all configs at once."""
_IN_KIND: Final = {
    "a2a.v1.DataPart.data": "",  # data is the object itself
    "a2a.v1.FilePart.file_with_bytes": "bytes",
    "a2a.v1.FilePart.file_with_uri": "uri",
    "a2a.v1.Message.content": "parts",
    "a2a.v1.SendMessageConfiguration.push_notification": "pushNotificationConfig",
}
_ALSO: Final[Mapping[str, Sequence[str]]] = {
    "lf.a2a.v1.GetTaskRequest.id": ("taskId", "task_id"),
    "a2a.v1.FilePart.file_with_bytes": ("fileWithBytes", "file_with_bytes"),
    "a2a.v1.FilePart.file_with_uri": ("fileWithUri", "file_with_uri"),
    "a2a.v1.SendMessageConfiguration.push_notification": (
        *("pushNotificationConfig", "push_notification_config"),
        *("pushNotification", "push_notification"),
    ),
}
"""Further names that are read."""
_ALWAYS: Final = {
    "a2a.v1.AuthenticationInfo.schemes",
    "a2a.v1.Message.content",
    "a2a.v1.PushNotificationConfig.url",
    "a2a.v1.SendMessageRequest.request",
    "a2a.v1.Task.context_id",
    "a2a.v1.TaskStatusUpdateEvent.final",
}
"""What the JSON schema requires beside what 1.0 does."""
_UNWRAPPED: Final[Mapping[str, Form]] = {
    "google.protobuf.Empty": kind.NULL,
    "lf.a2a.v1.ListTaskPushNotificationConfigsResponse": kind.listed(
        pb.ListTaskPushNotificationConfigsResponse, "configs"
    ),
    "a2a.v1.SendMessageResponse": kind.bare(v03.SendMessageResponse),
    "a2a.v1.StreamResponse": kind.bare(v03.StreamResponse),
}
"""Answers over JSON-RPC."""
_WAITING: Final = kind.blocking_form(v03.SendMessageConfiguration, "blocking")
KINDS: Final[Mapping[str, Mapping[str, str | bool]]] = {
    "a2a.v1.Task": {"kind": "task"},
    "a2a.v1.Message": {"kind": "message"},
    "a2a.v1.TaskStatusUpdateEvent": {"kind": "status-update", "final": False},
    "a2a.v1.TaskArtifactUpdateEvent": {"kind": "artifact-update"},
}
_FINAL_FIRST: Final[Mapping[str, Mapping[str, str | bool]]] = {"a2a.v1.TaskStatusUpdateEvent": {"final": False}}
"""Early, for readers who look at the beginning; the field says what it is."""


def _read_time(value: object, time: timestamp_pb2.Timestamp) -> None:
    """A time without a zone is UTC: the JSON schema only says that times are ISO 8601."""
    try:
        times.read_time(value, time)
    except ValueError:
        times.read_time(f"{value}Z" if type(value) is str else value, time)


TIME: Final[Form] = Form(read=lambda _: _read_time)


def kind_json(*, rest: bool = False, wait: bool = True, extras: bool = False) -> Spelling:
    """0.3's JSON schema. With `rest` answers keep their wrappers.

    Without `wait` a send waits only if it says `blocking`. With `extras` input requests and tools' parts are written in
    their own shape; it is read in any case.
    """
    named = _member(_IN_KIND if rest else {**_IN_KIND, **_UNPAGED})
    dialect = Dialect(
        member=named,
        also=lambda field: (snake(named(field)), *_ALSO.get(field.full_name, ())),
        always=is_always_written,
        constants=KINDS,
        foreign=IN_KIND,
        enums={STATE: KEBAB_STATES, ROLE: PLAIN_ROLES, OLD_STATE: KEBAB_STATES, OLD_ROLE: PLAIN_ROLES},
        forms={
            "google.protobuf.Timestamp": TIME,
            **kind.PARTS,
            "a2a.v1.Message": kind.WITH_INPUT_REQUESTS if extras else kind.MESSAGE,
            **({"a2a.v1.Part": kind.TOOL_PARTS} if extras else {}),
            **({"a2a.v1.SendMessageConfiguration": _WAITING} if wait else {}),
            **({} if rest else _UNWRAPPED),
            "lf.a2a.v1.TaskPushNotificationConfig": configs.named(
                configs.by_task, TENANT, configs.IN_REST if rest else configs.ALONE
            ),
        },
    )
    return _spelling(dialect, KIND_SENDS, wait=wait)


def proto_json(*, raw_files: bool = False, wait: bool = True) -> Spelling:
    """ProtoJSON of 0.3. With `raw_files` files are written as JavaScript does.

    Without `wait` a send without configuration does not wait.
    """
    named = _member({})
    dialect = Dialect(
        member=named,
        also=lambda field: (snake(named(field)), *_own_name(field), *_ALSO.get(field.full_name, ())),
        always=is_always_written,
        constants=_FINAL_FIRST,
        foreign=IN_PROTO,
        enums={STATE: PROTO_STATES, ROLE: PROTO_ROLES, OLD_STATE: PROTO_STATES, OLD_ROLE: PROTO_ROLES},
        forms={
            "google.protobuf.Timestamp": TIME,
            **kind.NESTED,
            "a2a.v1.PushNotificationConfig.id": configs.ID,
            "lf.a2a.v1.TaskPushNotificationConfig": configs.named(configs.by_name, TENANT, configs.IN_REST),
        },
    )
    return _spelling(dialect, RENAMED["SendMessage"], wait=wait, raw_files=raw_files)


def _member(names: Mapping[str, str]) -> Callable[[FieldDescriptor], str]:
    """Name a field as in the tables, and otherwise as ProtoJSON does. A tenant is in the URL or the credentials."""
    known = {**_IDS, **names}

    def named(field: FieldDescriptor) -> str:
        return "" if field.name == "tenant" else known.get(field.full_name, json_name(field))

    return named


KIND_MEMBER: Final = _member(_IN_KIND)
"""What the JSON schema calls a field of 0.3."""


def _own_name(field: FieldDescriptor) -> Sequence[str]:
    """What the proto calls a field of 0.3, where JSON has another name."""
    return (field.name,) if field.full_name.startswith(f"{v03.DESCRIPTOR.package}.") else ()


def is_always_written(field: FieldDescriptor) -> bool:
    return is_required_by_1_0(field) or field.full_name in _ALWAYS


# -- messages of 1.0, by those of 0.3


def _spelling(dialect: Dialect, sent: Renames, *, wait: bool, raw_files: bool = False) -> Spelling:
    """Make the codecs of a dialect over 0.3, for messages of 1.0."""
    old = messages.Downgrade(raw_files)
    forms = {
        **dialect.forms,
        "lf.a2a.v1.ListTasksResponse": kind.listed(pb.ListTasksResponse, "tasks"),
        "lf.a2a.v1.SendMessageRequest": Form(None, partial(_send_reader, dialect=dialect, wait=wait)),
        "lf.a2a.v1.SendMessageResponse": _written(v03.SendMessageResponse, old.answer),
        "lf.a2a.v1.Task": _written(v03.Task, old.task),
    }

    def ending(*, last: bool) -> Dialect:
        item = _written(v03.StreamResponse, partial(old.item, last=last))
        return replace(dialect, forms={**forms, "lf.a2a.v1.StreamResponse": item})

    return Spelling(
        Codec(ending(last=False), memo_bytes=_MEMO_BYTES),
        Codec(ending(last=True), memo_bytes=_MEMO_BYTES_OF_LAST),
        lambda field: in_spelling(renamed(field, sent), _SEND, dialect),
    )


def _written(old: type[Message], downgrade: Function) -> Form:
    def writer(writers: Compiler) -> Function:
        write = writers.of(descriptor_of(old))
        return lambda message: write(downgrade(message))

    return Form(writer)


def _send_reader(readers: Compiler, *, dialect: Dialect, wait: bool) -> Function:
    plain = readers.of(_SEND)

    def read(value: object, request: pb.SendMessageRequest) -> None:
        legacy, found = v03.SendMessageRequest(), Found()
        plain(value, legacy)
        messages.upgrade_send_into(request, legacy, found, waits_by_default=wait)
        if found:
            raise in_dialect(found, _SEND, dialect)
        if legacy.HasField("configuration") and not legacy.configuration.history_length:
            _read_length(value, request)

    return read


def _read_length(value: object, request: pb.SendMessageRequest) -> None:
    """In JSON no length means all and 0 means none; the message of 0.3 cannot tell them apart."""
    assert type(value) is dict  # noqa: S101 - or it could not have been read
    configuration = value["configuration"]
    if configuration.get("historyLength", configuration.get("history_length")) is not None:
        request.configuration.history_length = 0
