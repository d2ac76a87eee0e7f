"""What is taken for a trace, and what is ignored (spec: TRAC-01; W3C Trace Context, level 1)."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from a2a_server.domain.trace import Trace, trace_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("parent", "why"),
    [
        (PARENT, "the example of the standard"),
        (f"00-{TRACE}-{SPAN}-00", "not sampled, and a trace all the same"),
        (f"00-{TRACE}-{SPAN}-ff", "flags that have no meaning yet"),
        (f"00-{'0' * 31}1-{'0' * 15}1-00", "the smallest ids"),
        (f"01-{TRACE}-{SPAN}-01", "a later version that adds nothing"),
        (f"cc-{TRACE}-{SPAN}-01-what the future will bring", "a later version that adds something"),
        (f"fe-{TRACE}-{SPAN}-01-", "the last version there can be"),
        (f"01-{TRACE}-{SPAN}-01-{'x' * 72}", "as long as may be"),
    ],
)
def test_a_parent_is_taken_as_it_is(parent: str, why: str) -> None:
    assert trace_of({"traceparent": (parent,)}) == Trace(parent), why


@pytest.mark.parametrize(
    ("parent", "why"),
    [
        ("", "nothing"),
        (f"ff-{TRACE}-{SPAN}-01", "the version that is none"),
        (f"0-{TRACE}-{SPAN}-01", "half a version"),
        (f"0g-{TRACE}-{SPAN}-01", "a version that is no number"),
        (f"FE-{TRACE}-{SPAN}-01", "capitals"),
        (f"00-{TRACE.upper()}-{SPAN}-01", "capitals"),
        (f"00-{TRACE}-{SPAN.upper()}-01", "capitals"),
        (f"00-{TRACE}-{SPAN}-0A", "capitals"),
        (f"00-{'0' * 32}-{SPAN}-01", "no trace"),
        (f"00-{TRACE}-{'0' * 16}-01", "no parent"),
        (f"cc-{'0' * 32}-{SPAN}-01", "no trace, in a later version"),
        (f"cc-{TRACE}-{'0' * 16}-01", "no parent, in a later version"),
        (f"00-{TRACE[1:]}-{SPAN}-01", "too short a trace"),
        (f"00-{TRACE}0-{SPAN}-01", "too long a trace"),
        (f"00-{TRACE}-{SPAN[1:]}-01", "too short a parent"),
        (f"00-{TRACE}-{SPAN}", "no flags"),
        (f"00-{TRACE}-{SPAN}-1", "half of the flags"),
        (f"00_{TRACE}_{SPAN}_01", "other hyphens"),
        (f"{PARENT}-", "version 00 with something behind it"),
        (f"{PARENT}-more", "version 00 with something behind it"),
        (f"01-{TRACE}-{SPAN}-01.more", "a later version that goes on without a hyphen"),
        (f"01-{TRACE}-{SPAN}-01x", "a later version that goes on without a hyphen"),
        (f"01-{TRACE}-{SPAN}-01-{'x' * 73}", "longer than may be"),
        (f"01-{TRACE}-{SPAN}-01-\u00e9", "beyond ASCII"),
        (f"01-{TRACE}-{SPAN}-01-a\r\nSet-Cookie: b", "more than one header"),
        (f"01-{TRACE}-{SPAN}-01-a\x00", "a character that no header carries"),
        (f"01-{TRACE}-{SPAN}-01-a ", "a blank that HTTP would take off"),
        (f" {PARENT}", "a blank in front"),
        (f"{PARENT}\n", "a line's end behind"),
        (f"{PARENT},{PARENT}", "two in one line"),
        (f"00-{TRACE[:-1]}\u0661-{SPAN}-01", "a digit of another script"),
    ],
)
def test_a_malformed_parent_is_ignored_with_all_that_comes_with_it(parent: str, why: str) -> None:
    assert trace_of({"traceparent": (parent,), "tracestate": ("a=1",)}) is None, why


def test_of_several_parents_none_is_believed() -> None:
    assert trace_of({"traceparent": (PARENT, PARENT)}) is None
    assert trace_of({"traceparent": (PARENT, "")}) is None
    assert trace_of({"traceparent": ()}) is None
    assert trace_of({"tracestate": ("a=1",)}) is None


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        (("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",), "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        (("a=1", "b=2,c=3"), "a=1,b=2,c=3"),
        (("", "a=1", ""), "a=1"),
        ((" a=1 , b=2 ",), "a=1 , b=2"),
        (("x" * 512,), "x" * 512),
        ((), ""),
        (("",), ""),
        (("x" * 513,), ""),
        (("x" * 256, "y" * 256), ""),
        (("a=\u00e9",), ""),
        (("a=1\r\nSet-Cookie: b",), ""),
        (("a=1", "b=\t"), ""),
    ],
)
def test_a_state_is_one_line_of_bounded_length_or_left_out_alone(lines: tuple[str, ...], state: str) -> None:
    assert trace_of({"traceparent": (PARENT,), "tracestate": lines}) == Trace(PARENT, state)


def test_its_headers_are_what_to_send() -> None:
    assert Trace(PARENT, "a=1").headers() == {"traceparent": PARENT, "tracestate": "a=1"}
    assert Trace(PARENT).headers() == {"traceparent": PARENT}


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
