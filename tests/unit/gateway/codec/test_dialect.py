"""What a dialect may decide, one thing after another."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from google.protobuf.descriptor import FieldDescriptor

from a2a_server.protocol.codec import Codec, Dialect
from a2a_server.protocol.codec.compiler import Compiler, Function
from a2a_server.protocol.codec.dialect import Form, Spellings
from a2a_server.protocol.errors import A2AError
from tests.unit.gateway.codec.everything import Choice, Inner, Lists, Maps, Singles


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
