"""Media types: which parts an agent reads, and which a client accepts (spec: SEND-04, CTX-04)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.input_requests import TOOL_RESULT, kind_of
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import JSON, TEXT

_IMPLIED: Final = MappingProxyType({"text": TEXT, "data": JSON})

_WORD = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_MEDIA_TYPE: Final = re.compile(rf"{_WORD}/{_WORD}\s*(;.*)?").fullmatch


def check_content_types(request: pb.SendMessageRequest, modes: Sequence[str], *, results: bool = False) -> None:
    """Refuse parts whose media type no mode covers (SEND-04). With `results`, tool results without one are allowed."""
    for part in request.message.parts[:]:  # a slice: protobuf's own iterator ends with a slow IndexError
        # Without a media type, text and data imply one. Of bytes and links only the agent can tell.
        media_type = part.media_type or _IMPLIED.get(part.WhichOneof("content") or "")
        if media_type and media_type not in modes and not any(matches(media_type, mode) for mode in modes):
            if results and not part.media_type and kind_of(part) == TOOL_RESULT:
                continue
            raise A2AError(
                Reason.CONTENT_TYPE_NOT_SUPPORTED,
                f"The agent does not read {media_type[:80]}.",
                metadata={"mediaType": media_type[:200], "supported": ",".join(modes)},
            )


def media_range_fault(value: str) -> str:
    """What is wrong with a media range; "" = nothing."""
    return "" if _MEDIA_TYPE(value) else f"must look like text/plain, image/* or */*, got {value[:80]!r}"


def matches(media_type: str, mode: str) -> bool:
    """Whether a mode such as `text/*` covers a media type. Parameters and case are ignored."""
    wanted, given = _essence(mode), _essence(media_type)
    if wanted in {given, "*/*", "*"}:
        return True
    return wanted.endswith("/*") and given.startswith(wanted[:-1])


def _essence(value: str) -> str:
    return value.partition(";")[0].strip().lower()
