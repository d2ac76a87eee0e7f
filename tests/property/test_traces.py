"""Whatever callers say of their traces, what is passed on is well-formed, bounded and unchanged (spec: TRAC-01)."""

from __future__ import annotations

import string

from hypothesis import example, given
from hypothesis import strategies as st

from a2a_server.domain.trace import trace_of

HEX = frozenset("0123456789abcdef")
VISIBLE = frozenset(map(chr, range(0x20, 0x7F)))


def hexadecimal(length: int) -> st.SearchStrategy[str]:
    return st.text("0123456789abcdef", min_size=length, max_size=length)


parents = st.builds("-".join, st.tuples(hexadecimal(2), hexadecimal(32), hexadecimal(16), hexadecimal(2)))
endings = st.sampled_from(["", "-", "-x", "-more of it", "x", " ", "\n", "-\r\n", "-" + "x" * 73, "-\u00e9"])
almost = st.builds(str.__add__, parents, endings)
"""Well-formed ones, and those that are so but for one thing."""
lines = st.lists(st.one_of(almost, st.text(max_size=140)), max_size=3)
states = st.lists(st.text(st.one_of(st.characters(), st.sampled_from(string.printable)), max_size=600), max_size=3)


def well_formed(parent: str) -> bool:
    """The standard's words, one by one and without a pattern."""
    if len(parent) > 128 or not set(parent) <= VISIBLE or parent != parent.strip():
        return False
    fields, rest = parent[:55].split("-"), parent[55:]
    if [len(field) for field in fields] != [2, 32, 16, 2] or any(set(field) - HEX for field in fields):
        return False
    version, trace, span, _ = fields
    behind = not rest if version == "00" else rest[:1] in {"", "-"}
    return behind and version != "ff" and bool(trace.strip("0")) and bool(span.strip("0"))


@given(lines)
@example([f"00-{'0' * 32}-{'1' * 16}-01"])
@example([f"ff-{'1' * 32}-{'1' * 16}-01"])
def test_exactly_what_is_well_formed_is_passed_on_unchanged(found: list[str]) -> None:
    trace = trace_of({"traceparent": tuple(found)})
    assert (trace is not None) == (len(found) == 1 and well_formed(found[0]))
    assert trace is None or trace.parent == found[0]


@given(parents.filter(well_formed), states)
def test_a_state_never_costs_the_parent_and_is_always_one_line(parent: str, told: list[str]) -> None:
    trace = trace_of({"traceparent": (parent,), "tracestate": tuple(told)})
    assert trace is not None
    for value in trace.headers().values():
        assert 0 < len(value) <= 512
        assert set(value) <= VISIBLE
        assert value == value.strip()
    if trace.state:
        assert trace.state == ",".join(text for text in told if text).strip(" ")
