"""The numbers of events, written into them for clients that ask for the replay extension (spec: RPLY-05)."""

from __future__ import annotations

import struct

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import unwrap, wrap
from a2a_server.operations.call import Entries, FinalEntries
from a2a_server.ports.records import Entry
from a2a_server.protocol.names import REPLAY_URI

_DOUBLE = struct.Struct("<d")


def numbered(entries: Entries) -> Entries:
    """Copies of these entries whose bytes tell their number; the shared ones stay as they are."""
    copies = [_numbered(entry) if entry.number else entry for entry in entries]  # a direct message is in no log
    return FinalEntries(copies) if isinstance(entries, FinalEntries) else copies


def _numbered(entry: Entry) -> Entry:
    kind = entry.event.WhichOneof("payload") or ""
    if getattr(entry.event, kind).HasField("metadata"):
        return _rewritten(entry, kind)
    field, content = unwrap(entry.wire)
    return Entry(entry.number, wrap(field, content + _MARKS[field] + _DOUBLE.pack(entry.number)))


def _rewritten(entry: Entry, kind: str) -> Entry:
    event = pb.StreamResponse()
    event.CopyFrom(entry.event)
    getattr(event, kind).metadata[REPLAY_URI] = entry.number
    return Entry.of(entry.number, event)


def _mark(kind: str) -> bytes:
    """The bytes of metadata that hold nothing but a number, up to the number."""
    event = pb.StreamResponse()
    getattr(event, kind).metadata[REPLAY_URI] = 1
    return unwrap(event.SerializeToString())[1][: -_DOUBLE.size]


# Most events have no metadata of their own; metadata added behind them is a twentieth of the work of a rewrite.
_MARKS = {field.number: _mark(field.name) for field in pb.StreamResponse.DESCRIPTOR.fields}
