"""Reads the numbers of a2ad's events. Over a channel they are inside the events (spec: RPLY-01, RPLY-05)."""

from __future__ import annotations

import re
from typing import NamedTuple

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError

from a2a_gateway.channel.call_failures import malformed
from a2a_gateway.upstream import MetadataPairs, is_read
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import A2AError, Reason, Violation, refuse
from a2a_server.protocol.names import CURSOR, EXTENSIONS, REPLAY_URI

_EVENT = pb.StreamResponse.DESCRIPTOR.full_name
_NUMBER = re.compile(r"[0-9]{1,18}")
_LARGEST = 2**53


class NumberedItem(NamedTuple):
    """One message of a stream, and its number; 0 when it has none."""

    number: int
    wire: bytes


class EventNumbers:
    """Asks the upstream for the replay extension on every stream. Servers that do not know it ignore it (EXTN-02).

    If the client did not ask for the extension, the numbers are removed from the events again.
    """

    def __init__(self, method: MethodDescriptor, metadata: MetadataPairs) -> None:
        self._possible = method.output_type.full_name == _EVENT
        self._wanted = any(name == EXTENSIONS and REPLAY_URI in _uris(value) for name, value in metadata)
        given = {value for name, value in metadata if name == CURSOR and value}
        self.cursors = given if self._possible and is_read(method) else set()
        """The event numbers from which the client resumes; a valid request has one."""
        self.active = False
        """Whether the upstream has activated the extension, as it reports before the first item."""

    def with_extension(self, metadata: MetadataPairs) -> MetadataPairs:
        return metadata if self._wanted or not self._possible else [*metadata, (EXTENSIONS, REPLAY_URI)]

    def answered(self, metadata: MetadataPairs) -> MetadataPairs:
        """Read from the metadata whether the extension is active; return the metadata for the client."""
        self.active = False
        told: list[tuple[str, str | bytes]] = []
        for name, value in metadata:
            uris = _uris(value) if name == EXTENSIONS else ()
            self.active = self.active or REPLAY_URI in uris
            if REPLAY_URI not in uris or self._wanted:
                told.append((name, value))
            elif left := ", ".join(uri for uri in uris if uri != REPLAY_URI):
                told.append((name, left))
        return told

    def check(self) -> None:
        """Refuse to resume if the upstream ignores the cursor, because the client would miss events unknowingly."""
        if self.active or not self.cursors:
            return
        text, *more = self.cursors
        if more or not (isinstance(text, str) and _NUMBER.fullmatch(text)):
            refuse([Violation(CURSOR, "must be the number of an event that a stream has shown, such as 17, or 0")])
        text = "Last-Event-ID: the agent's server does not replay events; a2ad does with replay_extension = true."
        raise A2AError(Reason.UNSUPPORTED_OPERATION, text)

    def read(self, wire: bytes) -> NumberedItem:
        if not self.active:
            return NumberedItem(0, wire)
        found = _without_number(wire)
        return NumberedItem(found.number, wire) if self._wanted else found


def _without_number(wire: bytes) -> NumberedItem:
    try:
        event = pb.StreamResponse.FromString(wire)
    except DecodeError:
        raise malformed(_EVENT) from None
    kind = event.WhichOneof("payload")
    update = getattr(event, kind) if kind else None
    if update is None or REPLAY_URI not in update.metadata.fields:
        return NumberedItem(0, wire)
    fields = update.metadata.fields
    number = fields[REPLAY_URI].number_value
    del fields[REPLAY_URI]
    if not fields:
        update.ClearField("metadata")
    known = 0 < number < _LARGEST and number.is_integer()
    return NumberedItem(int(number) if known else 0, event.SerializeToString())


def _uris(value: str | bytes) -> tuple[str, ...]:
    return tuple(uri.strip() for uri in value.split(",")) if isinstance(value, str) else ()
