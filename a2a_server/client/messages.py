"""Makes requests of what callers have: a text, data, files, parts (spec: SEND, SUBA-01)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct, Value

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.names import JSON

Content = str | pb.Part | pb.Message | Sequence[pb.Part]


def text_part(text: str, media_type: str = "") -> pb.Part:
    return pb.Part(text=text, media_type=media_type)


def data_part(data: Any, media_type: str = JSON) -> pb.Part:  # noqa: ANN401 - any JSON value
    return pb.Part(data=ParseDict(data, Value()) if data is not None else Value(null_value=0), media_type=media_type)  # type: ignore[arg-type]


def file_part(content: bytes | str, *, name: str = "", media_type: str = "") -> pb.Part:
    """Make a part of a file's bytes, or of its URL."""
    if isinstance(content, str):
        return pb.Part(url=content, filename=name, media_type=media_type)
    return pb.Part(raw=content, filename=name, media_type=media_type)


def message_of(  # noqa: PLR0913 - by keyword
    content: Content = "",
    *,
    data: Any = None,  # noqa: ANN401 - any JSON value
    files: Iterable[pb.Part] = (),
    task_id: str = "",
    context_id: str = "",
    references: Iterable[str] = (),
    metadata: Mapping[str, Any] | None = None,
) -> pb.Message:
    """Return a message of the user; what is given beside a whole message is added to it."""
    message = pb.Message()
    if isinstance(content, pb.Message):
        message.CopyFrom(content)
    elif isinstance(content, str):
        message.parts.extend([text_part(content)] if content else [])
    else:
        message.parts.extend([content] if isinstance(content, pb.Part) else content)
    message.message_id = message.message_id or str(uuid.uuid4())
    message.role = message.role or pb.ROLE_USER
    message.task_id, message.context_id = task_id or message.task_id, context_id or message.context_id
    if data is not None:
        message.parts.append(data_part(data))
    message.parts.extend(files)
    message.reference_task_ids.extend(references)
    if metadata:
        ParseDict(dict(metadata), message.metadata)
    return message


def send_request(
    content: Content | pb.SendMessageRequest,
    configuration: pb.SendMessageConfiguration | None,
    metadata: Mapping[str, Any] | None,
    parts: Mapping[str, Any],
) -> pb.SendMessageRequest:
    """Return the request; a whole one is taken as it is."""
    if isinstance(content, pb.SendMessageRequest):
        return content
    return pb.SendMessageRequest(
        message=message_of(content, **parts),
        configuration=configuration,
        metadata=ParseDict(dict(metadata), Struct()) if metadata else None,
    )
