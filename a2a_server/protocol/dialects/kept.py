"""What 0.3 has no member for is kept in metadata, and taken out again on the way back (spec: LMAP-02).

The keys and marks are those of gRPC 0.3, so that a task may be read through either. Only what would have been written
is taken; anything else under these names is somebody's own and stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from a2a_server.protocol.names import COMPAT

Json = dict[str, Any]

WRAPPED: Final = "data_part_compat"
"""Marks data that is no object and was wrapped as `{"value": …}`."""
VALUE: Final = "value"

MEDIA_TYPE: Final = "mediaType"
FILENAME: Final = "filename"
_TEXTS: Final = frozenset({MEDIA_TYPE, FILENAME})
_REFERENCES: Final = "referenceTaskIds"


def texts_of(metadata: Json) -> Mapping[str, str]:
    """The media type and the name of a part that is no file; nothing if it looks any different."""
    record = metadata.get(COMPAT)
    if type(record) is not dict or not all(name in _TEXTS and _is_text(text) for name, text in record.items()):
        return {}
    return record


def is_wrapped(data: Json, metadata: object) -> bool:
    if type(metadata) is not dict:
        return False
    return metadata.get(WRAPPED) is True and [*data] == [VALUE] and type(data[VALUE]) is not dict


def references(task_ids: Collection[str]) -> Json:
    return {_REFERENCES: [*task_ids]}


def references_of(value: Json) -> Sequence[str]:
    """The tasks that a message refers to, if that is all that its record holds."""
    if type(metadata := value.get("metadata")) is not dict:
        return ()
    record = metadata.get(COMPAT)
    if type(record) is not dict or [*record] != [_REFERENCES] or type(ids := record[_REFERENCES]) is not list:
        return ()
    return ids if all(type(task_id) is str for task_id in ids) else ()


def without_references(value: Json) -> Json:
    """The JSON of a message that has some; empty metadata is what `references` alone was put into."""
    metadata = without(value["metadata"], COMPAT)
    return {**value, "metadata": metadata} if metadata else without(value, "metadata")


def without(metadata: Json, key: str) -> Json:
    return {name: item for name, item in metadata.items() if name != key}


def cut(metadata: Json, key: str, name: str) -> Json:
    """The same without one member of an object inside it, and without that object if that was all."""
    rest = without(metadata[key], name)
    return {**metadata, key: rest} if rest else without(metadata, key)


def _is_text(text: object) -> bool:
    return type(text) is str and bool(text)
