"""What is set in a message, asked in half the time."""

from __future__ import annotations

from typing import Any, Final, Protocol, cast

from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb


class _Has(Protocol):
    def __call__(self, message: Message, field: str, /) -> bool: ...


class _WhichOf(Protocol):
    def __call__(self, message: Message, oneof: str, /) -> str | None: ...


_MESSAGE: Any = pb.Message
_SHARED: Final = _MESSAGE.HasField == pb.Task.HasField
"""Not where protobuf is pure Python, as on musl: there each class has methods for itself."""

has: Final = cast("_Has", _MESSAGE.HasField if _SHARED else lambda message, field: message.HasField(field))
"""Whether a field with presence is set."""

which_of: Final = cast("_WhichOf", _MESSAGE.WhichOneof if _SHARED else lambda message, oneof: message.WhichOneof(oneof))
"""The member of a oneof that is set."""
