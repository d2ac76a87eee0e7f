"""What spellings call states, roles and contents of parts, in errors told in the words of 1.0 (ERRS-05, CONF-26)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2 as details
from google.rpc import status_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.schema import Spellings
from a2a_server.protocol.dialects.enums import DRAFT_STATES, KEBAB_STATES, PLAIN_ROLES, PROTO_ROLES, PROTO_STATES
from a2a_server.protocol.dialects.parts import CONTENTS
from a2a_server.protocol.errors import A2AError, StatusError, Violation

Words = Callable[[str], str]
"""Says a text of 1.0 in other words."""

_OF_1_0: Final = ", ".join(field.name for field in pb.Part.DESCRIPTOR.oneofs_by_name["content"].fields)
_STATE: Final = "state"
"""What metadata calls the state of a task."""


def _words(states: Spellings, roles: Spellings) -> Words:
    named: Mapping[str, str] = {
        **{name: str(states.written(number)) for name, number in pb.TaskState.items()},
        **{name: str(roles.written(number)) for name, number in pb.Role.items()},
        _OF_1_0: ", ".join(CONTENTS),
    }
    known = re.compile(rf"\b(?:{'|'.join(map(re.escape, named))})\b")
    return lambda text: known.sub(lambda found: named[found[0]], text)


KIND: Final = _words(KEBAB_STATES, PLAIN_ROLES)
PROTO: Final = _words(PROTO_STATES, PROTO_ROLES)
DRAFT: Final = _words(DRAFT_STATES, PLAIN_ROLES)


def retold(error: A2AError | StatusError, words: Words) -> A2AError | StatusError:
    """The same error; what its fields are called is for others to say."""
    if isinstance(error, StatusError):
        return StatusError(_status_retold(error.status, words), error.trailers, error.metadata)
    return A2AError(
        error.reason,
        words(error.message),
        metadata={name: words(text) if name == _STATE else text for name, text in error.metadata.items()},
        violations=[Violation(fault.field, words(fault.description)) for fault in error.violations],
        retry_after=error.retry_after,
    )


def _status_retold(told: status_pb2.Status, words: Words) -> status_pb2.Status:
    status = status_pb2.Status()
    status.CopyFrom(told)
    status.message = words(status.message)
    for packed in status.details:
        try:
            _retell(packed, words)
        except DecodeError:  # which whoever shows it notices, too
            continue
    return status


def _retell(packed: Packed, words: Words) -> None:
    bad, info = details.BadRequest(), details.ErrorInfo()
    if packed.Unpack(bad):
        for violation in bad.field_violations:
            violation.description = words(violation.description)
        packed.Pack(bad)
    elif packed.Unpack(info) and _STATE in info.metadata:
        info.metadata[_STATE] = words(info.metadata[_STATE])
        packed.Pack(info)
