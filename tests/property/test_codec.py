"""The codec reads and writes as json_format does, except where the specification differs; texts as json.loads does."""

import json
import re
from typing import Any

import orjson
import pytest
from google.protobuf import struct_pb2
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_server.domain.free_form import TOO_DEEP, fault_of
from a2a_server.protocol.codec import NotJson, loads, wellknown
from a2a_server.protocol.codec.faults import WRONG, note
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.json_v1 import V1
from tests.support.effort import effort
from tests.unit.protocol.codec.oracle import Refused, reading
from tests.unit.protocol.codec.reference import canonical, written
from tests.unit.protocol.codec.strategies import JSON, KINDS, NAMES, TEXTS, json_of, messages

PER_KIND = settings(max_examples=effort(5, everything=15), deadline=None)


def answer(value: Any, kind: Any) -> Any:
    try:
        return V1.decode(value, kind)
    except A2AError as error:
        return "refused" if error.violations else error


def expected(value: Any, kind: Any) -> Any:
    try:
        return reading(value, kind)
    except Refused:
        return "refused"


@pytest.mark.req("JSON-03", "JSON-04", "JSON-05", "JSON-06")
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
@PER_KIND
@given(st.data())
def test_json_is_read_as_by_json_format(kind: Any, data: st.DataObject) -> None:
    value = data.draw(json_of(kind))
    assert answer(value, kind) == expected(value, kind)


@pytest.mark.req("GEN-06")
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
@PER_KIND
@given(st.data())
def test_unknown_members_change_nothing(kind: Any, data: st.DataObject) -> None:
    value = data.draw(json_of(kind))
    unknown = data.draw(st.dictionaries(st.sampled_from(["unheardOf", "[x.y]", "", "unheard_of"]), JSON, max_size=2))
    assert answer(unknown | value, kind) == answer(value, kind)


BRANCH = st.lists(st.booleans(), min_size=20, max_size=60)
LEAF: st.SearchStrategy[Any] = st.sampled_from([None, "x", "x" * 200, {}, []])


@pytest.mark.req("EXTN-08", "JSON-06")
@pytest.mark.parametrize(
    ("kind", "read"), [(struct_pb2.Struct, wellknown.read_struct), (struct_pb2.Value, wellknown.read_value)]
)
@settings(max_examples=effort(75, everything=300))
@given(leaf=LEAF, branch=BRANCH)
def test_free_values_may_be_as_deep_as_in_a_message(kind: Any, read: Any, leaf: Any, branch: list[bool]) -> None:
    """Told by the gateway, which knows the field's name in JSON, and not by whatever server stands behind it."""
    value: Any = leaf
    for is_object in [*branch, True]:
        value = {"a": value} if is_object else [value]
    built = kind()
    fill = built if kind is struct_pb2.Struct else built.struct_value
    fill.update(value)
    assert faults_of(read, value, kind()) == ([("", TOO_DEEP)] if fault_of(built) == TOO_DEEP else [])


def faults_of(read: Any, value: Any, message: Message) -> list[tuple[str, str]]:
    try:
        read(value, message)
    except WRONG as error:
        return note(None, "", "", value, error).found
    return []


@given(value=JSON, kind=st.sampled_from(KINDS))
def test_any_json_is_read_or_refused(value: Any, kind: Any) -> None:
    answer(value, kind)


MEMBERS = st.sampled_from(["a", "b", '"', "\\", "é", "a\n", "\\u0022", ""])
PAIRS = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | MEMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(MEMBERS, inner), max_size=3).map(tuple),
    max_leaves=8,
)
"""JSON whose objects are tuples of pairs, so that they can repeat a name."""


class Spelling:
    """Ways to write the same JSON."""

    def __init__(self, *, ascii_only: bool, space: str, escape_quotes: bool) -> None:
        self.ascii_only, self.space, self.escape_quotes = ascii_only, space, escape_quotes

    def write(self, value: Any) -> str:
        if isinstance(value, tuple):
            members = (f"{self.write(name)}{self.space}:{self.write(item)}" for name, item in value)
            return f"{{{','.join(members)}}}"
        if isinstance(value, list):
            return f"[{self.space}{','.join(map(self.write, value))}]"
        text = json.dumps(value, ensure_ascii=self.ascii_only)
        return re.sub(r"\\(.)", _spelt_out, text) if self.escape_quotes else text


def _spelt_out(found: re.Match[str]) -> str:
    return "\\u0022" if found[1] == '"' else found[0]


SPACES = st.sampled_from(["", " \n"])
SPELLINGS = st.builds(Spelling, ascii_only=st.booleans(), space=SPACES, escape_quotes=st.booleans())


def repeats(value: Any) -> bool:
    if isinstance(value, tuple):
        names = [name for name, _ in value]
        return len(names) > len(set(names)) or any(repeats(item) for _, item in value)
    return isinstance(value, list) and any(map(repeats, value))


@given(value=PAIRS, spelling=SPELLINGS)
def test_repeated_members_are_refused_and_nothing_else(value: Any, spelling: Spelling) -> None:
    text = spelling.write(value)
    if repeats(value):
        with pytest.raises(NotJson, match="more than once"):
            loads(text.encode())
    else:
        assert loads(text.encode()) == json.loads(text)


@given(value=JSON, cut=st.integers(0, 60), put=st.binary(max_size=2), ascii_only=st.booleans())
def test_broken_json_is_refused_and_never_more(value: Any, cut: int, put: bytes, *, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    text = text[:cut] + put + text[cut + len(put) :]
    try:
        found = loads(text)
    except NotJson:
        return
    assert found == json.loads(text)


WRITING = settings(max_examples=effort(7, everything=20), deadline=None)


@pytest.mark.req("JSON-01", "JSON-02", "JSON-03", "JSON-07", "JSON-08", "JSON-09", "JSON-10")
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
@WRITING
@given(st.data())
def test_json_is_that_of_json_format(kind: Any, data: st.DataObject) -> None:
    message = data.draw(messages(kind))
    assert canonical(orjson.loads(V1.encode(message))) == canonical(written(message))


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
@WRITING
@given(st.data())
def test_what_is_written_is_read_and_written_alike(kind: Any, data: st.DataObject) -> None:
    text = V1.encode(data.draw(messages(kind)))
    again = V1.decode(loads(text), kind)
    assert orjson.loads(V1.encode(again)) == orjson.loads(text)
