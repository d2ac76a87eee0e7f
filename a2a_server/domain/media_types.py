"""Media types: which parts an agent reads, and which a client accepts (spec: SEND-04, CONF-78, CONF-80)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.input_requests import TOOL_RESULT, kind_of
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import JSON, TEXT

UNDECLARED: Final = (TEXT, JSON)
"""The input modes in the card if the author declares none. Then no message is refused for its media type (CONF-80)."""

_IMPLIED: Final = MappingProxyType({"text": TEXT, "data": JSON})
_WORDS: Final = MappingProxyType(
    {"text": TEXT, "image": "image/*", "audio": "audio/*", "video": "video/*", "file": "*/*", "*": "*/*"}
)
_WORD = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_MEDIA_TYPE: Final = re.compile(rf"{_WORD}/{_WORD}\s*(;.*)?").fullmatch


def modes_of(values: Iterable[str]) -> tuple[str, ...]:
    """The media types and ranges among the modes. Words of older clients are read, others left out (CONF-78)."""
    read = (_WORDS.get(value.strip().lower(), value) for value in values)
    return tuple(mode for mode in read if _MEDIA_TYPE(mode))


def input_modes(card: pb.AgentCard) -> Mapping[str | None, Sequence[str]]:
    """Return the input modes of each skill: the agent's and its own. No modes = everything is accepted (CONF-80).

    The key "" has the modes of skills that are not in the card, the key None those of a message without a skill.
    """
    default = modes_of(card.default_input_modes)
    own = {skill.id: modes_of(skill.input_modes) for skill in card.skills}
    besides = default or UNDECLARED
    read: dict[str | None, Sequence[str]] = {
        id_: (*besides, *modes) if modes else default for id_, modes in own.items()
    }
    (only,) = read.values() if len(read) == 1 else (default,)
    return {**read, "": default, None: only}


def check_content_types(request: pb.SendMessageRequest, modes: Sequence[str], *, results: bool = False) -> None:
    """Refuse parts whose media type no mode covers (SEND-04). With `results`, tool results without one are allowed."""
    if not modes:
        return
    for part in request.message.parts[:]:  # a slice: protobuf's own iterator ends with a slow IndexError
        # Without a media type, text and data imply one. Of bytes and links only the agent can tell.
        media_type = part.media_type or _IMPLIED.get(part.WhichOneof("content") or "")
        if media_type and media_type not in modes and not any(matches(media_type, mode) for mode in modes):
            if results and not part.media_type and kind_of(part) == TOOL_RESULT:
                continue
            name = media_type[:80]
            raise A2AError(
                Reason.CONTENT_TYPE_NOT_SUPPORTED,
                f"The agent does not read {name}: defaultInputModes of its card, or inputModes of the skill, lack it.",
                metadata={"mediaType": media_type[:200], "supported": ",".join(modes)},
            )


def matches(media_type: str, mode: str) -> bool:
    """Whether a mode such as `text/*` covers a media type. Parameters and case are ignored."""
    wanted, given = _essence(mode), _essence(media_type)
    if wanted in {given, "*/*"}:
        return True
    return wanted.endswith("/*") and given.startswith(wanted[:-1])


def _essence(value: str) -> str:
    return value.partition(";")[0].strip().lower()
