"""JSON texts are read strictly, and texts that were written before are kept within bounds."""

import gc
import sys
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest
from google.protobuf.descriptor import FieldDescriptor

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import Codec, Dialect, Memo, NotJson, loads
from a2a_server.protocol.codec.compiler import Compiler, Function
from a2a_server.protocol.codec.dialect import Form, Spellings
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.json_v1 import V1
from tests.support.effort import effort
from tests.unit.protocol.codec.everything import Choice, Inner, Lists, Maps, Singles

NESTED = [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")]


def complaint(raw: bytes) -> str:
    with pytest.raises(NotJson) as caught:
        loads(raw)
    assert caught.value.reason is Reason.INVALID_PARAMS
    return caught.value.message.removeprefix("This is not valid JSON: ")


@pytest.mark.req("JSON-12")
@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"", "Input is a zero-length, empty document (line 1, column 1)."),
        (b"{} x", "unexpected content after document (line 1, column 4)."),
        (b'{"a":1}{"a":1}', "unexpected content after document (line 1, column 8)."),
        (b'{\n"a":}', "unexpected character, expected a JSON value (line 2, column 5)."),
        (b"[1,]", "trailing comma is not allowed (line 1, column 3)."),
        (b"{'a':1}", "unexpected character, expected a string key (line 1, column 2)."),
        (b"01", "number with leading zero is not allowed (line 1, column 1)."),
        (b"NaN", "unexpected character, expected a JSON value (line 1, column 1)."),
        (b"[Infinity]", "unexpected character, expected a JSON value (line 1, column 2)."),
        (b"-Infinity", "no digit after sign (line 1, column 2)."),
        (b"1e400", "number is infinity when parsed as double (line 1, column 1)."),
        (b'"\\ud800"', "no low surrogate in string (line 1, column 2)."),
        (b'"\\udfff x"', "invalid high surrogate in string (line 1, column 2)."),
        (b"\xef\xbb\xbf{}", "UTF-8 byte order mark (BOM) is not supported (line 1, column 1)."),
        ('"ü"'.encode("latin-1"), "str is not valid UTF-8: surrogates not allowed (line 1, column 1)."),
        ("{}".encode("utf-16"), "str is not valid UTF-8: surrogates not allowed (line 1, column 1)."),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(raw: bytes, what: str) -> None:
    assert complaint(raw) == what


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b'{"a":1,"a":2}', '"a"'),
        (b'{"a":1,"a":1}', '"a"'),
        (b'[{"x":{"b":1,"c":2,"b":1}}]', '"b"'),
        (b'{"a" : 1, "a":2}', '"a"'),
        (b'{"a":1,"\\u0061":2}', '"a"'),  # the same name in another spelling
        (b'{"a":1,"a":"\\u0022\\u0022"}', '"a"'),  # which makes up for the lost quotes
        (b'{"":1,"":2}', '""'),
        (b'{"' + b"n" * 50 + b'":1,"' + b"n" * 50 + b'":2}', f'"{"n" * 40}"'),
    ],
)
def test_a_member_given_twice_is_refused(raw: bytes, name: str) -> None:
    assert complaint(raw) == f"an object holds the member {name} more than once."


def test_in_a_large_text_a_member_given_twice_has_no_name() -> None:
    """To find the name takes a slower parser."""
    padding = b'"' + b"x" * 2**20 + b'"'
    assert complaint(b'[{"a":1,"a":2},' + padding + b"]") == "an object holds a member more than once."
    assert loads(b'[{"a":"\\u0022"},' + padding + b"]") == [{"a": '"'}, "x" * 2**20]


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'{"a":"\\u0022","b":"\\"","c":"x\\\\"}', {"a": '"', "b": '"', "c": "x\\"}),
        (b'[{"a":1},{"a":1}]', [{"a": 1}, {"a": 1}]),
        (b' {"a" : {"a" : "a" } }\r\n', {"a": {"a": "a"}}),
        (b'{"\\u0061\\/":"\\u00e9\\ud83d\\ude00"}', {"a/": "é\U0001f600"}),
        (b"9007199254740993", 2**53 + 1),
        (b"18446744073709551615", 2**64 - 1),
        (b"123456789012345678901234567890", 123456789012345678901234567890.0),
        (b'"' + b"[" * 100 + b'"', "[" * 100),
    ],
)
def test_what_only_looks_odd_is_read(raw: bytes, value: object) -> None:
    assert loads(raw) == value


@pytest.mark.parametrize(("opening", "closing"), NESTED)
def test_64_levels_are_read_and_65_are_not(opening: bytes, closing: bytes) -> None:
    levels = 64 // sum(map(opening.count, (b"[", b"{")))
    inside = loads(opening * levels + b"1" + closing * levels)
    while isinstance(inside, dict | list):
        inside = inside["a"] if isinstance(inside, dict) else inside[0]
    assert inside == 1
    for deep in (b"[1]", b"{}"):
        text = opening * levels + deep + closing * levels
        assert complaint(text) == "it nests deeper than 64 objects and lists."
    assert complaint(b"[0," + opening * levels + b"1" + closing * levels + b",2]").startswith("it nests deeper")


def test_nesting_is_bounded_before_the_parser_gives_up() -> None:
    assert complaint(b"[" * 100_000) == "depth limit exceeded (line 1, column 1026)."
    assert loads(b"[[1]]", max_depth=2) == [[1]]
    with pytest.raises(NotJson, match="it nests deeper than 1 "):
        loads(b"[[1]]", max_depth=1)


def test_many_brackets_are_no_depth() -> None:
    assert loads(b"[[],{}," + b"[" * 63 + b"]" * 64)
    assert complaint(b"[[],{}," + b"[" * 64 + b"]" * 65) == "it nests deeper than 64 objects and lists."
    assert loads(b"[" + b"{}," * 1000 + b"[]]") == [{}] * 1000 + [[]]


TASK = pb.Task(
    id="t",
    status={"state": pb.TASK_STATE_COMPLETED},
    history=[pb.Message(message_id="m", role=pb.ROLE_USER, parts=[{"text": "x"}])],
    artifacts=[pb.Artifact(artifact_id="a", parts=[{"text": "y"}, {"raw": b"z"}])],
    metadata={"a": [1, {"b": None}]},
)


SMALLEST = sys.getsizeof(object())
STEPS = effort(2000, everything=5000)


def test_an_event_is_encoded_once() -> None:
    codec, wire = Codec(Dialect()), TASK.SerializeToString()
    first = codec.encode_wire(pb.Task, wire)
    assert first == V1.encode(TASK)
    assert codec.encode_wire(pb.Task, bytes(bytearray(wire))) is first
    assert codec.encode_kept(pb.Task.FromString(wire)) is first


def test_an_answer_that_was_read_before_is_the_same_text() -> None:
    codec = Codec(Dialect())
    first = codec.encode_kept(TASK)
    assert first == V1.encode(TASK)
    assert codec.encode_kept(TASK) is first
    assert codec.encode_kept(pb.Task(id="other")) == V1.encode(pb.Task(id="other"))


def test_the_same_bytes_may_be_messages_of_several_kinds() -> None:
    codec, wire = Codec(Dialect()), pb.GetTaskRequest(tenant="a", id="b").SerializeToString()
    assert codec.encode_wire(pb.GetTaskRequest, wire) == b'{"tenant":"a","id":"b"}'
    assert codec.encode_wire(pb.CancelTaskRequest, wire) == b'{"tenant":"a","id":"b"}'
    assert codec.encode_wire(pb.StringList, wire[:3]) == b'{"list":["a"]}'


def test_bytes_that_are_no_message_are_an_error_of_the_answer() -> None:
    with pytest.raises(A2AError, match="it is no Task") as caught:
        V1.encode_wire(pb.Task, b"\xff")
    assert caught.value.reason is Reason.INVALID_AGENT_RESPONSE


def test_what_was_not_asked_for_longest_is_forgotten_first() -> None:
    memo = Memo(8 * 500)
    keys = [(pb.Task, bytes([number]) * 100) for number in range(9)]
    for key in keys[:8]:
        memo.put(key, b"x" * 100)
    assert memo.get(keys[0]) == b"x" * 100
    memo.put(keys[8], b"y" * 100)
    assert memo.get(keys[1]) is None
    assert memo.get(keys[0]) == b"x" * 100
    assert memo.get(keys[8]) == b"y" * 100


def test_the_room_is_never_exceeded() -> None:
    memo = Memo(10_000)
    for number in range(1000):
        memo.put((pb.Task, b"%d" % (number % 300)), b"x" * (number % 700))
    kept = [text for number in range(300) if (text := memo.get((pb.Task, b"%d" % number))) is not None]
    assert 0 < sum(map(len, kept)) <= 10_000
    memo.put((pb.Task, b"large"), b"x" * 2_000)
    assert memo.get((pb.Task, b"large")) is None


def test_an_entry_put_twice_counts_once() -> None:
    memo = Memo(8 * 500)
    for _ in range(50):
        memo.put((pb.Task, b"a"), b"x" * 100)
    for number in range(7):
        memo.put((pb.Task, b"%d" % number), b"y" * 100)
    assert memo.get((pb.Task, b"a")) == b"x" * 100


@pytest.mark.parametrize(
    "step",
    [
        lambda: V1.decode(loads(V1.encode(TASK)), pb.Task),
        lambda: V1.encode_wire(pb.Task, TASK.SerializeToString()),
        lambda: refused({"history": [{"parts": 1, "metadata": {"a": 1}}] * 5, "id": "t", "nonsense": 1}),
    ],
    ids=["round trip", "memo", "refusal"],
)
def test_nothing_is_left_behind(step: Callable[[], object]) -> None:
    def steps(count: int) -> int:
        for _ in range(count):
            step()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = steps(500)
        grown = steps(STEPS) - before
    finally:
        tracemalloc.stop()
    assert grown < STEPS * SMALLEST / 2  # Python itself keeps some memory for the next objects


def refused(value: object) -> None:
    with pytest.raises(A2AError):
        V1.decode(value, pb.Task)


def faults(codec: Codec, value: Any, kind: Any) -> list[tuple[str, str]]:
    with pytest.raises(A2AError) as caught:
        codec.decode(value, kind)
    return [(violation.field, violation.description) for violation in caught.value.violations]


def written(codec: Codec, message: Any) -> Any:
    return orjson.loads(codec.encode(message))


def called(names: Mapping[str, str]) -> Dialect:
    def member(field: FieldDescriptor) -> str:
        return names.get(field.name, field.json_name)

    return Dialect(member=member, also=lambda field: ("another",) if field.name == "one_string" else ())


def test_members_may_be_called_otherwise_or_left_out() -> None:
    codec = Codec(called({"one_string": "text", "one_int32": ""}))
    message = Singles(one_string="a", one_int32=5, one_inner=Inner(some_name="b"))
    assert written(codec, message) == {"text": "a", "oneInner": {"someName": "b"}}
    told = {"text": "a", "oneInt32": "ignored", "one_int32": [], "oneInner": {"someName": "b", "some_name": 1}}
    assert codec.decode(told, Singles) == Singles(one_string="a", one_inner=Inner(some_name="b"))
    assert codec.decode({"another": "a", "oneString": 1}, Singles) == Singles(one_string="a")
    assert faults(codec, {"another": 5}, Singles) == [("text", "must be a string, got 5")]
    assert faults(codec, {"another": "a", "text": "a"}, Singles) == [("text", "is given twice, as text and as another")]


def test_a_choice_is_among_the_members_that_there_are() -> None:
    names = {"a_value": "", "a_nullvalue": "", "a_struct": "", "a_bytes": "", "a_string": "text"}
    codec = Codec(called(names))
    assert written(codec, Choice(a_bytes=b"x")) == {}
    for message, json in ((Choice(a_string=""), {"text": ""}), (Choice(a_int32=5), {"aInt32": 5})):
        assert written(codec, message) == json
        assert codec.decode(json, Choice) == message
    said = "can't be given together with text; only one of text, aInt32, aInner may be"
    assert faults(codec, {"text": "a", "aInt32": 1, "aBytes": 5}, Choice) == [("aInt32", said)]
    assert faults(codec, {"text": "a", "aInner": {}, "aValue": 1}, Choice) == [("aInner", said)]


@pytest.mark.req("LRPC-04", "LRPC-08")
def test_constants_come_first_and_texts_among_them_are_checked() -> None:
    codec = Codec(Dialect(constants={"everything.Inner": {"kind": 'an "inner"', "last": False}}))
    assert codec.encode(Inner(some_name="a")) == b'{"kind":"an \\"inner\\"","last":false,"someName":"a"}'
    sound: list[dict[str, Any]] = [{}, {"kind": 'an "inner"'}, {"kind": None}, {"last": True}, {"last": "whatever"}]
    for told in sound:
        assert codec.decode({**told, "some_name": "a"}, Inner) == Inner(some_name="a")
    assert faults(codec, {"oneInner": {"kind": "other", "someName": 1}}, Singles) == [
        ("oneInner.kind", 'must be "an \\"inner\\"", got "other"'),
        ("oneInner.someName", "must be a string, got 1"),
    ]


@pytest.mark.parametrize("wrong", [5, [], {}, True, ""])
def test_constants_may_not_be_anything_else(wrong: Any) -> None:
    codec = Codec(Dialect(constants={"everything.Inner": {"kind": "inner"}}))
    assert [field for field, _ in faults(codec, {"kind": wrong}, Inner)] == ["kind"]


def test_members_of_other_dialects_are_refused_where_unknown_ones_are_ignored() -> None:
    codec = Codec(Dialect(foreign={"everything.Inner": {"elsewhere": "is not from here"}}))
    assert codec.decode({"unheardOf": 1, "elsewhere": None}, Inner) == Inner()
    assert codec.decode({"elsewhere": 1}, Singles) == Singles()
    told = {"manyInner": [{}, {"elsewhere": 1, "someName": 2}]}
    assert faults(codec, told, Lists) == [
        ("manyInner[1].someName", "must be a string, got 2"),
        ("manyInner[1].elsewhere", "is not from here"),
    ]


def test_enums_may_be_spelt_otherwise_in_all_places() -> None:
    spellings = Spellings({0: "none", 1: "red", 2: "blue"}.__getitem__, {"red": 1, "RED": 1, "blue": 2}, "red or blue")
    codec = Codec(Dialect(enums={"everything.Colour": spellings}))
    for message, json in (
        (Singles(one_colour=1), {"oneColour": "red"}),
        (Lists(many_colour=[1, 2]), {"manyColour": ["red", "blue"]}),
        (Maps(string_colour={"a": 2}), {"stringColour": {"a": "blue"}}),
    ):
        assert written(codec, message) == json
        assert codec.decode(json, type(message)) == message
    assert codec.decode({"oneColour": "RED"}, Singles) == Singles(one_colour=1)
    told = {"oneColour": "COLOUR_RED"}
    assert faults(codec, told, Singles) == [("oneColour", 'must be red or blue, got "COLOUR_RED"')]
    assert [field for field, _ in faults(codec, {"manyColour": ["red", 1, True, [], {}, None]}, Lists)] == [
        f"manyColour[{index}]" for index in range(1, 6)
    ]


def _write_length(_: Compiler) -> Function:
    return lambda inner: len(inner.some_name)


def _read_length(_: Compiler) -> Function:
    def read(value: object, inner: Any) -> None:
        if type(value) is not int:
            raise TypeError
        inner.some_name = "x" * value

    return read


def test_a_type_may_have_a_form_of_its_own() -> None:
    codec = Codec(Dialect(forms={"everything.Inner": Form(_write_length, _read_length, "a length")}))
    for message, json in (
        (Inner(some_name="xx"), 2),
        (Singles(one_inner=Inner()), {"oneInner": 0}),
        (Lists(many_inner=[Inner(some_name="x")]), {"manyInner": [1]}),
        (Maps(string_inner={"a": Inner()}), {"stringInner": {"a": 0}}),
    ):
        assert written(codec, message) == json
        assert codec.decode(json, type(message)) == message
    assert faults(codec, "x", Inner) == [("", 'must be a length, got "x"')]
    assert faults(codec, {"manyInner": [1, {}]}, Lists) == [("manyInner[1]", "must be a length, got an object")]


def test_a_form_may_be_for_one_way_only_and_call_what_would_be_generated() -> None:
    def write(writers: Compiler) -> Function:
        plain = writers.plain(Inner.DESCRIPTOR)
        return lambda inner: {"own": plain(inner)}

    codec = Codec(Dialect(forms={"everything.Inner": Form(write)}))
    assert written(codec, Inner(some_name="a")) == {"own": {"someName": "a"}}
    assert codec.decode({"oneInner": {"some_name": "a"}}, Singles) == Singles(one_inner=Inner(some_name="a"))


def test_a_well_known_type_may_have_another_form() -> None:
    codec = Codec(Dialect(forms={"google.protobuf.StringValue": Form(lambda _: lambda text: f"<{text.value}>")}))
    message = Singles()
    message.one_stringvalue.value = "a"
    assert written(codec, message) == {"oneStringvalue": "<a>"}
    assert codec.decode({"oneStringvalue": "a"}, Singles) == message


def test_a_single_field_may_have_a_form_of_its_own() -> None:
    forms = {
        "everything.Singles.one_bool": Form(lambda _: lambda value: not value, lambda _: lambda value: not value),
        "everything.Singles.one_inner": Form(_write_length, _read_length, "a length"),
    }
    codec = Codec(Dialect(forms=forms, always=lambda field: field.name == "one_bool"))
    message = Singles(one_inner=Inner(some_name="xx"))
    assert written(codec, message) == {"oneBool": True, "oneInner": 2}
    assert codec.decode({"oneBool": True, "oneInner": 2}, Singles) == message
    assert codec.decode({"oneBool": False}, Singles) == Singles(one_bool=True)
    assert faults(codec, {"oneInner": []}, Singles) == [("oneInner", "must be a length, got a list")]
    assert written(codec, Lists(many_inner=[Inner(some_name="a")])) == {"manyInner": [{"someName": "a"}]}
