"""0.3 as its JSON schema spells it: `kind` on everything, words in kebab-case (spec: LRPC-02, LRPC-03, LRES-04)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import Dialect
from a2a_server.protocol.codec.schema import Form
from a2a_server.protocol.dialects import answers, input_requests, kind_parts, members, push, sends
from a2a_server.protocol.dialects.enums import KEBAB_STATES, PLAIN_ROLES, ROLE, STATE
from a2a_server.protocol.dialects.foreign import IN_KIND, TENANT
from a2a_server.protocol.dialects.forms import FORMS
from a2a_server.protocol.dialects.members import full
from a2a_server.protocol.dialects.spelling import FINAL, Spelling, spelling

_FORMS: Final[Mapping[str, Form]] = {
    **FORMS,
    **full(
        {
            "Message": input_requests.READ,
            "Part": kind_parts.FORM,
            "TaskPushNotificationConfig": push.named(push.by_task, TENANT),
        }
    ),
}
_EXTRAS: Final[Mapping[str, Form]] = full({"Message": input_requests.FORM, "Part": kind_parts.WITH_TOOLS})
_UNWRAPPED: Final[Mapping[str, Form]] = {
    "google.protobuf.Empty": answers.NULL,
    **full(
        {
            "SendMessageResponse": answers.bare(pb.SendMessageResponse),
            "StreamResponse": answers.bare(pb.StreamResponse),
            "ListTaskPushNotificationConfigsResponse": answers.listed(
                pb.ListTaskPushNotificationConfigsResponse, "configs"
            ),
        }
    ),
}
_CONSTANTS: Final[Mapping[str, Mapping[str, str | bool]]] = full(
    {
        "Task": {"kind": "task"},
        "Message": {"kind": "message"},
        "TaskStatusUpdateEvent": {"kind": "status-update", FINAL: False},
        "TaskArtifactUpdateEvent": {"kind": "artifact-update"},
    }
)


def kind(*, rest: bool = False, wait: bool = True, extras: bool = False) -> Spelling:
    """With `rest` answers keep their wrappers; without `wait` a send waits only if it says `blocking`.

    With `extras` input requests and tools' parts are written in their own shape; it is read in any case.
    """
    member = members.member(members.NAMES if rest else {**members.NAMES, **members.UNPAGED})
    dialect = Dialect(
        member=member,
        also=members.also(member, members.ALSO),
        always=members.always,
        constants=_CONSTANTS,
        foreign=full(IN_KIND),
        enums={STATE: KEBAB_STATES, ROLE: PLAIN_ROLES},
        forms={
            **_FORMS,
            **(_EXTRAS if extras else {}),
            **({} if rest else _UNWRAPPED),
            **full(sends.WAITING if wait else sends.WITHOUT_WAITING),
        },
    )
    return spelling(dialect)
