"""Whatever JSON is sent, it is read as json_format reads it, but for what the specification demands."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_server.errors import A2AError
from gateway.dialects.v1 import V1
from tests.unit.gateway.codec.oracle import Refused, reading
from tests.unit.gateway.codec.strategies import JSON, KINDS, NAMES, json_of

PER_KIND = settings(max_examples=15, deadline=None)


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


@given(value=JSON, kind=st.sampled_from(KINDS))
def test_any_json_is_read_or_refused(value: Any, kind: Any) -> None:
    answer(value, kind)
