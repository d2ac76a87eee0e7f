"""Whatever a text holds, JSON is read as json.loads reads it; repeated members and deep nesting are refused."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_server.protocol.codec import NotJson, loads
from tests.unit.gateway.codec.strategies import JSON, TEXTS

NAMES = st.sampled_from(["a", "b", '"', "\\", "é", "a\n", "\\u0022", ""])
PAIRS = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | NAMES | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(NAMES, inner), max_size=3).map(tuple),
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
