"""Turns messages into JSON and back, in a dialect of ProtoJSON, and parses JSON (spec: JSON, DOOR-04, CONF-54)."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Generator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import orjson
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from a2a_server.protocol.codec.compiler import Function
from a2a_server.protocol.codec.dialect import Complaint, Dialect, descriptor_of
from a2a_server.protocol.codec.faults import WRONG, Faults, expected_message, note, raise_faults
from a2a_server.protocol.codec.reader import JsonReaders
from a2a_server.protocol.codec.scalars import unwritable
from a2a_server.protocol.codec.sizes import count_strings
from a2a_server.protocol.codec.writer import JsonWriters
from a2a_server.protocol.errors import A2AError, Reason

DEEPEST: Final = 64

_LARGE: Final = 2**20
"""In texts larger than this, the error does not name the member that occurs twice."""
_STRUCTURE: Final = b'"[{'
_REST: Final = bytes(set(range(256)) - set(_STRUCTURE))


class NotJson(A2AError):  # noqa: N818 - says what the text is
    """The text is not JSON, or parsers could disagree about it: -32700 on JSON-RPC, 400 elsewhere."""

    def __init__(self, what: str) -> None:
        super().__init__(Reason.INVALID_PARAMS, f"This is not valid JSON: {what}.")
        self.what = what


class ReadText(NamedTuple):
    """A JSON text that has been read already, because it is large; `loads` returns the value or raises the fault."""

    value: Any  # mypyc does not find `object`
    fault: NotJson | None = None


JsonText: TypeAlias = bytes | ReadText


def loads(text: JsonText, *, max_depth: int = DEEPEST) -> object:
    """Read a JSON text. Refuse what parsers could understand differently."""
    if isinstance(text, ReadText):
        if text.fault is not None:
            raise text.fault
        return text.value
    value = _parsed(text)
    structure, again = text.translate(None, _REST), orjson.dumps(value)
    suspect = again != text and (again.translate(None, _REST) != structure or (b"\\" in text and b"\\u0022" in text))
    if suspect or structure.count(b"{") + structure.count(b"[") > max_depth:  # most texts are not looked at any closer
        strings = text.replace(b"\\\\", b"").replace(b'\\"', b"").count(b'"') // 2
        _refuse_repetition(text, value, strings, max_depth)
    return value


def read_in_steps(text: bytes, max_depth: int, most: int, setting: str) -> Generator[None, None, ReadText]:
    """Do the same with a large text, in steps, and refuse it if it holds too many values."""
    strings = yield from count_strings(text, most, setting)
    try:
        value = _parsed(text)
        yield
        _refuse_repetition(text, value, strings, max_depth)
    except NotJson as fault:
        return ReadText(None, fault)
    return ReadText(value)


def _parsed(text: bytes) -> object:
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise NotJson(f"{error.msg} (line {error.lineno}, column {error.colno})") from None
    return value


def _count_strings(value: object, max_depth: int) -> int:
    """Count the strings of a value, names of members included, and refuse one that nests too deeply."""
    level, strings, depth = [value], 0, 0
    while level:
        outer = [item for item in level if isinstance(item, dict | list)]
        if outer and depth == max_depth:
            raise NotJson(f"it nests deeper than {max_depth} objects and lists")
        strings += sum([isinstance(item, str) for item in level]) + sum([len(it) for it in outer if type(it) is dict])
        level = [item for one in outer for item in (one.values() if isinstance(one, dict) else one)]
        depth += 1
    return strings


def _refuse_repetition(text: bytes, value: object, strings: int, max_depth: int) -> None:
    r"""Refuse a member that an object holds twice: orjson keeps only the last one, so there are fewer strings then.

    `loads` suspects a text that has other quotes when it is written again, or that hides quotes as `\u0022`. Python's
    slower parser, which sees every member, finds the name.
    """
    if _count_strings(value, max_depth) < strings:
        if len(text) <= _LARGE:
            json.loads(text, object_pairs_hook=_distinct, parse_int=str, parse_float=str)
        raise NotJson("an object holds a member more than once")


def _distinct(members: list[tuple[str, object]]) -> None:
    name, times = Counter(name for name, _ in members).most_common(1)[0] if members else ("", 0)
    if times > 1:
        raise NotJson(f"an object holds the member {json.dumps(name[:40])} more than once")


Key = tuple[type, bytes]

_OVERHEAD: Final = 300
"""Roughly what Python needs for an entry besides its two texts."""
_LARGEST_SHARE: Final = 8


class Memo:
    """Keeps JSON texts of messages in at most `room` bytes; the least recently used one is dropped first.

    A text larger than an eighth of the room is not kept.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: OrderedDict[Key, bytes] = OrderedDict()
        self._size = 0

    def get(self, key: Key) -> bytes | None:
        text = self._kept.get(key)
        if text is not None:
            self._kept.move_to_end(key)
        return text

    def put(self, key: Key, text: bytes) -> bytes:
        text = bytes(memoryview(text))  # a copy: what orjson returns occupies at least 4 KiB
        size = _size(key, text)
        if size > self._room // _LARGEST_SHARE:
            return text
        if (old := self._kept.pop(key, None)) is not None:
            self._size -= _size(key, old)
        self._kept[key] = text
        self._size += size
        while self._size > self._room:
            self._size -= _size(*self._kept.popitem(last=False))
        return text


def _size(key: Key, text: bytes) -> int:
    return len(key[1]) + len(text) + _OVERHEAD


M = TypeVar("M", bound=Message)

_MEMO_BYTES: Final = 32 * 2**20
_NOTHING: Final[Mapping[str, Complaint]] = {}


class Codec:
    """Turns messages of any type into JSON and back. Functions for a type are generated when it is first used.

    It agrees with `google.protobuf.json_format` except where the dialect or the specification differs: unknown enum
    names, wrong types and two spellings of one field are always errors, unknown members never.
    """

    def __init__(self, dialect: Dialect, *, memo_bytes: int = _MEMO_BYTES) -> None:
        self._dialect = dialect
        self._writers = JsonWriters(dialect)
        self._readers = JsonReaders(dialect)
        self._memo = Memo(memo_bytes)
        self._writing: dict[type[Message], Function] = {}
        self._reading: dict[type[Message], Function] = {}

    def encode(self, message: Message) -> bytes:
        """Return the JSON text of a message, in UTF-8."""
        kind = type(message)
        if (write := self._writing.get(kind)) is None:
            write = self._writing[kind] = self._writers.of(descriptor_of(kind))
        return orjson.dumps(write(message))

    def encode_kept(self, message: Message, wire: bytes = b"") -> bytes:
        """Do the same, and keep the text: for answers that are likely to be asked for again."""
        key = type(message), wire or message.SerializeToString()
        return self._memo.get(key) or self._memo.put(key, self.encode(message))

    def encode_wire(self, kind: type[Message], wire: bytes) -> bytes:
        """Return the JSON text of a serialised message, from the memo if it was written recently."""
        text = self.kept(kind, wire)
        return self.keep(kind, wire, self.written(kind, wire)) if text is None else text

    def kept(self, kind: type[Message], wire: bytes) -> bytes | None:
        return self._memo.get((kind, wire))

    def keep(self, kind: type[Message], wire: bytes, text: bytes) -> bytes:
        return self._memo.put((kind, wire), text)

    def written(self, kind: type[Message], wire: bytes) -> bytes:
        """Write the text anew. Unlike the others, this may be called in any thread."""
        try:
            message = kind.FromString(wire)
        except DecodeError:
            raise unwritable(f"it is no {kind.DESCRIPTOR.name}") from None
        return self.encode(message)

    def foreign(self, kind: Descriptor, name: str) -> str:
        """Return why a member of this name is refused whatever its value; empty if it may be ignored."""
        complaint = self._dialect.foreign.get(kind.full_name, _NOTHING).get(name, "")
        return complaint if isinstance(complaint, str) else ""

    def decode(self, value: object, kind: type[M]) -> M:
        """Turn a JSON value, as returned by `loads`, into a message; the error has one `Violation` per fault."""
        if (read := self._reading.get(kind)) is None:
            read = self._reading[kind] = self._readers.of(descriptor_of(kind))
        message = kind()
        try:
            read(value, message)
        except Faults as faults:
            raise_faults(faults)
        except WRONG as error:
            raise_faults(note(None, "", expected_message(descriptor_of(kind), self._dialect), value, error))
        return message
