"""Messages ↔ JSON in one dialect of ProtoJSON (spec: JSON, CONF-54)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import orjson
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from a2a_server.protocol.codec.compiler import Function
from a2a_server.protocol.codec.expected import expected_message
from a2a_server.protocol.codec.faults import WRONG, Faults, complain, raise_faults, unwritable
from a2a_server.protocol.codec.memo import Memo
from a2a_server.protocol.codec.reader import Readers
from a2a_server.protocol.codec.schema import Complaint, Dialect, descriptor_of
from a2a_server.protocol.codec.writer import Writers

M = TypeVar("M", bound=Message)

_MEMO_BYTES: Final = 32 * 2**20
_NOTHING: Final[Mapping[str, Complaint]] = {}


class Codec:
    """Turns messages of any type into JSON and back; functions for a type are generated when it first comes along.

    Agrees with `google.protobuf.json_format` but for what the dialect decides and the specification demands: unknown
    enum names and wrong types are always errors, unknown members never, and two spellings of one field are.
    """

    def __init__(self, dialect: Dialect, *, memo_bytes: int = _MEMO_BYTES) -> None:
        self._dialect = dialect
        self._writers = Writers(dialect)
        self._readers = Readers(dialect)
        self._memo = Memo(memo_bytes)
        self._writing: dict[type[Message], Function] = {}
        self._reading: dict[type[Message], Function] = {}

    def encode(self, message: Message) -> bytes:
        """JSON text of the message, as UTF-8."""
        kind = type(message)
        if (write := self._writing.get(kind)) is None:
            write = self._writing[kind] = self._writers.of(descriptor_of(kind))
        return orjson.dumps(write(message))

    def encode_kept(self, message: Message) -> bytes:
        """The same, kept for the next time: for answers that are asked for again."""
        key = type(message), message.SerializeToString()
        if (text := self._memo.get(key)) is None:
            text = bytes(memoryview(self.encode(message)))  # orjson's own takes 4 KiB, however short it is
            self._memo.put(key, text)
        return text

    def encode_wire(self, kind: type[Message], wire: bytes) -> bytes:
        """JSON text of a serialised message; what was written lately is not written again."""
        key = kind, wire
        if (text := self._memo.get(key)) is None:
            try:
                message = kind.FromString(wire)
            except DecodeError:
                raise unwritable(f"it is no {kind.DESCRIPTOR.name}") from None
            text = bytes(memoryview(self.encode(message)))  # orjson's own takes 4 KiB, however short it is
            self._memo.put(key, text)
        return text

    def foreign(self, kind: Descriptor, name: str) -> str:
        """What is wrong with a member of this name, whatever it says; empty if it may be ignored."""
        complaint = self._dialect.foreign.get(kind.full_name, _NOTHING).get(name, "")
        return complaint if isinstance(complaint, str) else ""

    def decode(self, value: object, kind: type[M]) -> M:
        """The message that a JSON value means, as `loads` has returned it; raises one `Violation` per fault."""
        if (read := self._reading.get(kind)) is None:
            read = self._reading[kind] = self._readers.of(descriptor_of(kind))
        message = kind()
        try:
            read(value, message)
        except Faults as faults:
            raise_faults(faults)
        except WRONG:
            raise_faults(complain(None, "", expected_message(descriptor_of(kind), self._dialect), value))
        return message
