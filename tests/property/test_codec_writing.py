"""Whatever a message holds, it is written as json_format writes it, but for what the specification demands."""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_server.protocol.codec import loads
from a2a_server.protocol.json_v1 import V1
from tests.support.effort import effort
from tests.unit.gateway.codec.reference import canonical, written
from tests.unit.gateway.codec.strategies import KINDS, NAMES, messages

PER_KIND = settings(max_examples=effort(7, everything=20), deadline=None)


@pytest.mark.req("JSON-01", "JSON-02", "JSON-03", "JSON-07", "JSON-08", "JSON-09", "JSON-10")
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
@PER_KIND
@given(st.data())
def test_json_is_that_of_json_format(kind: Any, data: st.DataObject) -> None:
    message = data.draw(messages(kind))
    assert canonical(orjson.loads(V1.encode(message))) == canonical(written(message))


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
@PER_KIND
@given(st.data())
def test_what_is_written_is_read_and_written_alike(kind: Any, data: st.DataObject) -> None:
    text = V1.encode(data.draw(messages(kind)))
    again = V1.decode(loads(text), kind)
    assert orjson.loads(V1.encode(again)) == orjson.loads(text)
