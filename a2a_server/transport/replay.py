"""The numbers of events, written into them for clients that ask for the extension (spec: RPLY-05, EXTN-07)."""

from __future__ import annotations

from a2a_server.operations.call import Entries
from a2a_server.operations.replay import NAME, URI
from a2a_server.ports.store import Entry
from generated import a2a_pb2 as pb

__all__ = ["NAME", "URI", "numbered"]


def numbered(entries: Entries) -> Entries:
    """Copies of these entries whose events tell their number; the shared ones stay as they are."""
    return [_numbered(entry) if entry.number else entry for entry in entries]  # a direct message is in no log


def _numbered(entry: Entry) -> Entry:
    event = pb.StreamResponse()
    event.CopyFrom(entry.event)
    getattr(event, event.WhichOneof("payload") or "").metadata[URI] = entry.number
    return Entry.of(entry.number, event)
