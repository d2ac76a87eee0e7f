"""What both spellings of 0.3 make their own way (spec: LMAP)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.schema import Form
from a2a_server.protocol.dialects import answers, push, sends, times
from a2a_server.protocol.dialects.members import full

FORMS: Final[Mapping[str, Form]] = {
    "google.protobuf.Timestamp": times.FORM,
    **full(
        {
            "AuthenticationInfo.scheme": push.SCHEMES,
            "SendMessageConfiguration.return_immediately": sends.BLOCKING,
            "SendMessageConfiguration.task_push_notification_config": push.UNNAMED,
            "ListTasksResponse": answers.listed(pb.ListTasksResponse, "tasks"),
        }
    ),
}
"""By the full name of a type or of a field."""
