"""The numbers of a2a-server's events, which over a channel travel inside them (spec: RPLY-01, RPLY-05)."""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError

from gateway.channel.refusals import garbled
from gateway.upstream import Metadata
from generated import a2a_pb2 as pb

URI = "urn:a2a-server:replay:v1"
EXTENSIONS = "a2a-extensions"

_EVENT = pb.StreamResponse.DESCRIPTOR.full_name
_LARGEST = 2**53


class Item(NamedTuple):
    """One message of a stream."""

    number: int
    wire: bytes


class Numbers:
    """Asks for the extension, whatever the client asks for; upstreams that do not know it ignore it (EXTN-02).

    What the client has not asked for is taken out again, so that it sees what it would see without a channel.
    """

    def __init__(self, method: MethodDescriptor, metadata: Metadata) -> None:
        self._possible = method.output_type.full_name == _EVENT
        self._wanted = any(name == EXTENSIONS and URI in _uris(value) for name, value in metadata)
        self.active = False
        """Whether the upstream has agreed, which it says before the first item."""

    def ask(self, metadata: Metadata) -> Metadata:
        """What to send."""
        return metadata if self._wanted or not self._possible else [*metadata, (EXTENSIONS, URI)]

    def answered(self, metadata: Metadata) -> Metadata:
        """Note what the upstream has activated; return what the client should know of it."""
        told: list[tuple[str, str | bytes]] = []
        for name, value in metadata:
            uris = _uris(value) if name == EXTENSIONS else ()
            self.active = self.active or URI in uris
            if URI not in uris or self._wanted:
                told.append((name, value))
            elif left := ", ".join(uri for uri in uris if uri != URI):
                told.append((name, left))
        return told

    def read(self, wire: bytes) -> Item:
        """Find the number of an event."""
        if not self.active:
            return Item(0, wire)
        try:
            event = pb.StreamResponse.FromString(wire)
        except DecodeError:
            raise garbled(_EVENT) from None
        kind = event.WhichOneof("payload")
        update = getattr(event, kind) if kind else None
        if update is None or URI not in update.metadata.fields:
            return Item(0, wire)
        number = _whole(update.metadata.fields[URI].number_value)
        if self._wanted:
            return Item(number, wire)
        del update.metadata.fields[URI]
        if not update.metadata.fields:
            update.ClearField("metadata")
        return Item(number, event.SerializeToString())


def _uris(value: str | bytes) -> tuple[str, ...]:
    return tuple(uri.strip() for uri in value.split(",")) if isinstance(value, str) else ()


def _whole(number: float) -> int:
    return int(number) if 0 < number < _LARGEST and number.is_integer() else 0
