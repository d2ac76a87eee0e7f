"""How many values a request may hold, as JSON and as protobuf."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar, cast

import pytest
from google.protobuf.message import DecodeError, Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import NotJson, loads, read_in_steps, sizes
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.json_v1 import V1

MOST = 1000
T = TypeVar("T")
SHAPES = {
    "empty objects": (b"[" + b"{}," * 329 + b"1]", b"{},"),
    "empty lists": (b"[" + b"[]," * 329 + b"1]", b"[],"),
    "numbers": (b"[" + b"1," * 980 + b"1]", b"1,"),
    "texts": (b"[" + b'"a",' * 980 + b"1]", b'"a",'),
    "nested lists": (b"[" + b"[[[[[[[[]]]]]]]]," * 57 + b"1]", b"[[]],"),
    "nested objects": (b"[" + b'{"a":{"a":{"a":{}}}},' * 108 + b"1]", b'{"a":1},'),
    "lists of one": (b"[" + b"[1]," * 325 + b"1]", b"[1],"),
}


def check_json(raw: bytes, most: int, setting: str) -> int:
    return taken(sizes.count_strings(raw, most, setting))


def check_wire(raw: bytes, kind: type[Message], most: int, setting: str) -> None:
    taken(sizes.read_wire(raw, kind, most, setting))


def taken(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("T", end.value)


def sent(data: bytes) -> bytes:
    return b'{"message":{"parts":[{"data":%b}]}}' % data


@pytest.mark.req("LIMT-01")
@pytest.mark.parametrize("shape", list(SHAPES))
def test_values_are_bounded_whatever_they_are(shape: str) -> None:
    data, more = SHAPES[shape]
    allowed, refused = sent(data), sent(b"[" + more * 1000 + data[1:])
    check_json(allowed, MOST, "a.setting")
    wires = [V1.decode(loads(raw), pb.SendMessageRequest).SerializeToString() for raw in (allowed, refused)]
    check_wire(wires[0], pb.SendMessageRequest, MOST, "a.setting")  # what passes as JSON passes as protobuf
    with pytest.raises(A2AError, match=r"^The request has too many values: at most 1000 are taken \(a\.setting\)\.$"):
        check_json(refused, MOST, "a.setting")
    with pytest.raises(A2AError, match=r"at most 200 are taken \(a\.setting\)") as caught:
        check_wire(wires[1], pb.SendMessageRequest, MOST // 5, "a.setting")
    assert caught.value.reason is Reason.BODY_TOO_LARGE


@pytest.mark.parametrize("text", ["[{,}]" * 1000, '\\"[,]' * 500, "\\\\", '\\\\","' * 500, "x" * 100_000])
def test_what_stands_in_strings_does_not_count(text: str) -> None:
    message = pb.SendMessageRequest(message=pb.Message(parts=[{"text": text}]))
    check_json(V1.encode(message) + b" " * MOST, MOST, "")
    check_wire(message.SerializeToString(), pb.SendMessageRequest, MOST, "")


@pytest.mark.parametrize("raw", [b'["' + b"[" * 2000, b'"\\' * 1000, b"[" * 900 + b" " * 2000, b"\\" * 2001])
def test_what_is_no_json_is_left_to_the_parser(raw: bytes) -> None:
    check_json(raw, MOST, "")


SLICE = 2**18
LONG = b"x" * (SLICE - 5)


@pytest.mark.parametrize("shift", range(10))
@pytest.mark.parametrize("text", [b'\\\\\\"[,{', b"\\\\\\\\", b'\\"\\"\\"\\"', b"\\u0022\\u005c", "é€😀".encode()])
def test_strings_are_counted_wherever_a_step_ends(text: bytes, shift: int) -> None:
    """Also between a backslash and what it escapes."""
    long = LONG[shift:] + text
    raw = b'{"%b":["%b",1,"%b"],"":"%b"}' % (long, text, long, LONG)
    assert check_json(raw, 10, "") == 5
    assert taken(read_in_steps(raw, 64, 10, "")).value == loads(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1,"a":2}',
        b'{"a":{"b":["",""]},"c":[{"a":"","a":""}]}',
        b'{"a":1,"\\u0061":2}',
        b'{"a":"\\u0022","a":""}',
        b'{"a":"\\"","b":[],"b":[]}',
        b'{"t":"%b","a":1,"a":2}' % (b"x" * 2**20),
        b"[" * 5 + b"]" * 5,
        b'{"a":' * 5 + b"{}" + b"}" * 5,
        b"[[[[1]]]]",
        b'["a",2.5,null,{"a":"b","c":{}}]',
        b'{"a":"a","b":"a"}',
        b"[1",
        b"1",
        b'"',
        b"\xff",
    ],
)
def test_large_texts_are_judged_as_small_ones(raw: bytes) -> None:
    """With the same words, too."""
    outcome = taken(read_in_steps(raw, 4, MOST, ""))
    if outcome.fault is None:
        assert loads(outcome) == loads(raw, max_depth=4)
        return
    with pytest.raises(NotJson) as small:
        loads(raw, max_depth=4)
    with pytest.raises(NotJson) as large:
        loads(outcome)
    assert large.value.message == small.value.message


def test_no_step_is_long() -> None:
    """A step looks at 256 KiB of JSON, or 8,192 fields of protobuf, whatever they are."""
    for raw in (b'"%b"' % (b"x" * 2**22), b'["%b"]' % (b'\\"' * 2**21), b'"' * 2**22):
        assert len([*sizes.count_strings(raw, MOST, "")]) >= 16
    message = pb.SendMessageRequest()
    for _ in range(25_000):
        message.message.parts.add().data.list_value.values.add().struct_value.SetInParent()
    assert len([*sizes.read_wire(message.SerializeToString(), pb.SendMessageRequest, 10**6, "")]) >= 15


def test_large_texts_are_refused_wherever_the_values_are() -> None:
    padding = b'"' + b"x" * 2**21 + b'"'
    check_json(b"[" + padding + b",1" * 900 + b"]", MOST, "")
    for raw in (b"[" + padding + b",1" * 1000 + b"]", b"[" + b"1," * 1000 + padding + b"]", b'["",' * MOST + padding):
        with pytest.raises(A2AError, match="too many values"):
            check_json(raw, MOST, "")


@pytest.mark.parametrize(
    "raw",
    [
        b"\x0a\x05" + b"x" * 3,  # longer than what is there
        b"\x12\x02\x12\x05" + b"\x78\x01" * 20,  # longer than the message around it
        b"\x80" * 30,
        b"\x78" + b"\xff" * 11 + b"\x01" * 20,
        b"\x7f" * 30,
        b"\x79" + b"x" * 4,
        b"\x78",
    ],
)
def test_what_is_no_message_is_refused_at_once(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        check_wire(raw, pb.SendMessageRequest, len(raw) - 1, "")


def test_unknown_fields_count_as_well() -> None:
    unknown = b"\xf8\x06\x01" + b"\xf9\x06" + b"x" * 8 + b"\xfd\x06" + b"x" * 4 + b"\xf3\x06\xf4\x06" + b"\xfa\x06\x01x"
    assert pb.SendMessageRequest.FromString(unknown)
    check_wire(unknown * 100, pb.SendMessageRequest, 600, "")
    with pytest.raises(A2AError, match="too many values"):
        check_wire(unknown * 101, pb.SendMessageRequest, 600, "")
