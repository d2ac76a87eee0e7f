"""Free-form values hold only numbers that JSON can say."""

import math
import struct
from collections.abc import Callable

import pytest
from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.checkers import required_violations
from a2a_server.domain.free_form import NOT_FINITE, is_finite

V = struct_pb2.Value


def number(value: float) -> V:
    return V(number_value=value)


def listed(*values: V) -> V:
    return V(list_value=struct_pb2.ListValue(values=values))


def keyed(value: V) -> V:
    return V(struct_value=struct_pb2.Struct(fields={"k": value}))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, struct.unpack("<d", b"\1\0\0\0\0\0\xf0\xff")[0]])
@pytest.mark.parametrize("inside", [lambda v: v, listed, keyed, lambda v: listed(number(1), keyed(listed(v)))])
def test_numbers_that_json_cannot_say_are_seen_wherever_they_are(wrong: float, inside: Callable[[V], V]) -> None:
    assert not is_finite(inside(number(wrong)))
    assert not is_finite(struct_pb2.Struct(fields={"a": inside(number(wrong))}))


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, 2.0**1023, -1.7976931348623157e308, 5e-324])
def test_all_others_are_fine(value: float) -> None:
    assert is_finite(
        listed(number(value), keyed(number(value)), V(bool_value=True), V(null_value=struct_pb2.NULL_VALUE))
    )


def test_text_that_looks_like_one_is_text() -> None:
    """Here a text's end and the length of what follows it make up the bytes of a NaN."""
    value = listed(V(string_value="\x11aaaaa"), V(string_value="x" * 16365))
    assert b"\x11aaaaa\x0a\xf0\x7f" in value.SerializeToString()
    assert is_finite(value)
    assert not is_finite(listed(value, number(math.inf)))


@pytest.mark.req("GEN-02")
def test_the_field_is_named() -> None:
    part = pb.Part(data=number(math.nan))
    message = pb.Message(message_id="1", role=pb.ROLE_USER, parts=[part])
    faults = required_violations(pb.SendMessageRequest(message=message))
    assert [(fault.field, fault.description) for fault in faults] == [("message.parts[0].data", NOT_FINITE)]
