"""Whatever JSON is sent, it is read as json_format reads it, but for what the specification demands."""

from typing import Any

import pytest
from google.protobuf import struct_pb2
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_server.domain.free_form import TOO_DEEP, too_deep
from a2a_server.protocol.codec import wellknown
from a2a_server.protocol.codec.faults import Faults
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.json_v1 import V1
from tests.support.effort import effort
from tests.unit.gateway.codec.oracle import Refused, reading
from tests.unit.gateway.codec.strategies import JSON, KINDS, NAMES, json_of

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
    assert faults_of(read, value, kind()) == ([("", TOO_DEEP)] if too_deep(built) else [])


def faults_of(read: Any, value: Any, message: Message) -> list[tuple[str, str]]:
    try:
        read(value, message)
    except Faults as faults:
        return faults.found
    return []


@given(value=JSON, kind=st.sampled_from(KINDS))
def test_any_json_is_read_or_refused(value: Any, kind: Any) -> None:
    answer(value, kind)
