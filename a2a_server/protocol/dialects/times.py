"""Times of 0.3, of which the JSON schema only says that they are ISO 8601 (spec: LMAP)."""

from __future__ import annotations

from typing import Final

from google.protobuf import timestamp_pb2

from a2a_server.protocol.codec import times
from a2a_server.protocol.codec.schema import Form


def _read(value: object, time: timestamp_pb2.Timestamp) -> None:
    """A time without a zone is UTC."""
    try:
        times.read_time(value, time)
    except ValueError:
        times.read_time(f"{value}Z" if type(value) is str else value, time)


FORM: Final[Form] = Form(read=lambda _: _read)
