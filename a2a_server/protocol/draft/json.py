"""The draft's JSON. Parts and push configs use the descriptors of 0.3, the rest those of 1.0 (DRFT-02, CONF-23)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import not_
from typing import Any, Final

import orjson
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec import Codec, Dialect
from a2a_server.protocol.codec.compiler import Compiler, Function, has
from a2a_server.protocol.codec.dialect import Form, descriptor_of, is_required, json_name
from a2a_server.protocol.codec.faults import faults_in
from a2a_server.protocol.codec.scalars import boolean, integer
from a2a_server.protocol.json_v1 import PAGE_SIZE
from a2a_server.protocol.spellings import DRAFT_ROLES, DRAFT_STATES, ROLE, STATE, snake
from a2a_server.protocol.v0_3 import parts
from a2a_server.protocol.v0_3.configs import (
    ID,
    SEGMENT,
    TEXT,
    UNNAMED,
    ConfigWrapper,
    IdMember,
    by_name,
    check_same,
    named,
    read_places,
)
from a2a_server.protocol.v0_3.error_words import DRAFT_SENDS, in_dialect, renamed
from a2a_server.protocol.v0_3.foreign import IN_DRAFT
from a2a_server.protocol.v0_3.json import TIME, Spelling
from a2a_server.protocol.v0_3.kind import NESTED, blocking_form
from a2a_server.protocol.v0_3.parts import Found
from a2a_server.protocol.v0_3.resource_names import A_CONFIG, A_TASK, config_of, parent_of, task_of, text_of

_NAMES: Final[Mapping[str, str]] = {
    "lf.a2a.v1.ListTasksRequest.status_timestamp_after": "lastUpdatedAfter",
    "lf.a2a.v1.SendMessageConfiguration.return_immediately": "blocking",
    "lf.a2a.v1.SendMessageConfiguration.task_push_notification_config": "pushNotificationConfig",
    "a2a.v1.FilePart.mime_type": "mediaType",
}
"""Members that are not called as in the protos."""
_ALSO: Final[Mapping[str, Sequence[str]]] = {
    "lf.a2a.v1.ListTaskPushNotificationConfigsRequest.task_id": ("id",),
    "a2a.v1.FilePart.mime_type": ("mimeType", "mime_type"),
}
"""Further names that are read."""
_ALWAYS: Final = {
    "lf.a2a.v1.SendMessageConfiguration.return_immediately",
    "lf.a2a.v1.Task.context_id",
    "a2a.v1.AuthenticationInfo.schemes",
    "a2a.v1.PushNotificationConfig.url",
}


def _member(field: FieldDescriptor) -> str:
    return _NAMES.get(field.full_name, json_name(field))


def _also(field: FieldDescriptor) -> Sequence[str]:
    return snake(_member(field)), *_ALSO.get(field.full_name, ())


# -- parts: nested as in the 0.3 proto

_PART: Final = descriptor_of(v03.Part)


def _part_writer(writers: Compiler) -> Function:
    write = writers.of(_PART)

    def write_part(part: pb.Part) -> object:
        legacy = v03.Part()
        parts.downgrade_into(legacy, part, raw_files=True)
        return write(legacy)

    return write_part


def _part_reader(readers: Compiler) -> Function:
    read = readers.of(_PART)

    def read_part(value: object, part: pb.Part) -> None:
        legacy, found = v03.Part(), Found()
        read(value, legacy)
        raw = legacy.file.file_with_bytes
        parts.upgrade_into(part, legacy, "", found)
        if found:
            raise in_dialect(found, _PART, _DIALECT)
        if raw:  # these are the bytes themselves, whatever they look like
            part.raw = raw

    return read_part


# -- sends: `blocking` is the opposite of 1.0's member, and a send that does not say it does not wait (CONF-08)

_REQUEST: Final = descriptor_of(pb.SendMessageRequest)


def _send_reader(readers: Compiler) -> Function:
    plain = readers.plain(_REQUEST)

    def read(value: object, request: pb.SendMessageRequest) -> None:
        plain(value, request)
        if not has(request, "configuration"):
            request.configuration.return_immediately = True
        elif not request.configuration.ByteSize():
            request.ClearField("configuration")

    return read


# -- `lastUpdatedAfter`, which the draft counts in milliseconds

_FIRST: Final = -62135596800 * 1000
_LAST: Final = 253402300800 * 1000 - 1
"""The years 1 to 9999, which timestamps reach from and to."""


def _read_milliseconds(value: object, time: timestamp_pb2.Timestamp) -> None:
    milliseconds = integer(value)
    if not _FIRST <= milliseconds <= _LAST:
        raise ValueError
    time.seconds, rest = divmod(milliseconds, 1000)
    time.nanos = rest * 1_000_000


# -- push configs, whose names and ids may stand in several places, which must agree (DRFT-04, CONF-31)

_ID: Final = {"id": 'is for "pushNotificationConfig" to hold; outside of it there is "configId"'}
_WRAPPER: Final = ConfigWrapper(
    {
        "tenant": TEXT,
        "taskId": TEXT,
        "configId": SEGMENT,
        "parent": IdMember(lambda name: parent_of(text_of(name)), A_TASK),
    },
    _ID,
    {**_ID, "tenant": "is for the request to say"},
)
"""`{name, pushNotificationConfig}` may be the whole, or `config` beside `parent` and `configId`."""

_CONFIG: Final = named(by_name, _ID, _WRAPPER)


# -- requests that name a resource, give its ids, or both (DRFT-06, CONF-53)


def _named(request: type[Message], members: Sequence[str], place: IdMember, fields: Sequence[str]) -> Form:
    """`members` are names, which hold what stands in `fields`, in their order."""
    kind = descriptor_of(request)
    places = dict.fromkeys(members, place)

    def reader(readers: Compiler) -> Function:
        plain = readers.plain(kind)

        def read(value: object, message: Message) -> None:
            faults = faults_in(plain, value, message)
            assert type(value) is dict  # noqa: S101 - or plain had raised something else
            names = {member: value[member] for member in members if value.get(member) is not None}
            named, faults = read_places(names, places, faults)
            for index, field in enumerate(fields):
                own = {f".{kind.fields_by_name[field].json_name}": getattr(message, field)}
                in_dialect = {f".{member}": ids[index] for member, ids in named.items()}
                text, faults = check_same(faults, in_dialect | own)
                setattr(message, field, text)
            if faults:
                raise faults

        return read

    return Form(None, reader)


_TASK: Final = IdMember(lambda name: (task_of(text_of(name)),), A_TASK)
_PARENT: Final = IdMember(lambda name: (parent_of(text_of(name)),), A_TASK)
_NAME: Final = IdMember(lambda name: config_of(text_of(name)), A_CONFIG)

_REQUESTS: Final[Mapping[str, Form]] = {
    **{
        kind.DESCRIPTOR.full_name: _named(kind, ("name",), _TASK, ("id",))
        for kind in (pb.GetTaskRequest, pb.CancelTaskRequest, pb.SubscribeToTaskRequest)
    },
    **{
        kind.DESCRIPTOR.full_name: _named(kind, ("name",), _NAME, ("task_id", "id"))
        for kind in (pb.GetTaskPushNotificationConfigRequest, pb.DeleteTaskPushNotificationConfigRequest)
    },
    "lf.a2a.v1.ListTaskPushNotificationConfigsRequest": _named(
        pb.ListTaskPushNotificationConfigsRequest, ("parent", "name"), _PARENT, ("task_id",)
    ),
}


# -- all of it

_FORMS: Final[Mapping[str, Form]] = {
    "google.protobuf.Timestamp": TIME,
    **NESTED,
    "a2a.v1.PushNotificationConfig.id": ID,
    "lf.a2a.v1.ListTasksRequest.status_timestamp_after": Form(
        None, lambda _: _read_milliseconds, "milliseconds since 1970, such as 1767225600000"
    ),
    "lf.a2a.v1.Part": Form(_part_writer, _part_reader),
    "lf.a2a.v1.SendMessageConfiguration": blocking_form(pb.SendMessageConfiguration, "return_immediately"),
    "lf.a2a.v1.SendMessageConfiguration.return_immediately": Form(lambda _: not_, lambda _: lambda it: not boolean(it)),
    "lf.a2a.v1.SendMessageConfiguration.task_push_notification_config": UNNAMED,
    "lf.a2a.v1.SendMessageRequest": Form(None, _send_reader),
    "lf.a2a.v1.TaskPushNotificationConfig": _CONFIG,
    **_REQUESTS,
    **PAGE_SIZE,
}
_EVENT: Final = pb.TaskStatusUpdateEvent.DESCRIPTOR.full_name
_DIALECT: Final = Dialect(
    member=_member,
    also=_also,
    always=lambda field: is_required(field) or field.full_name in _ALWAYS,
    constants={_EVENT: {"final": False}},
    foreign=IN_DRAFT,
    enums={STATE: DRAFT_STATES, ROLE: DRAFT_ROLES},
    forms=_FORMS,
)

DRAFT: Final = Spelling(
    Codec(_DIALECT, memo_bytes=8 * 2**20),
    Codec(replace(_DIALECT, constants={_EVENT: {"final": True}}), memo_bytes=2**20),
    lambda field: renamed(field, DRAFT_SENDS),
)
"""On REST and JSON-RPC alike."""


# -- the agent card, with the deprecated members of 0.3 (DRFT-05, CONF-40, CONF-41, CONF-47)

_CARD_NAMES: Final[Mapping[str, str]] = {
    "lf.a2a.v1.AgentCapabilities.extended_agent_card": "",  # the card itself says so
    "lf.a2a.v1.AgentCard.security_requirements": "security",
    "lf.a2a.v1.AgentCard.signatures": "",  # of another form
    "lf.a2a.v1.AgentInterface.protocol_version": "",
    "lf.a2a.v1.AgentSkill.security_requirements": "security",
}
"""Members that are not called as in 1.0; empty: there is none."""
_CARD: Final = Codec(Dialect(member=lambda field: _CARD_NAMES.get(field.full_name, field.json_name), ordered=True))


def card_json(card: pb.AgentCard) -> dict[str, Any]:
    """The JSON of a card whose interfaces speak the draft; there is at least one."""
    shown = orjson.loads(_CARD.encode(card))
    main = card.supported_interfaces[0]
    # Once for all tenants, and in the words of 0.3, too: readers of the deprecated member know no others.
    doors = {
        door.url: {"url": door.url, "transport": door.protocol_binding, "protocolBinding": door.protocol_binding}
        for door in card.supported_interfaces
    }
    return {
        "protocolVersion": "0.3.0",  # as the draft calls itself
        **shown,
        "capabilities": {**shown["capabilities"], "stateTransitionHistory": False},
        "supportsExtendedAgentCard": card.capabilities.extended_agent_card,
        "url": main.url,
        "preferredTransport": main.protocol_binding,
        "additionalInterfaces": [*doors.values()],
    }
